"""Oracle: learns from the true labels of all candidates, and so marks the ceiling for all that learn from clicks."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.estimators.base import check_dataset, check_labels, check_penalty
from cldrank.estimators.neural.estimator import EPOCHS, LEARNING_RATE, Model, is_linear
from cldrank.estimators.neural.lists import label_lists
from cldrank.estimators.neural.pairwise import PairwiseOption
from cldrank.models.linear.least_squares import Rows
from cldrank.models.network import Training


class Oracle(PairwiseOption):
    """Linear regression of the labels, as they are, on the scaled features, with a ridge penalty.

        minimise  mean_i (label_i - intercept - x_i·β)² + l2 ‖β‖²

    Solved exactly in float64. `constant_features_` names the features without any variation, whose coefficient is 0;
    `collinear_features_` names those that the features before them determine: the ranking is sound, their own
    coefficients mean little. With cluster="query", standard errors are robust to dependence within queries. With
    model="mlp", an `MLP` or a torch module: pairs of candidates in the order of their labels.

    >>> data = RankingDataset.from_arrays([[0, 1], [1, 1], [2, 1], [3, 1]], [1, 1, 2, 2], labels=[0, 1, 2, 3])
    >>> oracle = Oracle(l2=0).fit(data)
    >>> oracle.predict(data).round(6)
    array([0., 1., 2., 3.])
    >>> oracle.constant_features_
    ('f2',)
    """

    targets: ClassVar[str] = "labels"

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
        """Learn from the labels of the dataset; clicks and propensities are taken, as by all, and not used."""
        del clicks, propensities
        data = check_dataset(dataset, "Oracle")
        labels = check_labels(data, "Oracle")
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        if is_linear(self.model):
            target = labels.astype(np.float64)
            rows = Rows(None, target, np.ones_like(target), np.zeros_like(target), data.row_queries)
            self._regress(data, scaling, rows, l2)
        else:
            self._fit_pairs(data, scaling, label_lists(data, labels))
        return self
