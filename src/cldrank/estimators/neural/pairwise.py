"""`PairwiseOption`: estimators that are linear and pointwise, or a network trained on pairs, as their `model` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.estimators.neural.estimator import NeuralFit, is_linear
from cldrank.models.linear.estimator import LinearEstimator
from cldrank.models.network.lists import Lists

if TYPE_CHECKING:
    import torch

    from cldrank.models.network.tasks import Task


class PairwiseOption(NeuralFit, LinearEstimator):
    """With model="linear", a regression; with any other model, pairs of one query in the order of their targets.

        minimise  -Σ_{t_i > t_j} (t_i - t_j) min(n_i, n_j) log σ(f(x_i) - f(x_j))

    where t is what the method takes for relevance and n what it weighs, over the mean weight of a query.
    """

    cluster: Literal["query"] | None

    def _fit_pairs(self, data: RankingDataset, scaling: scalings.Scaling, lists: Lists) -> None:
        if self.cluster is not None:
            raise UsageError(f"cluster={self.cluster!r} is for model='linear'; a network has no standard errors.")
        self._fit_network(data, scaling, lists, _pairs)

    def summary(self) -> str:
        """The fit as a table to read."""
        return super().summary() if is_linear(self.model) else self._network_summary()


def _pairs(network: torch.nn.Module, width: int) -> Task:
    from cldrank.models.network.tasks import Pairs

    del width
    return Pairs(network)
