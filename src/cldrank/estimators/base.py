"""What all estimators share: one signature of `fit`, a ranker as the result, and scikit-learn's habits."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import sklearn.exceptions
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.rankers import LinearRanker, Provenance, Ranker
from cldrank.scaling import Scaling

_LARGEST = sys.float_info.max  # a whole number may be larger, and then is none that can be reckoned with


class NotFittedError(UsageError, sklearn.exceptions.NotFittedError):
    """An estimator is used before `fit`."""


class Estimator(BaseEstimator, ABC):
    """A method of learning a ranker.

    A fit leaves `ranker_`, `feature_names_in_` and `n_features_in_`; a linear one also `coef_` and `intercept_`, which
    belong to the scaled features.
    """

    ranker_: Ranker
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int

    @abstractmethod
    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from a dataset, the clicks on it, and the propensities of the positions."""

    def predict(self, X: RankingDataset | ArrayLike) -> NDArray[np.float64]:
        """The scores of the learned ranker, one per row."""
        self._check_fitted()
        return self.ranker_.score(X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "ranker_"):
            raise NotFittedError(f"this {type(self).__name__} has not learned anything yet; call fit first.")

    def _provenance(self, dataset: RankingDataset) -> Provenance:
        parameters = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        return Provenance(
            estimator=type(self).__name__,
            parameters=parameters,
            data=dataset.name,
            synthetic=dataset.synthetic,
            rows=dataset.n_rows,
            queries=dataset.n_queries,
        )

    def _leave(self, ranker: Ranker) -> None:
        """Take a ranker as the result of the fit, and forget what an earlier fit left."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.ranker_ = ranker
        self.feature_names_in_ = np.array(ranker.feature_names, dtype=object)
        self.n_features_in_ = len(ranker.feature_names)

    def _leave_linear(
        self, dataset: RankingDataset, scaling: Scaling, coefficients: NDArray[np.float64], intercept: float
    ) -> None:
        """Take a linear ranker as the result of the fit."""
        ranker = LinearRanker(
            feature_names=dataset.feature_names,
            scaling=scaling,
            coefficients=coefficients,
            intercept=intercept,
            provenance=self._provenance(dataset),
        )
        self._leave(ranker)
        self.coef_ = ranker.coefficients
        self.intercept_ = ranker.intercept


def check_dataset(dataset: Any, user: str) -> RankingDataset:
    """Refuse what is not a dataset with rows and features; `user` is who asks."""
    if not isinstance(dataset, RankingDataset):
        raise UsageError(
            f"{user} learns from a RankingDataset, not from a {type(dataset).__name__}; "
            "make one with RankingDataset.from_arrays(features, qid, labels)."
        )
    if not dataset.features.size:
        raise DataError(f"{dataset!r} has nothing for {user} to learn from: it needs rows and features.")
    return dataset


def check_labels(dataset: RankingDataset, user: str) -> NDArray[np.float32]:
    """The labels of a dataset; refused where there are none, or where all are equal."""
    labels = dataset.labels
    if labels is None:
        raise DataError(f"{dataset!r} has no labels, and {user} learns from labels.")
    if labels.min() == labels.max():
        raise DataError(f"all {len(labels):,} labels are {labels[0]:g}; {user} needs labels that differ.")
    return labels


def check_penalty(l2: Any) -> float:
    """The ridge penalty as a number; refused where it is negative, not finite, or no number."""
    number = isinstance(l2, int | float | np.integer | np.floating) and not isinstance(l2, bool)
    if not number or not 0 <= l2 <= _LARGEST:
        raise UsageError(f"l2 must be a number of at least 0, not {l2!r}.")
    return float(l2)


def check_share(name: str, value: Any) -> None:
    """Refuse what is not a number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= _LARGEST:
        raise UsageError(f"{name} must be a number of at least 0, not {value!r}.")


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and np.isfinite(value) else repr(value)
