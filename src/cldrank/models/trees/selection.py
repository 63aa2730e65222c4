"""Selection before relevance is known: a logistic regression of what was shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.models.trees.pairs import PairTable
from cldrank.optimise import Derivatives, newton

Floats = NDArray[np.float64]
_L2 = 1e-3
_CLIP = 5.0  # standard deviations
_BLOCK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class Selection:
    """ω = intercept + coefficients · standardised features, by candidate as `log_odds`."""

    coefficients: Floats
    intercept: float
    log_odds: Floats


def no_selection(table: PairTable, features: NDArray[np.float32]) -> Selection:
    """ω = 0 for all."""
    return Selection(np.zeros(features.shape[1]), 0.0, np.zeros(len(table.rows)))


def fit_selection(table: PairTable, features: NDArray[np.float32]) -> Selection:
    """The linear ω that CLD-pair's terms of selection have where all scores are equal; 0 where all were shown.

    maximise  Σ_shown w log σ(ω) + Σ_unshown w log σ(-ω), over Σ w, less a ridge penalty
    """
    weight, shown = table.selection_weights()
    if shown.all() or not weight[~shown].any():
        return no_selection(table, features)
    weight, sign = weight / weight.sum(), np.where(shown, 1.0, -1.0)
    center, factor = _moments(features, table.rows)
    width = features.shape[1]
    ridge = np.append(np.full(width, _L2), 0.0)

    def blocks() -> Iterator[tuple[slice, Floats]]:
        for part, block in _blocks(features, table.rows):
            block = np.clip((block - center) * factor, -_CLIP, _CLIP)
            block[np.isnan(block)] = 0.0
            yield part, np.column_stack([block, np.ones(len(block))])

    def evaluate(point: Floats) -> Derivatives:
        value, gradient = -0.5 * float(ridge @ point**2), -ridge * point
        hessian = -np.diag(ridge)
        for part, block in blocks():
            margin = sign[part] * (block @ point)
            value -= float(weight[part] @ np.logaddexp(0.0, -margin))
            wrong = np.exp(-np.logaddexp(0.0, margin))
            gradient = gradient + block.T @ (weight[part] * sign[part] * wrong)
            hessian = hessian - (block * (weight[part] * wrong * (1 - wrong))[:, None]).T @ block
        return Derivatives(value, gradient, hessian)

    found = newton(evaluate, np.zeros(width + 1), tolerance=1e-6).parameters
    log_odds = np.empty(len(table.rows))
    for part, block in blocks():
        log_odds[part] = block @ found
    return Selection(found[:-1].copy(), float(found[-1]), log_odds)


def _moments(features: NDArray[np.float32], rows: IntArray) -> tuple[Floats, Floats]:
    """Mean and one over the standard deviation of the values that are there; a factor of 0 for a constant feature."""
    width = features.shape[1]
    count, total, squares = np.zeros(width), np.zeros(width), np.zeros(width)
    for _, block in _blocks(features, rows):
        count += (~np.isnan(block)).sum(axis=0)
        total += np.nansum(block, axis=0)
    mean = total / np.maximum(count, 1)
    for _, block in _blocks(features, rows):
        squares += np.nansum((block - mean) ** 2, axis=0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    moving = deviation > 1e-9 * np.abs(mean)
    return mean, np.divide(1.0, deviation, where=moving, out=np.zeros(width))


def _blocks(features: NDArray[np.float32], rows: IntArray) -> Iterator[tuple[slice, Floats]]:
    size = max(1, _BLOCK_VALUES // max(features.shape[1], 1))
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        yield part, features[rows[part]].astype(np.float64)
