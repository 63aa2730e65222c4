"""Heckman's two steps on plain arrays, to be compared with R's: the stages of the linear model alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.models.linear.design import Block, Design
from cldrank.models.linear.ordered_probit import OrderedProbit
from cldrank.models.linear.two_stages import second_stage
from cldrank.models.targets import Observations
from cldrank.optimise import inverse, newton

Outcome = TypeVar("Outcome")


class TwoStep(NamedTuple):
    """Heckman's two-step estimates.

    selection              (Z's columns + 1,): of the probit, the intercept last
    selection_covariance
    outcome                (X's columns + 2,): of the regression, then the intercept, last the inverse Mills ratio
    log_likelihood         of the probit
    """

    selection: NDArray[np.float64]
    selection_covariance: NDArray[np.float64]
    outcome: NDArray[np.float64]
    log_likelihood: float


def two_step(X: ArrayLike, Z: ArrayLike, y: ArrayLike, shown: ArrayLike, weights: ArrayLike | None = None) -> TwoStep:
    """Heckman's two steps on plain arrays: a probit of shown on Z, then y on X and m(Z·ω) where shown.

    Both get an intercept. Weights act as repetitions of rows; y may be anything where a row is not shown.
    """
    outcome, selection = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    chosen = np.asarray(shown, dtype=bool)
    weight = np.ones(len(chosen)) if weights is None else np.asarray(weights, dtype=np.float64)
    owner = np.flatnonzero(chosen)
    entries = Observations(
        rows=np.arange(len(chosen)),
        queries=np.arange(len(chosen)),
        absent=np.where(chosen, 0.0, weight),
        shown=owner,
        offsets=np.arange(len(owner) + 1),
        target=np.asarray(y, dtype=np.float64)[owner],
        weight=weight[owner],
        level=np.ones(len(owner), dtype=np.int64),
    )
    split, end = outcome.shape[1], outcome.shape[1] + selection.shape[1]
    rows = _InMemory(np.column_stack([outcome, selection, np.ones(len(chosen))]), entries)
    probit = OrderedProbit(rows, np.arange(split, end), np.zeros(end - split))
    first = newton(probit.evaluate, probit.start())
    assert first.converged
    here = probit.evaluate(first.parameters)
    sign = np.append(np.ones(end - split), -1.0)  # the intercept is minus the threshold
    return TwoStep(
        sign * first.parameters,
        np.outer(sign, sign) * inverse(-here.hessian * entries.total),
        second_stage(rows, probit.places, first.parameters, np.arange(split), np.zeros(split)),
        entries.total * here.value,
    )


class _InMemory(Design):
    """A matrix as a design of one block."""

    def __init__(self, matrix: NDArray[np.float64], entries: Observations) -> None:
        self.observed, self._block = entries, Block(matrix, entries)

    def fold(self, function: Callable[[Block], Outcome], join: Callable[[Outcome, Outcome], Outcome]) -> Outcome:
        del join
        return function(self._block)
