"""The relevance of documents that were never shown, from the score of a ranker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.judgements.posterior import GRID
from cldrank.judgements.sightings import Sightings

if TYPE_CHECKING:
    from scipy.sparse import csc_array

Floats = NDArray[np.float64]

_BINS = 20
_FEWEST = 50  # documents in a bin
_LOWEST = 500  # documents that are enough to learn from


@dataclass(eq=False)
class ScoreBins:
    """The posteriors of judged documents, added up in bins of their scores.

    A document of the same score that was never shown is taken to be a draw from the documents in its bin. Production
    ranked it below all that it showed, so that only those at the lowest positions count; those higher up are better
    than their scores say. Where the next bin would be less relevant, both are taken together, so that a
    higher score never means a lower relevance.

    scores     (rows,) of all documents
    seen       those that were shown
    position   (places,) of the places where they were shown
    """

    scores: Floats
    seen: Sightings
    position: IntArray
    ends: Floats = field(init=False)
    number: csc_array = field(init=False)
    total: Floats = field(init=False)

    def __post_init__(self) -> None:
        from scipy.sparse import csc_array

        position = self.position[self.seen.home[self.seen.kind]]
        enough = min(_LOWEST, len(position))
        used = np.flatnonzero(position >= np.sort(position)[-enough])
        rows, kind = self.seen.rows[used], self.seen.kind[used]
        bins = max(min(_BINS, len(used) // _FEWEST), 1)
        inner = np.quantile(self.scores[rows], np.arange(1, bins) / bins)
        self.ends = np.unique(inner)
        shape = len(self.ends) + 1, len(self.seen.number)
        self.number = csc_array((np.ones(len(used)), (self._bin(rows), kind)), shape=shape)
        self.total = np.zeros((len(self.ends) + 1, GRID))

    def add(self, kinds: IntArray, posterior: Floats) -> None:
        """Count the documents of some kinds, given the posterior of each kind."""
        self.total += self.number[:, kinds] @ posterior

    def expected(self, rows: IntArray, grid: Floats) -> Floats:
        """(rows, grid) the distribution of the relevance of some documents."""
        merged = _rising(self.total, grid)
        found: Floats = merged[self._bin(rows)]
        return found

    def _bin(self, rows: IntArray) -> IntArray:
        found: IntArray = np.searchsorted(self.ends, self.scores[rows], side="right")
        return found


def _rising(total: Floats, grid: Floats) -> Floats:
    """(bins, grid) distributions whose means rise: neighbours that do not are pooled."""
    pools: list[tuple[Floats, int]] = []
    for one in total[total.sum(axis=1) > 0]:
        pools.append((one, 1))
        while len(pools) > 1 and _mean(pools[-1][0], grid) <= _mean(pools[-2][0], grid):
            (upper, above), (lower, below) = pools.pop(), pools.pop()
            pools.append((upper + lower, above + below))
    merged = np.concatenate([np.tile(pool / pool.sum(), (number, 1)) for pool, number in pools])
    filled = np.cumsum(total.sum(axis=1) > 0) - 1  # an empty bin is as the one below it
    found: Floats = merged[np.maximum(filled, 0)]
    return found


def _mean(total: Floats, grid: Floats) -> float:
    return float(total @ grid / total.sum())


def checked_scores(given: ArrayLike, rows: int) -> Floats:
    """Scores of all documents, finite; refused otherwise."""
    scores: Floats = np.asarray(given, dtype=np.float64)
    if scores.shape != (rows,):
        raise DataError(f"the scores to fill in by have shape {scores.shape} for {rows:,} documents.")
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise DataError(f"the score of row {bad[0]} is {scores[bad[0]]}; scores must be finite.")
    return scores
