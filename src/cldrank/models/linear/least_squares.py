"""Weighted least squares with a ridge penalty, over blocks of scaled features; exact, in float64."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.inference import COLLINEAR, INTERCEPT, Estimates, QuerySquares, covariance, determined
from cldrank.models.linear.rows import Rows, rows_of
from cldrank.models.targets import Targets
from cldrank.optimise import Vector

if TYPE_CHECKING:
    from cldrank.models.linear.model import Linear


def fit_least_squares(model: Linear, targets: Targets, context: Context) -> Fit:
    """Fit a linear model to targets."""
    data = context.data
    rows = rows_of(context, model.scaling, targets, rows=targets.rows)
    regression = regress(rows, data.feature_names, float(model.l2), cluster=model.cluster is not None)
    if not regression.moving.any():
        raise DataError(
            f"all features of {data!r} are constant over the rows to learn from; nothing distinguishes these rows."
        )
    names = np.array(data.feature_names, dtype=object)
    return linear_fit(
        context,
        rows.view.scaling,
        regression.coefficients,
        regression.intercept,
        regression.estimates,
        log_likelihood=regression.log_likelihood,
        observed=rows.observed,
        errors=model.errors,
        constant=names[~regression.moving],
        collinear=names[regression.collinear],
    )


class LeastSquaresSums(NamedTuple):
    """All that least squares needs to know of some rows: means, and sums of products of deviations from them."""

    weight: float
    feature_means: NDArray[np.float64]  # (features,)
    target_mean: float
    gram: NDArray[np.float64]  # (features, features)
    cross: NDArray[np.float64]  # (features,)
    squares: float  # of the target
    moving: NDArray[np.bool_]  # (features,): whether a feature takes more than one value

    first: NDArray[np.float64]  # (features,): of the first row

    @classmethod
    def of(cls, part: NDArray[np.float32], own: Targets) -> LeastSquaresSums:
        """Those of one block of scaled rows, whose last column is all ones."""
        block = part[:, :-1].astype(np.float64)
        first = block[0].copy()
        moving = (block != first).any(axis=0)
        total = float(own.weight.sum())
        means, target_mean = own.weight @ block / total, float(own.weight @ own.target / total)
        root = np.sqrt(own.weight)
        block -= means
        block *= root[:, None]
        away = root * (own.target - target_mean)
        return cls(total, means, target_mean, block.T @ block, block.T @ away, float(away @ away), moving, first)

    def joined(self, other: LeastSquaresSums) -> LeastSquaresSums:
        """The sums of both sets of rows.

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
            self.moving | other.moving | (self.first != other.first),
            self.first,
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


def regress(rows: Rows, names: tuple[str, ...], l2: float, *, cluster: bool = False) -> Regression:
    """Ridge regression with standard errors from the observed information, or robust to dependence within queries.

    minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
    """
    sums = rows.fold(LeastSquaresSums.of, LeastSquaresSums.joined)
    coefficients, intercept = ridge(sums, l2)
    residual = sums.squares - 2 * coefficients @ sums.cross + coefficients @ sums.gram @ coefficients
    variance = max(float(residual + rows.observed.spread_total), 0.0) / sums.weight
    moving = np.flatnonzero(sums.moving)
    information = np.zeros((len(moving) + 1, len(moving) + 1))
    information[:-1, :-1] = sums.gram[np.ix_(moving, moving)]
    information[np.diag_indices(len(moving))] += sums.weight * l2
    information[-1, -1] = sums.weight
    middle = None
    if cluster:
        by_query = partial(_query_squares, sums.feature_means, sums.target_mean, coefficients, moving)
        middle = rows.fold(by_query, QuerySquares.joined).total
    spread = covariance(information, middle, rows.observed.n_queries if cluster else 0)
    if middle is None:
        spread *= variance  # with clusters, the residuals are in the middle already
    turn = np.eye(len(moving) + 1)
    turn[-1, :-1] = -sums.feature_means[moving]  # the design was centred
    labels = (*(names[column] for column in moving), INTERCEPT)
    estimates = Estimates(
        ("relevance",) * len(labels), labels, np.append(coefficients[moving], intercept), turn @ spread @ turn.T
    )
    likelihood = -0.5 * sums.weight * (np.log(2 * np.pi * variance) + 1) if variance > 0 else np.inf
    return Regression(
        coefficients, intercept, float(np.sqrt(variance)), estimates, float(likelihood), sums.moving, collinear(sums)
    )


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
    dependent = np.zeros(len(sums.moving), dtype=bool)
    dependent[sums.moving] = determined(sums.gram[np.ix_(sums.moving, sums.moving)])
    return dependent


def _query_squares(
    means: Vector, target_mean: float, coefficients: Vector, moving: IntArray, part: NDArray[np.float32], own: Targets
) -> QuerySquares:
    """The squares of g = Σ w (x, 1) residual over the rows of a query, x centred."""
    centred = part[:, :-1].astype(np.float64) - means
    away = own.weight * (own.target - target_mean - centred @ coefficients)
    extended = np.hstack([centred[:, moving], np.ones((len(part), 1))])
    return QuerySquares.of(own.queries, extended * away[:, None])
