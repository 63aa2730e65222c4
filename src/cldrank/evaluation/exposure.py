"""How often each candidate was examined, in a log or in the order of a ranker: `LoggedClicks` and `RankOrder`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.evaluation.after_clicks import AfterClicks
from cldrank.evaluation.by_labels import scores_of
from cldrank.methods.rating_quality import Examined
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases

Floats = NDArray[np.float64]
PRODUCTION = "production"
_OF_ANY_CURVE = ("pages", "row_pages", "reach", "seen")  # what is the same under every curve


@dataclass(frozen=True, eq=False)
class LoggedClicks:
    """The candidates of the queries that were searched, the clicks on them, and a curve that explains these.

        P(click on i at position k) = slope_k relevance_i + base_k

    Propensities are slopes without a base; relevance is then the probability of a click at the first position; or, if
    events have weights, the expected value. Where
    segments have curves of their own, slope and base are those of the segment of a page; where a click changes what
    people examine below it, `after` says by how much.

    >>> log = example_log()
    >>> log.exposure, log.excess_clicks, log.seen, log.pages
    (array([ 5., 10.,  0.]), array([1., 4., 0.]), array([ True,  True, False]), array([10.]))
    """

    data: RankingDataset
    clicks: ClickTable
    curve: Curve
    after: AfterClicks | None = None

    @cached_property
    def affine(self) -> AffineClicks:
        """Slope and base of each position; of several curves, the mean over impressions, for planning."""
        curve = self.curve.mean(self.clicks) if isinstance(self.curve, SegmentPropensities) else self.curve
        return AffineClicks.from_propensities(curve) if isinstance(curve, Propensities) else curve

    @cached_property
    def by_cell(self) -> tuple[Floats, Floats]:
        """(cells,) slope and base of each cell."""
        if self.after is not None:
            return self.after.slopes_and_bases(self.curve, self.clicks)
        return slopes_and_bases(self.curve, self.clicks)

    @cached_property
    def readable(self) -> Floats:
        """(cells,) impressions, each counted by how much of it is examined relative to one without a click above."""
        share = 1.0 if self.after is None else self.after.share(self.clicks)
        return np.asarray(self.clicks.impressions * share, dtype=np.float64)

    @property
    def curves(self) -> list[AffineClicks]:
        """The curve of each segment, or the curve of all; a segment without a curve has the mean."""
        if not isinstance(self.curve, SegmentPropensities):
            return [self.affine]
        own = [self.curve.get(name) for name in self.clicks.segment_names]
        return [self.affine if curve is None else AffineClicks.from_propensities(curve) for curve in own]

    @cached_property
    def pages(self) -> Floats:
        """(queries,) how often each query was searched."""
        return self.clicks.query_impressions.astype(np.float64)

    @cached_property
    def row_pages(self) -> Floats:
        """(rows,) how often the query of each candidate was searched."""
        return self.pages[self.queries]

    @cached_property
    def queries(self) -> IntArray:
        """(rows,) the query of each candidate."""
        return self.data.row_queries

    @cached_property
    def reach(self) -> Floats:
        """(queries, positions) the share of each query's pages that have a result at each position."""
        return self._mean_over_pages(self.clicks.impressions)

    def _mean_over_pages(self, values: NDArray[Any]) -> Floats:
        """(queries, positions) the sum over cells, per page of each query."""
        depth = self.clicks.depth
        place = self.queries[self.clicks.row] * depth + self.clicks.position - 1
        sums = _sums(place, values, self.data.n_queries * depth).reshape(-1, depth)
        means: Floats = sums / np.maximum(self.pages, 1.0)[:, None]
        return means

    def paged(self, values: Floats, ranks: IntArray) -> Floats:
        """(rows,) values at the rank of each candidate, on average over the pages of its query.

        values   (longest,), or with a row for each segment; 0 on pages without a result at the rank
        """
        depth, clicks = self.clicks.depth, self.clicks
        means = self.reach
        if values.ndim > 1:
            means = self._mean_over_pages(clicks.impressions * values[clicks.segment, clicks.position - 1])
        paged: Floats = np.where(ranks <= depth, means[self.queries, np.minimum(ranks, depth) - 1], 0.0)
        return paged if values.ndim > 1 else values[ranks - 1] * paged

    @cached_property
    def longest(self) -> int:
        """The most candidates, or positions, that any query has."""
        return max(int(self.data.sizes.max(initial=1)), self.clicks.depth)

    @cached_property
    def exposure(self) -> Floats:
        """(rows,) Σ_k n_k slope_k: in how many impressions a candidate was examined."""
        slope, _ = self.by_cell
        return self.by_row(self.clicks.impressions * slope)

    @property
    def examined(self) -> Examined:
        """What ratings are held against."""
        return Examined(self.exposure, self.excess_clicks, self.queries)

    @cached_property
    def doubt(self) -> Floats:
        """(rows,) how far the exposure may be off, as a share of it, since a click changes what people examine."""
        if self.after is None:
            return np.zeros(self.data.n_rows)
        slope, _ = self.by_cell
        off = self.by_row(self.clicks.impressions * slope * self.after.doubt(self.clicks))
        return np.divide(off, self.exposure, out=np.zeros(len(off)), where=self.exposure > 0)

    @cached_property
    def excess_clicks(self) -> Floats:
        """(rows,) clicks beyond those that the position would have brought anyway, Σ_k c_k - n_k base_k."""
        _, base = self.by_cell
        return self.by_row(self.clicks.clicks - self.clicks.impressions * base)

    @cached_property
    def excess_value(self) -> Floats:
        """(rows,) the same with every click by what it was worth; see `ClickTable.value`."""
        _, base = self.by_cell
        return self.by_row(self.clicks.value - self.clicks.impressions * base * self.clicks.click_value)

    @cached_property
    def expected_exposure(self) -> Floats:
        """(rows,) the exposure that display probabilities give on average; without these, the exposure itself."""
        display = self.clicks.display
        if display is None or self.after is not None:
            return self.exposure
        slope, _ = self.affine.at(np.arange(1, display.shape[1] + 1))
        exposure: Floats = self.row_pages * (display @ slope)
        return exposure

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """(rows,) whether a candidate was ever shown where people still read."""
        seen: NDArray[np.bool_] = self.clicks.row_impressions > 0
        return seen if self.after is None else self.by_row(self.readable) > 0

    def with_curve(self, curve: Curve, after: AfterClicks | None = None) -> LoggedClicks:
        """The same log, explained by another curve; both share the arrays that do not depend on it."""
        log = LoggedClicks(self.data, self.clicks, curve, after or self.after)
        vars(log).update({name: getattr(self, name) for name in _OF_ANY_CURVE})
        return log

    def by_query(self, values: NDArray[Any]) -> Floats:
        """(queries,) the sum over the candidates of each query."""
        return _sums(self.queries, values, self.data.n_queries)

    def by_row(self, values: NDArray[Any]) -> Floats:
        """(rows,) the sum over the cells of each candidate."""
        return _sums(self.clicks.row, values, self.data.n_rows)


def example_log() -> LoggedClicks:
    """A page of two results, shown ten times, and a third candidate that never was: for examples."""
    data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    clicks = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    return LoggedClicks(data, clicks, Propensities.power(1, 2))


# -- orders ------------------------------------------------------------------------------------------------------


class RankOrder(ABC):
    """The ranks of all candidates, certain or on average over pages."""

    name: str

    @abstractmethod
    def on_pages(self, values: Floats, log: LoggedClicks) -> Floats:
        """(rows,) values at the rank of each candidate, on average over the pages of a log.

        It counts 0 on pages that end before the rank of the candidate.

        values   values[0] belongs to rank 1; where segments differ, a row of them for each segment
        """

    def among_seen(self, log: LoggedClicks) -> RankOrder:
        """The same order with only those candidates that the log has shown; the others have no meaning in it."""
        del log
        return self


@dataclass(frozen=True, eq=False)
class ScoreOrder(RankOrder):
    """The order of scores, best first.

    >>> ScoreOrder("new", np.array([2, 1, 3])).on_pages(np.array([1.0, 0.5, 0.25]), example_log())
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

    def on_pages(self, values: Floats, log: LoggedClicks) -> Floats:
        """(rows,) the value of the rank, times the share of pages that have it."""
        return log.paged(values, self.ranks)

    def among_seen(self, log: LoggedClicks) -> ScoreOrder:
        """Ranked among the candidates that were shown."""
        never_shown_last = np.where(log.seen, -self.ranks, -np.inf)
        return ScoreOrder(self.name, segments.descending_ranks(never_shown_last, log.data.offsets))


@dataclass(frozen=True, eq=False)
class LoggedOrder(RankOrder):
    """The order of the log itself: each candidate at the positions where it was shown, as often as it was.

    >>> data = RankingDataset.from_arrays([[1], [2]], [7] * 2)
    >>> shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [8, 2, 2, 8], "clicks": [1, 1, 1, 1]}
    >>> log = LoggedClicks(data, ClickTable.from_arrays(data, **shown), Propensities.power(1, 2))
    >>> LoggedOrder(log).on_pages(np.array([1.0, 0.5]), log)
    array([0.9, 0.6])
    """

    log: LoggedClicks
    name: str = PRODUCTION

    @cached_property
    def _share(self) -> Floats:
        """(cells,) the share of the query's pages that show the candidate there."""
        share: Floats = self.log.clicks.impressions / self.log.row_pages[self.log.clicks.row]
        return share

    def on_pages(self, values: Floats, log: LoggedClicks) -> Floats:
        """(rows,) the mean over pages, 0 on those that do not show a candidate."""
        place = log.clicks.position - 1
        return log.by_row(self._share * (values[place] if values.ndim == 1 else values[log.clicks.segment, place]))


def order_of(model: Any, log: LoggedClicks, name: str = "") -> RankOrder:
    """The order of a ranker, of scores, or of the log itself ("production")."""
    if isinstance(model, str):
        if model != PRODUCTION:
            raise UsageError(f"{model!r} is not a ranker; only 'production', the order of the log, has a name.")
        return LoggedOrder(log)
    return ScoreOrder.of(name or "the ranker", scores_of(model, log.data), log)


def _sums(place: IntArray, values: NDArray[Any], size: int) -> Floats:
    sums: Floats = np.bincount(place, values, size).astype(np.float64, copy=False)
    return sums
