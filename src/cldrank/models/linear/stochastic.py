"""The paper's Algorithm 1: stochastic ascent on batches of shown cells and unshown candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import likelihood
from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.models.linear.design import Block
from cldrank.models.linear.objective import SelectionObjective
from cldrank.models.linear.rows import LocalRows
from cldrank.optimise import Solution, Vector, adam, ascent

_CLOSE = 1e-3  # of the objective, what a last step could still gain: noise of the batches leaves about that


class _Batch(NamedTuple):
    """Some observations: the features of each, whether it was shown, its target (0 if not) and its weight."""

    features: NDArray[np.float64]
    shown: NDArray[np.bool_]
    target: NDArray[np.float64]
    weight: NDArray[np.float64]

    def take(self, places: IntArray) -> _Batch:
        """Some of the observations."""
        return _Batch(self.features[places], self.shown[places], self.target[places], self.weight[places])


def climb(
    objective: SelectionObjective, start: Vector, *, epochs: int, batch_rows: int, learning_rate: float, seed: int
) -> Solution:
    """Maximise the objective by Adam over batches; the parameters of the noise must be fixed.

    Blocks of the design come in random order and are shuffled within, so that rows on disk are read in long runs.
    """
    random = np.random.default_rng(seed)
    observations = objective.observed.n_rows
    total = epochs * _batches_of(objective, batch_rows)
    share = observations / objective.total
    rising = (_gradient(objective, batch, share) for batch in _shuffled(objective, epochs, batch_rows, random))
    with np.errstate(over="ignore", invalid="ignore"):
        found = adam(rising, start, learning_rate=learning_rate, total=total)
    here = objective.evaluate(found, precise=True)
    if not here.finite:
        return Solution(start, here.value, total, 1, "non_finite")
    step, flat = ascent(here)
    close = float(step @ here.gradient) / 2 <= _CLOSE * max(1.0, abs(here.value))
    return Solution(found, here.value, total, epochs, "converged" if close else "max_steps", flat, here)


def _rows(objective: SelectionObjective) -> LocalRows:
    rows = objective.design.rows
    if not isinstance(rows, LocalRows):
        raise UsageError("SGD needs the rows on this machine; use solver='newton', which works anywhere.")
    return rows


def _batches_of(objective: SelectionObjective, batch_rows: int) -> int:
    """The number of batches of one epoch."""
    rows = _rows(objective)
    parts = (rows.observed.part(*span) for span in rows.spans)
    return sum(-(-(len(part.target) + int((part.absent > 0).sum())) // batch_rows) for part in parts)


def _shuffled(
    objective: SelectionObjective, epochs: int, batch_rows: int, random: np.random.Generator
) -> Iterator[_Batch]:
    rows = _rows(objective)
    for _ in range(epochs):
        for place in random.permutation(len(rows.spans)):
            whole = _observations(objective.design.block(*rows.block(rows.spans[place])))
            order = random.permutation(len(whole.weight))
            for first in range(0, len(order), batch_rows):
                yield whole.take(order[first : first + batch_rows])


def _observations(block: Block) -> _Batch:
    """All observations of a block."""
    own = block.own
    owner = own.shown[own.owner]
    away = np.flatnonzero(own.absent > 0)
    return _Batch(
        block.wide[np.concatenate([owner, away])],
        np.arange(len(owner) + len(away)) < len(owner),
        np.concatenate([own.target, np.zeros(len(away))]),
        np.concatenate([own.weight, own.absent[away]]),
    )


def _gradient(objective: SelectionObjective, batch: _Batch, share: float) -> Callable[[Vector], Vector]:
    """The gradient of the objective as one batch sees it."""

    def at(parameters: Vector) -> Vector:
        score, selection, form = objective.unpacked(parameters)
        index, shown = batch.features @ selection, batch.shown
        by_selection = likelihood.unshown(index).slope
        by_score = np.zeros_like(index)
        if form is not None:
            seen = likelihood.shown(batch.features[shown] @ score, index[shown], batch.target[shown], form)
            by_score[shown], by_selection[shown] = seen.score, seen.selection
        weight = batch.weight * (share / len(index))
        gradient = np.concatenate(
            [
                (weight * by_score) @ batch.features[:, objective.relevance],
                (weight * by_selection) @ batch.features[:, objective.selection],
            ]
        )
        return gradient - 2 * objective.penalties * parameters

    return at
