"""`DualLearning`: a ranker and propensities that correct each other while both are trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cldrank._typing import IntArray
from cldrank.models import MLP, Model
from cldrank.propensity.modelled import Found, ModelledRelevance, Shown

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task

NETWORK = MLP(epochs=40, learning_rate=5e-3, l2=1e-5, batch_queries=32, warmup=0.0, validation=0.0)


@dataclass(frozen=True, repr=False)
class DualLearning(ModelledRelevance):
    """The dual learning algorithm (DLA, Ai et al. 2018), on lists of cells.

        ranking:      -Σ_k c_k (ρ_1 / ρ_k) log softmax(f)_k
        examination:  -Σ_k c_k (e^f(x_1) / e^f(x_k)) log softmax(log ρ)_k

    Each loss weighs clicks by the inverse of what the other model has learned so far. There is no one objective whose
    optimum it would be; intervals come from networks trained anew on resampled queries. `ranker_` is the ranker.

    >>> DualLearning(refits=5)
    DualLearning(refits=5)
    """

    model: Model = NETWORK

    def _estimate(self, shown: Shown) -> Found:
        return self._by_networks(shown)

    def _task(self, network: torch.nn.Module, place: IntArray, size: int) -> Task:
        from cldrank.models.network.examination import DualLists

        return DualLists(network, place, size)
