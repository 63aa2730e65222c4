"""`PerQuery`: a method as scikit-learn's model selection wants it, with queries as samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.estimators import Method
from cldrank.estimators.evidence import needed
from cldrank.propensity import AffineClicks, Propensities
from cldrank.tuning.judging import held_out_score


class PerQuery(BaseEstimator):
    """A method with all that it learns from, whose X is an array of query numbers: what scikit-learn splits.

    `GridSearchCV`, `cross_val_score`, `GroupKFold` and the like split X; a part of the queries is a part of the
    dataset and of its clicks. A row is not a sample here: a method compares the candidates of a query, and clicks
    are counted per candidate and position.

    method         what is fitted; its parameters are `method__clip`, `method__model__l2`, …
    dataset        the candidates of all queries
    clicks, propensities   as `fit` of the method takes them; held-out queries are judged by them
    measure        None to judge by held-out clicks, or a measure of labels, such as nDCG@10

    A fit leaves `method_`, and its `ranker_`.

    >>> from sklearn.model_selection import GridSearchCV
    >>> from cldrank.estimators import IPS
    >>> data = RankingDataset.from_arrays(np.random.default_rng(0).normal(size=(160, 2)), np.arange(160) // 4)
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[1, 2, 3, 0] * 40, impressions=[9, 9, 9, 0] * 40, clicks=[5, 3, 1, 0] * 40
    ... )
    >>> whole = PerQuery(IPS(), data, clicks, Propensities.power(1, 3))
    >>> search = GridSearchCV(whole, {"method__model__l2": [0.001, 1.0]}, cv=4)
    >>> found = search.fit(np.arange(len(data)))
    >>> len(found.cv_results_["mean_test_score"]), found.best_estimator_.ranker_
    (2, LinearRanker(2 features, ..., trained by IPS on data without a name))
    """

    def __init__(
        self,
        method: Method,
        dataset: RankingDataset,
        clicks: ClickTable | None = None,
        propensities: Propensities | AffineClicks | None = None,
        measure: str | None = None,
    ) -> None:
        self.method = method
        self.dataset = dataset
        self.clicks = clicks
        self.propensities = propensities
        self.measure = measure

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fit the method to some queries, given by their numbers in the dataset, from 0."""
        if y is not None:
            raise UsageError("y has no place here: labels and clicks belong to the dataset; call fit(queries).")
        queries = self._queries(X)
        clicks = None if self.clicks is None else self.clicks[queries]
        method: Method = clone(self.method)
        self.method_ = method.fit(self.dataset[queries], *needed(method.required, clicks, self.propensities))
        self.ranker_ = self.method_.ranker_
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The scores of all candidates of some queries, one query after the other."""
        found: NDArray[np.float64] = self._fitted().predict(self.dataset[self._queries(X)])
        return found

    def score(self, X: ArrayLike, y: object = None) -> float:
        """How well it ranks the candidates of some queries: see `Method.score`."""
        del y
        queries = self._queries(X)
        clicks = None if self.clicks is None or self.measure is not None else self.clicks[queries]
        curve = None if clicks is None else self.propensities
        return held_out_score(self._fitted(), self.dataset[queries], clicks, curve, self.measure)

    def _fitted(self) -> Method:
        if not hasattr(self, "method_"):
            raise UsageError("this PerQuery has not learned anything yet; call fit first.")
        return self.method_

    def _queries(self, X: Any) -> IntArray:
        """The numbers of queries, checked."""
        queries = np.asarray(X)
        if queries.ndim == 2 and queries.shape[1] == 1:
            queries = queries[:, 0]
        if queries.ndim != 1 or queries.dtype.kind not in "iu":
            raise UsageError(
                f"X holds the numbers of queries, such as np.arange(len(dataset)), not an array of {queries.dtype} of "
                f"shape {queries.shape}; features, labels and clicks belong to the dataset."
            )
        outside = queries[(queries < 0) | (queries >= len(self.dataset))]
        if len(outside):
            raise UsageError(f"there is no query {outside[0]}; the numbers go from 0 to {len(self.dataset) - 1}.")
        return queries.astype(np.int64)
