"""Oracle: learns from the true labels of all candidates, and so marks the ceiling for all that learn from clicks."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.estimators.base import Estimator, check_dataset, check_labels, check_penalty

_COLLINEAR = 1e-12  # of a feature's variance; float32 rounding of the features leaves about 1e-14


class Oracle(Estimator):
    """Linear regression of the labels, as they are, on the scaled features, with a ridge penalty.

        minimise  mean_i (label_i - intercept - x_i·β)² + l2 ‖β‖²

    Solved exactly in float64. `constant_features_` names the features without any variation, whose coefficient is 0;
    `collinear_features_` names those that the features before them determine: the ranking is sound, their own
    coefficients mean little.

    >>> data = RankingDataset.from_arrays([[0, 1], [1, 1], [2, 1], [3, 1]], [1, 1, 2, 2], labels=[0, 1, 2, 3])
    >>> oracle = Oracle(l2=0).fit(data)
    >>> oracle.predict(data).round(6)
    array([0., 1., 2., 3.])
    >>> oracle.constant_features_
    ('f2',)
    """

    coef_: NDArray[np.float64]
    intercept_: float
    constant_features_: tuple[str, ...]
    collinear_features_: tuple[str, ...]

    def __init__(self, l2: float = 1e-3, scaling: str | scalings.Method | None = "standard") -> None:
        self.l2 = l2
        self.scaling = scaling

    def fit(self, dataset: RankingDataset, clicks: Any = None, propensities: Any = None) -> Self:
        """Learn from the labels of the dataset; clicks and propensities are taken, as by all, and not used."""
        del clicks, propensities
        data = check_dataset(dataset, "Oracle")
        labels = check_labels(data, "Oracle")
        l2 = check_penalty(self.l2)
        scaling = scalings.fit(self.scaling, data.features)
        sums = least_squares_sums(scaling, data.features, labels)
        if not sums.moving.any():
            raise DataError(f"all features of {data!r} are constant; there is nothing to tell its rows apart by.")
        coefficients, intercept = ridge(sums, l2)
        self._leave_linear(data, scaling, coefficients, intercept)
        names = np.array(data.feature_names, dtype=object)
        self.constant_features_ = tuple(names[~sums.moving])
        self.collinear_features_ = tuple(names[collinear(sums)])
        return self


class LeastSquaresSums(NamedTuple):
    """All that least squares needs to know of some rows: means, and sums of products of deviations from them."""

    rows: int
    feature_means: NDArray[np.float64]  # (features,)
    target_mean: float
    gram: NDArray[np.float64]  # (features, features)
    cross: NDArray[np.float64]  # (features,)
    moving: NDArray[np.bool_]  # (features,): whether a feature takes more than one value

    def joined(self, other: LeastSquaresSums, differs: NDArray[np.bool_]) -> LeastSquaresSums:
        """The sums of both sets of rows; `differs` says where the first rows of the two differ.

        With deviations from each set's own mean there is no difference of large sums, so no digits are lost.
        """
        rows = self.rows + other.rows
        share = other.rows / rows
        step = other.feature_means - self.feature_means
        target_step = other.target_mean - self.target_mean
        weight = self.rows * share
        return LeastSquaresSums(
            rows,
            self.feature_means + step * share,
            self.target_mean + target_step * share,
            self.gram + other.gram + weight * np.outer(step, step),
            self.cross + other.cross + weight * target_step * step,
            self.moving | other.moving | differs,
        )


def least_squares_sums(
    scaling: scalings.Scaling, features: NDArray[np.float32], target: NDArray[Any], block_rows: int | None = None
) -> LeastSquaresSums:
    """The sums over all rows of the scaled features, block by block: memory does not grow with the rows."""
    total: LeastSquaresSums | None = None
    first_row = None
    for rows, block in scaling.blocks(features, block_rows=block_rows):
        sums, row = _sums_of_block(block.astype(np.float64), target[rows].astype(np.float64))
        if total is None or first_row is None:
            total, first_row = sums, row
        else:
            total = total.joined(sums, row != first_row)
    if total is None:
        raise AssertionError("a dataset to learn from has rows")
    return total


def _sums_of_block(
    block: NDArray[np.float64], target: NDArray[np.float64]
) -> tuple[LeastSquaresSums, NDArray[np.float64]]:
    """The sums of one block, which is overwritten, and its first row."""
    first_row = block[0].copy()
    moving = (block != first_row).any(axis=0)
    means, target_mean = block.mean(axis=0), float(target.mean())
    block -= means
    gram = block.T @ block
    return LeastSquaresSums(len(block), means, target_mean, gram, block.T @ (target - target_mean), moving), first_row


def ridge(sums: LeastSquaresSums, l2: float) -> tuple[NDArray[np.float64], float]:
    """Coefficients and intercept that minimise mean squared error + l2 ‖coefficients‖².

        (G + l2 I) β = g,    intercept = mean target - β · mean features

    Solved after scaling to a unit diagonal, so that features of very different size lose no digits. What `_COLLINEAR`
    cannot tell from 0 gets no weight.
    """
    coefficients = np.zeros(len(sums.cross))
    moving = sums.moving
    gram = sums.gram[np.ix_(moving, moving)] / sums.rows
    gram[np.diag_indices_from(gram)] += l2
    size = 1 / np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram * np.outer(size, size))
    kept = values > _COLLINEAR
    vectors = vectors[:, kept]
    right = sums.cross[moving] / sums.rows * size
    coefficients[moving] = size * (vectors @ ((vectors.T @ right) / values[kept]))
    return coefficients, float(sums.target_mean - coefficients @ sums.feature_means)


def collinear(sums: LeastSquaresSums) -> NDArray[np.bool_]:
    """Which features the ones before them determine linearly, all but a share `_COLLINEAR` of their variance.

    A Cholesky factorisation of the correlations that leaves out each feature as it turns out to be determined.
    """
    size = np.sqrt(np.diag(sums.gram))
    size[~sums.moving] = 1.0
    correlation = sums.gram / np.outer(size, size)
    width = len(size)
    determined = np.zeros(width, dtype=bool)
    factor = np.zeros((width, width))  # row j: the part of feature j that each earlier, independent feature explains
    for index in np.flatnonzero(sums.moving):
        unexplained = correlation[index, index] - factor[index] @ factor[index]
        if unexplained <= _COLLINEAR:
            determined[index] = True
            continue
        factor[:, index] = (correlation[:, index] - factor @ factor[index]) / np.sqrt(unexplained)
    return determined
