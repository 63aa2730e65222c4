"""What a model is fitted to: weighted rows with a target, and the candidates not shown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray


class Targets(NamedTuple):
    """Weighted rows, each with the relevance to learn.

    rows      (rows,) of the features, rising
    target    (rows,) relevance as the method estimates it
    weight    (rows,), above 0: how many observations a row stands for
    queries   (rows,): the query of each row; the rows of a query are together
    """

    rows: IntArray
    target: NDArray[np.float64]
    weight: NDArray[np.float64]
    queries: IntArray

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def total(self) -> float:
        """The weight of all rows, W."""
        return float(self.weight.sum())

    def weighted(self, query_weights: NDArray[np.float64] | None) -> Targets:
        """The same with the weight of each row times that of its query; as they are, given None."""
        return self if query_weights is None else self._replace(weight=self.weight * query_weights[self.queries])

    def part(self, start: int, stop: int) -> Targets:
        """Those of the rows from start to stop."""
        own = slice(start, stop)
        return Targets(self.rows[own], self.target[own], self.weight[own], self.queries[own])


class Unshown(NamedTuple):
    """How pairs of a shown and an unshown candidate count.

    weight   of all unshown candidates of a query, over that of those shown; they then count as irrelevant
    share    else, without a weight, C: the shown one is preferred, whatever its clicks, as relevance and ω explain
    ratio    pairs with an unshown candidate for each pair of two shown ones; without a weight only
    """

    weight: float | None = None
    share: float = 0.0
    ratio: float = 0.0


@dataclass(frozen=True, eq=False)
class Observations:
    """The candidates of all queries that were displayed, and what was seen of them.

    rows       (rows,) the dataset row of each candidate, rising
    queries    (rows,) the query of each
    absent     (rows,) float64: the weight of a candidate that was not shown, the impressions of its query; else 0
    shown      (shown,) which of the rows were shown, rising
    offsets    (shown + 1,) entries offsets[i] … offsets[i+1]-1 are those of shown row i
    target     (entries,) float64: relevance as estimated from clicks
    weight     (entries,) float64: the impressions behind it
    pages      (queries,) float64: how often each query of the dataset was displayed; None in a part
    level      (entries,) from 1: the place where it was shown, the best first, none left out; None if not needed
    """

    rows: IntArray
    queries: IntArray
    absent: NDArray[np.float64]
    shown: IntArray
    offsets: IntArray
    target: NDArray[np.float64]
    weight: NDArray[np.float64]
    pages: NDArray[np.float64] | None = None
    level: IntArray | None = None

    @cached_property
    def owner(self) -> IntArray:
        """(entries,) the shown row that each entry belongs to."""
        return segments.segment_of_rows(self.offsets)

    @property
    def n_levels(self) -> int:
        """How many places there are, not counting that of the candidates not shown."""
        return 0 if self.level is None else int(self.level.max(initial=0))

    @property
    def n_thresholds(self) -> int:
        """How many thresholds separate the places: as many as places, less 1 where every candidate was shown."""
        return self.n_levels - self.all_shown

    def part(self, start: int, stop: int) -> Observations:
        """Those of the rows from start to stop, counted from `start`; nothing but offsets is copied."""
        first, last = (int(place) for place in np.searchsorted(self.shown, [start, stop]))
        entries = slice(int(self.offsets[first]), int(self.offsets[last]))
        return Observations(
            self.rows[start:stop],
            self.queries[start:stop],
            self.absent[start:stop],
            self.shown[first:last] - start,
            self.offsets[first : last + 1] - entries.start,
            self.target[entries],
            self.weight[entries],
            level=None if self.level is None else self.level[entries],
        )

    def weighted(self, query_weights: NDArray[np.float64] | None) -> Observations:
        """The same with all weights times that of the query; as they are, given None."""
        if query_weights is None:
            return self
        of_row = query_weights[self.queries]
        return replace(
            self,
            absent=self.absent * of_row,
            weight=self.weight * of_row[self.shown][self.owner],
            pages=None if self.pages is None else self.pages * query_weights,
        )

    @property
    def total(self) -> float:
        """The weight of all rows, W."""
        return float(self.absent.sum() + self.weight.sum())

    @property
    def n_rows(self) -> int:
        """How many weighted rows there are: the candidates not shown, and the entries of those shown."""
        return len(self.absent) - len(self.shown) + len(self.target)

    def shown_rows(self) -> Targets:
        """The shown candidates, each once, over all its impressions."""
        return Targets(self.rows[self.shown], *self.by_row(), self.queries[self.shown])

    def with_unshown(self, weight: float) -> Targets:
        """All candidates, each once; one that was not shown counts as irrelevant.

        All of a query that were not shown weigh `weight` times as much as all that were, had each been on every page.
        """
        target, weights = np.zeros(len(self.rows)), np.zeros(len(self.rows))
        target[self.shown], weights[self.shown] = self.by_row()
        unshown = self.absent > 0
        n_shown, n_unshown = (np.bincount(self.queries[part]) for part in (self.shown, unshown))
        own = self.queries[unshown]
        weights[unshown] = weight * self.absent[unshown] * n_shown[own] / n_unshown[own]
        return Targets(self.rows, target, weights, self.queries)

    def together(self) -> Observations:
        """The same with a single entry for each shown candidate, over all its impressions, all at the same place."""
        mean, weight = self.by_row()
        offsets, level = np.arange(len(mean) + 1), np.ones(len(mean), dtype=np.int64)
        return replace(self, offsets=offsets, target=mean, weight=weight, level=level)

    def by_row(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of each shown row: the mean target of its impressions, and their number."""
        weight = segments.sums_of_segments(self.weight, self.offsets)
        return segments.sums_of_segments(self.weight * self.target, self.offsets) / weight, weight

    @property
    def all_shown(self) -> bool:
        """Whether nothing is left that was not shown."""
        return not self.absent.any()
