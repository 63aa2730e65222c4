"""Oracle: learns from the true labels of all candidates, and so marks the ceiling for all that learn from clicks."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.estimators.base import check_dataset, check_labels, check_penalty
from cldrank.estimators.linear.estimator import LinearEstimator
from cldrank.estimators.linear.least_squares import Rows


class Oracle(LinearEstimator):
    """Linear regression of the labels, as they are, on the scaled features, with a ridge penalty.

        minimise  mean_i (label_i - intercept - x_i·β)² + l2 ‖β‖²

    Solved exactly in float64. `constant_features_` names the features without any variation, whose coefficient is 0;
    `collinear_features_` names those that the features before them determine: the ranking is sound, their own
    coefficients mean little. With cluster="query", standard errors are robust to dependence within queries.

    >>> data = RankingDataset.from_arrays([[0, 1], [1, 1], [2, 1], [3, 1]], [1, 1, 2, 2], labels=[0, 1, 2, 3])
    >>> oracle = Oracle(l2=0).fit(data)
    >>> oracle.predict(data).round(6)
    array([0., 1., 2., 3.])
    >>> oracle.constant_features_
    ('f2',)
    """

    def __init__(
        self,
        l2: float = 1e-3,
        scaling: str | scalings.Method | None = "standard",
        cluster: Literal["query"] | None = None,
    ) -> None:
        self.l2 = l2
        self.scaling = scaling
        self.cluster = cluster

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the labels of the dataset; clicks and propensities are taken, as by all, and not used."""
        del clicks, propensities
        data = check_dataset(dataset, "Oracle")
        labels = check_labels(data, "Oracle").astype(np.float64)
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        rows = Rows(None, labels, np.ones_like(labels), np.zeros_like(labels), data.row_queries)
        self._regress(data, scaling, rows, l2)
        return self
