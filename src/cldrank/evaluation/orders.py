"""`RankOrder`: where each candidate stands, in the order of a ranker or on the pages of the log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import DataError, UsageError
from cldrank.evaluation.by_labels import scores_of
from cldrank.evaluation.logged import LoggedClicks

Floats = NDArray[np.float64]
PRODUCTION = "production"


class RankOrder(ABC):
    """The ranks of all candidates, certain or on average over pages."""

    name: str

    @abstractmethod
    def mean(self, values: Floats) -> Floats:
        """(rows,) of values that depend on the rank, the one of each candidate: values[0] belongs to rank 1."""

    @abstractmethod
    def on_pages(self, values: Floats, log: LoggedClicks) -> Floats:
        """(rows,) the same on the pages of a log: the value is 0 on those that end before the rank of a candidate.

        values   one for each rank or, where segments differ, a row of them for each segment
        """

    @abstractmethod
    def among_seen(self, log: LoggedClicks) -> RankOrder:
        """The same order with only those candidates that the log has shown; the others have no meaning in it."""


@dataclass(frozen=True, eq=False)
class ScoreOrder(RankOrder):
    """The order of scores, best first.

    >>> ScoreOrder("new", np.array([2, 1, 3])).mean(np.array([1.0, 0.5, 0.0]))
    array([0.5, 1. , 0. ])
    """

    name: str
    ranks: IntArray

    @classmethod
    def of(cls, name: str, scores: Any, log: LoggedClicks) -> ScoreOrder:
        """By descending score; equal ones stand in a fixed order."""
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != (log.data.n_rows,):
            raise DataError(f"{name} has scores of shape {values.shape} for {log.data.n_rows:,} candidates.")
        if np.isnan(values).any():
            query = log.data.query_ids[log.queries[int(np.isnan(values).argmax())]]
            raise DataError(f"{name} scores a candidate of query {query} as NaN; scores are numbers.")
        return cls(name, segments.descending_ranks(values, log.data.offsets))

    def mean(self, values: Floats) -> Floats:
        """(rows,) the value of the rank of each candidate."""
        return values[self.ranks - 1]

    def on_pages(self, values: Floats, log: LoggedClicks) -> Floats:
        """(rows,) the value of the rank, times the share of pages that have it."""
        return log.paged(values, self.ranks)

    def among_seen(self, log: LoggedClicks) -> ScoreOrder:
        """Ranked among the candidates that were shown."""
        unseen_last = np.where(log.seen, -self.ranks, -np.inf)
        return ScoreOrder(self.name, segments.descending_ranks(unseen_last, log.data.offsets))


@dataclass(frozen=True, eq=False)
class LoggedOrder(RankOrder):
    """The order of the log itself: each candidate at the positions where it was shown, as often as it was.

    On pages that do not show a candidate, it has the mean of the ranks that they leave free.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> from cldrank.propensity import Propensities
    >>> data = RankingDataset.from_arrays([[1], [2], [3], [4]], [7] * 4)
    >>> shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [8, 2, 2, 8], "clicks": [1, 1, 1, 1]}
    >>> log = LoggedClicks(data, ClickTable.from_arrays(data, **shown), Propensities.power(1, 2))
    >>> LoggedOrder(log).mean(np.arange(1.0, 5.0))
    array([1.2, 1.8, 3.5, 3.5])
    """

    log: LoggedClicks
    name: str = PRODUCTION
    seen_only: bool = False

    def among_seen(self, log: LoggedClicks) -> LoggedOrder:
        """On pages that do not show a candidate, it has the mean rank of those that other pages show."""
        return LoggedOrder(log, self.name, seen_only=True)

    @cached_property
    def _share(self) -> Floats:
        """(cells,) of the pages of its query, those that show a cell."""
        pages = self.log.row_pages[self.log.clicks.row]
        found: Floats = self.log.clicks.impressions / pages
        return found

    def mean(self, values: Floats) -> Floats:
        """(rows,) the mean over pages."""
        log = self.log
        sizes = log.by_query(log.seen).astype(np.int64) if self.seen_only else log.data.sizes
        taken = np.where(np.arange(log.clicks.depth) < sizes[:, None], log.reach, 0.0)
        free = sizes - taken.sum(axis=1)
        sums = np.append(0.0, np.cumsum(values))[sizes] - taken @ values[: log.clicks.depth]
        below = np.divide(sums, free, out=np.zeros(len(free)), where=free > 1e-9)
        absent = np.maximum(1 - log.by_row(self._share), 0.0)
        found: Floats = self.on_pages(values, log) + absent * below[log.queries]
        return found

    def on_pages(self, values: Floats, log: LoggedClicks) -> Floats:
        """(rows,) the mean over pages, 0 on those that do not show a candidate."""
        place = log.clicks.position - 1
        return log.by_row(self._share * (values[place] if values.ndim == 1 else values[log.clicks.segment, place]))


def order_of(model: Any, log: LoggedClicks, name: str = "") -> RankOrder:
    """The order of a ranker, of scores, or of the log itself ("production")."""
    if isinstance(model, str):
        if model != PRODUCTION:
            raise UsageError(f"{model!r} is not a ranker; the one that can be named is 'production', the log's order.")
        return LoggedOrder(log)
    return ScoreOrder.of(name or "the ranker", scores_of(model, log.data), log)
