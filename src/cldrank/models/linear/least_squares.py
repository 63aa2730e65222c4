"""Weighted least squares with a ridge penalty, over blocks of scaled features; exact, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.models.linear.inference import (
    COLLINEAR,
    INTERCEPT,
    Estimates,
    covariance,
    determined,
    grouped,
    sum_of_squares,
)
from cldrank.models.targets import Targets
from cldrank.optimise import Matrix, Vector

_BLOCK_VALUES = 1 << 18


class LeastSquaresSums(NamedTuple):
    """All that least squares needs to know of some rows: means, and sums of products of deviations from them."""

    weight: float
    feature_means: NDArray[np.float64]  # (features,)
    target_mean: float
    gram: NDArray[np.float64]  # (features, features)
    cross: NDArray[np.float64]  # (features,)
    squares: float  # of the target
    moving: NDArray[np.bool_]  # (features,): whether a feature takes more than one value

    def joined(self, other: LeastSquaresSums, differs: NDArray[np.bool_]) -> LeastSquaresSums:
        """The sums of both sets of rows; `differs` says where the first rows of the two differ.

        With deviations from each set's own mean there is no difference of large sums, so no digits are lost.
        """
        weight = self.weight + other.weight
        share = other.weight / weight
        step = other.feature_means - self.feature_means
        target_step = other.target_mean - self.target_mean
        lever = self.weight * share
        return LeastSquaresSums(
            weight,
            self.feature_means + step * share,
            self.target_mean + target_step * share,
            self.gram + other.gram + lever * np.outer(step, step),
            self.cross + other.cross + lever * target_step * step,
            self.squares + other.squares + lever * target_step**2,
            self.moving | other.moving | differs,
        )


class Regression(NamedTuple):
    """A regression with all that is to be said about it; coefficients belong to the scaled features."""

    coefficients: NDArray[np.float64]
    intercept: float
    sigma: float  # the standard deviation of one observation around its score
    estimates: Estimates
    log_likelihood: float
    moving: NDArray[np.bool_]
    collinear: NDArray[np.bool_]


def regress(
    scaling: scalings.Scaling,
    features: NDArray[np.float32],
    rows: Targets,
    names: tuple[str, ...],
    l2: float,
    *,
    cluster: bool = False,
    block_rows: int | None = None,
) -> Regression:
    """Ridge regression with standard errors from the observed information, or robust to dependence within queries.

    minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
    """
    sums = least_squares_sums(scaling, features, rows.target, block_rows, rows=rows.rows, weight=rows.weight)
    coefficients, intercept = ridge(sums, l2)
    residual = sums.squares - 2 * coefficients @ sums.cross + coefficients @ sums.gram @ coefficients
    variance = max(float(residual + rows.weight @ rows.spread), 0.0) / sums.weight
    moving = np.flatnonzero(sums.moving)
    information = np.zeros((len(moving) + 1, len(moving) + 1))
    information[:-1, :-1] = sums.gram[np.ix_(moving, moving)]
    information[np.diag_indices(len(moving))] += sums.weight * l2
    information[-1, -1] = sums.weight
    middle = None
    if cluster:
        middle = _clustered(scaling, features, rows, sums, moving, coefficients, block_rows)
    found = covariance(information, middle, len(np.unique(rows.queries)))
    if middle is None:
        found *= variance  # with clusters, the residuals are in the middle already
    turn = np.eye(len(moving) + 1)
    turn[-1, :-1] = -sums.feature_means[moving]  # the design was centred
    labels = (*(names[column] for column in moving), INTERCEPT)
    estimates = Estimates(
        ("relevance",) * len(labels), labels, np.append(coefficients[moving], intercept), turn @ found @ turn.T
    )
    likelihood = -0.5 * sums.weight * (np.log(2 * np.pi * variance) + 1) if variance > 0 else np.inf
    return Regression(
        coefficients, intercept, float(np.sqrt(variance)), estimates, float(likelihood), sums.moving, collinear(sums)
    )


def least_squares_sums(
    scaling: scalings.Scaling,
    features: NDArray[np.float32],
    target: NDArray[Any],
    block_rows: int | None = None,
    *,
    rows: IntArray | None = None,
    weight: NDArray[np.float64] | None = None,
) -> LeastSquaresSums:
    """The sums over all rows of the scaled features, block by block: memory does not grow with the rows."""
    total: LeastSquaresSums | None = None
    first_row = None
    for own, block in _blocks(scaling, features, rows, block_rows):
        weights = np.ones(len(block)) if weight is None else weight[own]
        sums, row = _sums_of_block(block, target[own].astype(np.float64), weights)
        if total is None or first_row is None:
            total, first_row = sums, row
        else:
            total = total.joined(sums, row != first_row)
    if total is None:
        raise AssertionError("a dataset to learn from has rows")
    return total


def ridge(sums: LeastSquaresSums, l2: float) -> tuple[NDArray[np.float64], float]:
    """Coefficients and intercept that minimise mean squared error + l2 ‖coefficients‖².

        (G + l2 I) β = g,    intercept = mean target - β · mean features

    Solved after scaling to a unit diagonal, so that features of very different size lose no digits. What `COLLINEAR`
    cannot tell from 0 gets no weight.
    """
    coefficients = np.zeros(len(sums.cross))
    moving = sums.moving
    gram = sums.gram[np.ix_(moving, moving)] / sums.weight
    gram[np.diag_indices_from(gram)] += l2
    size = 1 / np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram * np.outer(size, size))
    kept = values > COLLINEAR
    vectors = vectors[:, kept]
    right = sums.cross[moving] / sums.weight * size
    coefficients[moving] = size * (vectors @ ((vectors.T @ right) / values[kept]))
    return coefficients, float(sums.target_mean - coefficients @ sums.feature_means)


def collinear(sums: LeastSquaresSums) -> NDArray[np.bool_]:
    """Which features the ones before them determine linearly, all but a share `COLLINEAR` of their variance."""
    found = np.zeros(len(sums.moving), dtype=bool)
    found[sums.moving] = determined(sums.gram[np.ix_(sums.moving, sums.moving)])
    return found


def _blocks(
    scaling: scalings.Scaling, features: NDArray[np.float32], rows: IntArray | None, block_rows: int | None
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Scaled rows in float64, block by block, each with its place among the rows."""
    if rows is None or len(rows) == len(features):  # every row, in order: read in place, not gathered
        for own, block in scaling.blocks(features, block_rows=block_rows):
            yield own, block.astype(np.float64)
        return
    size = block_rows or max(1, _BLOCK_VALUES // features.shape[1])
    for start in range(0, len(rows), size):
        own = slice(start, min(start + size, len(rows)))
        yield own, scaling.transform(features[rows[own]]).astype(np.float64)


def _sums_of_block(
    block: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[LeastSquaresSums, NDArray[np.float64]]:
    """The sums of one block, which is overwritten, and its first row."""
    first_row = block[0].copy()
    moving = (block != first_row).any(axis=0)
    total = float(weight.sum())
    means, target_mean = weight @ block / total, float(weight @ target / total)
    root = np.sqrt(weight)
    block -= means
    block *= root[:, None]
    away = root * (target - target_mean)
    sums = LeastSquaresSums(total, means, target_mean, block.T @ block, block.T @ away, float(away @ away), moving)
    return sums, first_row


def _clustered(
    scaling: scalings.Scaling,
    features: NDArray[np.float32],
    rows: Targets,
    sums: LeastSquaresSums,
    moving: IntArray,
    coefficients: Vector,
    block_rows: int | None,
) -> Matrix:
    """Σ over queries of g gᵀ, g = Σ w (x, 1) residual over the rows of the query, x centred."""

    def gradients() -> Iterator[tuple[IntArray, Matrix]]:
        for own, block in _blocks(scaling, features, rows.rows, block_rows):
            centred = block - sums.feature_means
            away = rows.weight[own] * (rows.target[own] - sums.target_mean - centred @ coefficients)
            extended = np.hstack([centred[:, moving], np.ones((len(block), 1))])
            yield grouped(rows.queries[own], extended * away[:, None])

    return sum_of_squares(gradients(), len(moving) + 1)
