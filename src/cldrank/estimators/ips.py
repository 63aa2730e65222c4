"""IPS: divides clicks by the propensity of their position, which removes position bias but not selection bias."""

from __future__ import annotations

from typing import Any, Literal, Self

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.estimators.base import check_dataset, check_penalty
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model, is_linear
from cldrank.estimators.neural.lists import click_lists
from cldrank.estimators.neural.pairwise import PairwiseOption
from cldrank.models.linear.rows import check_clicks, check_propensities, regression_rows
from cldrank.models.network import Training
from cldrank.propensity import Propensities


class IPS(PairwiseOption):
    """Linear regression of clicks over propensity on the scaled features, with a ridge penalty (Joachims 2017).

        minimise  Σ_cells n (c/(n ρ) - intercept - x·β)² / Σ n + l2 ‖β‖²

    `clip` raises propensities below it to it, for less variance and some bias; `propensities_` are those used, and say
    which positions were raised. With model="mlp", an `MLP` or a torch module: pairs of candidates in the order of
    c/(n ρ), as the paper's baseline; their weights are divided by the mean weight of a query.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> IPS(l2=0).fit(data, clicks, Propensities.power(1, k=2)).predict(data).round(3)
    array([0.2, 0.4, 0.6])
    """

    propensities_: Propensities

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
        clip: float | None = None,
        cluster: Literal["query"] | None = None,
        model: Model = "linear",
        epochs: int = EPOCHS,
        learning_rate: float = LEARNING_RATE,
        seed: int = 0,
        device: str | None = None,
        training: Training | None = None,
    ) -> None:
        self.l2 = l2
        self.scaling = scaling
        self.clip = clip
        self.cluster = cluster
        self.model = model
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed
        self.device = device
        self.training = training

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset and the propensities of their positions."""
        data = check_dataset(dataset, "IPS")
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "IPS")
        rho = check_propensities(propensities, table, "IPS", self.clip)
        if is_linear(self.model):
            self._regress(data, scaling, regression_rows(data, table, rho), l2)
        else:
            self._fit_pairs(data, scaling, click_lists(data, table, rho))
        self.propensities_ = rho
        return self

    def _facts(self) -> list[tuple[str, str]]:
        return [*super()._facts(), ("propensities", repr(self.propensities_))]
