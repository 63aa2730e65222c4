"""Naive: takes clicks for relevance, and so learns where documents were shown as much as what they are."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.estimators.base import check_dataset, check_penalty
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model, is_linear
from cldrank.estimators.neural.lists import click_lists
from cldrank.estimators.neural.pairwise import PairwiseOption
from cldrank.models.linear.rows import check_clicks, regression_rows
from cldrank.models.network import Training


class Naive(PairwiseOption):
    """Linear regression of clicks on the scaled features over all impressions, with a ridge penalty.

        minimise  Σ_cells n (c/n - intercept - x·β)² / Σ n + l2 ‖β‖²

    The same as over single impressions, each clicked or not. Neither positions nor what was not shown count. With
    model="mlp", an `MLP` or a torch module: pairs of candidates in the order of c/n, as the paper's baseline.

    >>> from cldrank.clicks.table import ClickTable
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> Naive(l2=0).fit(data, clicks).predict(data).round(3)
    array([0.1, 0.4, 0.7])
    """

    targets: ClassVar[str] = "clicks as they are"

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.ScalingRule | None = "standard",
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
        self.cluster = cluster
        self.model = model
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.seed = seed
        self.device = device
        self.training = training

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the clicks on a dataset; propensities are taken, as by all, and not used."""
        del propensities
        data = check_dataset(dataset, "Naive")
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        table = check_clicks(clicks, data, "Naive")
        if is_linear(self.model):
            self._regress(data, scaling, regression_rows(data, table, None), l2)
        else:
            self._fit_pairs(data, scaling, click_lists(data, table, None))
        return self
