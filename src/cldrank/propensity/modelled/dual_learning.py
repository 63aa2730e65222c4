"""`DualLearning`: a ranker and propensities that correct each other while both are trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cldrank._typing import IntArray
from cldrank.models import Linear, Network
from cldrank.parameters import parameter, value
from cldrank.propensity.modelled.relevance import ModelledCurve, ModelledRelevance
from cldrank.propensity.modelled.training import NETWORK, ShownCandidates

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task


@value
class DualLearning(ModelledRelevance):
    """The dual learning algorithm (DLA, Ai et al. 2018), on lists of cells.

        ranking:      -Σ_k c_k (ρ_1 / ρ_k) log softmax(f)_k
        examination:  -Σ_k c_k (e^f(x_1) / e^f(x_k)) log softmax(log ρ)_k

    Each loss weights clicks by the inverse of what the other model has learned so far. There is no one objective whose
    optimum it would be; intervals come from networks trained anew on resampled queries.

    >>> DualLearning(refits=4)
    DualLearning(refits=4)
    """

    model: Linear | Network = parameter(default=NETWORK, about="Of relevance", option=False)

    name = "dual-learning"
    label = "Dual learning"
    sentence = "One ranker; a network of relevance trained beside the curve, so trust it less"
    order = 31

    def _estimate(self, shown: ShownCandidates) -> ModelledCurve:
        return self._by_networks(shown)

    def _task(self, network: torch.nn.Module, place: IntArray, size: int) -> Task:
        from cldrank.models.network.examination import DualLists

        return DualLists(network, place, size)
