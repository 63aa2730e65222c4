"""A damped Newton method; a `Solution` says how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Status = Literal["converged", "max_steps", "line_search", "non_finite", "boundary"]

_FLAT = 1e-11  # of the largest curvature, all parameters scaled alike: anything less is rounding
_ARMIJO = 1e-4  # of the gain that the slope promises: what a step must bring
_HALVINGS = 40


class Derivatives(NamedTuple):
    """An objective to be maximised, with its derivatives at a point; the Hessian is negative where it is concave."""

    value: float
    gradient: Vector
    hessian: Matrix

    @property
    def finite(self) -> bool:
        """Whether value and derivatives are finite."""
        return bool(np.isfinite(self.value) and np.isfinite(self.gradient).all() and np.isfinite(self.hessian).all())


@dataclass(frozen=True)
class Solution:
    """Where an optimiser ended, and whether that is the optimum.

    status        `converged`; `max_steps`: stopped before that; `line_search`: no part of a step gained what the slope
                  promised, though the objective is finite; `non_finite`: the objective is not finite, here or nearby;
                  `boundary`: said by a caller whose optimum is at infinity
    evaluation    the objective with its derivatives, at the end or within rounding of it
    """

    parameters: Vector
    value: float
    n_steps: int
    status: Status
    evaluation: Derivatives = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether it reached the optimum."""
        return self.status == "converged"


def newton(
    evaluate: Callable[[Vector], Derivatives], start: Vector, *, max_steps: int = 50, tolerance: float = 1e-9
) -> Solution:
    """Maximise by Newton's method, each step halved until it gains.

    It has converged when a whole step moves each parameter by at most `tolerance` times its size or 1, whichever is
    larger.

    >>> newton(lambda x: Derivatives(-float(x @ x) / 2, -x, -np.eye(2)), np.array([3.0, 4.0]))
    Solution(parameters=array([0., 0.]), value=0.0, n_steps=1, status='converged')
    """
    point, here = start, evaluate(start)

    def ended(status: Status, steps: int, at: Vector) -> Solution:
        return Solution(at, here.value, steps, status, here)

    if not here.finite:
        return ended("non_finite", 0, point)
    for steps in range(max_steps + 1):
        step = ascent(here)
        length = _length(step, point)
        if length <= tolerance:
            # this close, another step costs nothing and needs no check: it squares the remaining error
            return ended("converged", steps, point + step)
        if steps == max_steps:
            break
        promised = float(step @ here.gradient)
        there, share = _backtrack(evaluate, point, here, step, promised)
        if share:
            point, here = point + share * step, there
        elif promised <= 1e-12 * max(1.0, abs(here.value)):  # no more to gain than rounding hides
            return ended("converged", steps, point)
        else:
            return ended("line_search" if there.finite else "non_finite", steps, point)
    return ended("max_steps", max_steps, point)


def _length(step: Vector, point: Vector) -> float:
    """The largest component of a step, each relative to its parameter or to 1, whichever is larger."""
    return float(np.max(np.abs(step) / np.maximum(1.0, np.abs(point)), initial=0.0))


def _backtrack(
    evaluate: Callable[[Vector], Derivatives], point: Vector, here: Derivatives, step: Vector, promised: float
) -> tuple[Derivatives, float]:
    """The first of whole, half, quarter … step that gains enough, and that share (0 where none does)."""
    noise = 1e-13 * max(1.0, abs(here.value))  # gains below it drown in the rounding of the value
    share = 1.0
    for _ in range(_HALVINGS):
        there = evaluate(point + share * step)
        if there.finite and there.value >= here.value + _ARMIJO * share * promised - noise:
            return there, share
        share /= 2
    return there, 0.0


def ascent(here: Derivatives) -> Vector:
    """Newton's step, uphill even where the objective is not concave.

    Parameters are first scaled to the same curvature. There is no step along a flat direction; along a direction that
    curves upwards, the step is that for the same curvature downwards.
    """
    values, vectors, size = _decomposed(-here.hessian)
    if values is None:  # positive definite: `vectors` holds the Cholesky factor
        from scipy.linalg import cho_solve

        step: Vector = size * cho_solve((vectors, True), size * here.gradient, check_finite=False)
        return step
    kept = np.abs(values) > _FLAT
    along = vectors[:, kept]
    uphill: Vector = size * (along @ ((along.T @ (size * here.gradient)) / np.abs(values[kept])))
    return uphill


def inverse(information: Matrix) -> Matrix:
    """The inverse of a positive definite matrix; of a flat matrix, the pseudo-inverse of its curved directions."""
    values, vectors, size = _decomposed(information)
    if values is None:
        from scipy.linalg import cho_solve

        inverted: Matrix = cho_solve((vectors, True), np.diag(size), check_finite=False) * size[:, None]
        return (inverted + inverted.T) / 2
    kept = values > _FLAT
    along = vectors[:, kept] * size[:, None]
    return (along / values[kept]) @ along.T


def _decomposed(matrix: Matrix) -> tuple[Vector | None, Matrix, Vector]:
    """The matrix scaled to a unit diagonal as a Cholesky factor, or, where it is not safely definite, eigenvectors."""
    diagonal = np.diag(matrix)
    size = np.where(diagonal > 0, 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    scaled = matrix * np.outer(size, size)
    try:
        factor = np.linalg.cholesky(scaled)
        if np.diag(factor).min(initial=1.0) ** 2 > _FLAT * 10:
            return None, factor, size
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(scaled)
    return values, vectors, size
