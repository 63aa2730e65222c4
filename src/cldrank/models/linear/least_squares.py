"""Weighted least squares with a ridge penalty, over blocks of scaled features; exact, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.row_blocks import rows_of
from cldrank.models.targets import Targets

if TYPE_CHECKING:
    from cldrank.models.linear.linear_model import Linear

_COLLINEAR = 1e-12  # of a feature's variance; float32 rounding of the features leaves about 1e-14


class LeastSquaresSums(NamedTuple):
    """All that least squares needs to know of some rows: means, and sums of products of deviations from them."""

    weight: float
    feature_means: NDArray[np.float64]  # (features,)
    target_mean: float
    gram: NDArray[np.float64]  # (features, features)
    cross: NDArray[np.float64]  # (features,)
    moving: NDArray[np.bool_]  # (features,): whether a feature varies
    first: NDArray[np.float64]  # (features,): of the first row

    @classmethod
    def of(cls, part: NDArray[np.float32], own: Targets) -> LeastSquaresSums:
        """The sums of a block of scaled rows, whose last column is all ones."""
        block = part[:, :-1].astype(np.float64)
        first = block[0].copy()
        moving = (block != first).any(axis=0)
        total = float(own.weight.sum())
        means, target_mean = own.weight @ block / total, float(own.weight @ own.target / total)
        root = np.sqrt(own.weight)
        block -= means
        block *= root[:, None]
        away = root * (own.target - target_mean)
        return cls(total, means, target_mean, block.T @ block, block.T @ away, moving, first)

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
            self.moving | other.moving | (self.first != other.first),
            self.first,
        )


def fit_targets(model: Linear, targets: Targets, context: Context) -> Fit:
    """Ridge regression.

    minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
    """
    data = context.data
    rows = rows_of(context, model.scaling, targets, rows=targets.rows)
    sums = rows.fold(LeastSquaresSums.of, LeastSquaresSums.joined)
    if not sums.moving.any():
        raise DataError(
            f"all features of {data!r} are constant over the rows to learn from; nothing distinguishes these rows."
        )
    names = np.array(data.feature_names, dtype=object)
    return linear_fit(
        context, rows.view.scaling, *ridge(sums, float(model.l2)), observed=rows.observed, constant=names[~sums.moving]
    )


def ridge(sums: LeastSquaresSums, l2: float) -> tuple[NDArray[np.float64], float]:
    """Coefficients and intercept that minimise mean squared error + l2 ‖coefficients‖².

        (G + l2 I) β = g,    intercept = mean target - β · mean features

    Solved after scaling to a unit diagonal, so that features of very different size lose no digits. What cannot be told
    from 0 gets no weight.
    """
    coefficients = np.zeros(len(sums.cross))
    moving = sums.moving
    gram = sums.gram[np.ix_(moving, moving)] / sums.weight
    gram[np.diag_indices_from(gram)] += l2
    size = 1 / np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram * np.outer(size, size))
    kept = values > _COLLINEAR
    vectors = vectors[:, kept]
    right = sums.cross[moving] / sums.weight * size
    coefficients[moving] = size * (vectors @ ((vectors.T @ right) / values[kept]))
    return coefficients, float(sums.target_mean - coefficients @ sums.feature_means)
