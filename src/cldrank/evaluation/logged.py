"""`LoggedClicks`: what a log says about each candidate, under a curve of examination."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases

Floats = NDArray[np.float64]
_OF_ANY_CURVE = ("pages", "row_pages", "reach", "seen")  # what is the same under every curve


@dataclass(frozen=True, eq=False)
class LoggedClicks:
    """The candidates of the queries that were searched, the clicks on them, and a curve that explains these.

        P(click on i at position k) = slope_k relevance_i + base_k

    Propensities are slopes without a base; relevance is then the probability of a click at the first position. Where
    segments have curves of their own, slope and base are those of the segment of a page.

    >>> log = example_log()
    >>> log.exposure, log.surplus, log.seen, log.pages
    (array([ 5., 10.,  0.]), array([1., 4., 0.]), array([ True,  True, False]), array([10.]))
    """

    data: RankingDataset
    clicks: ClickTable
    curve: Curve

    @cached_property
    def affine(self) -> AffineClicks:
        """Slope and base of each position; of several curves, the mean over impressions, which plans go by."""
        curve = self.curve.mean(self.clicks) if isinstance(self.curve, SegmentPropensities) else self.curve
        return AffineClicks.from_propensities(curve) if isinstance(curve, Propensities) else curve

    @cached_property
    def by_cell(self) -> tuple[Floats, Floats]:
        """(cells,) slope and base of each cell."""
        return slopes_and_bases(self.curve, self.clicks)

    @property
    def curves(self) -> list[AffineClicks]:
        """The curve of each segment of the clicks, or the one of all; a segment without clicks has the mean."""
        if not isinstance(self.curve, SegmentPropensities):
            return [self.affine]
        own = [self.curve.get(name) for name in self.clicks.segment_names]
        return [self.affine if one is None else AffineClicks.from_propensities(one) for one in own]

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
        """(queries, positions) of the pages of each query, the share that has a result at each position."""
        depth = self.clicks.depth
        place = self.queries[self.clicks.row] * depth + self.clicks.position - 1
        shown = _sums(place, self.clicks.impressions, self.data.n_queries * depth).reshape(-1, depth)
        found: Floats = shown / np.maximum(self.pages, 1.0)[:, None]
        return found

    def paged(self, values: Floats, ranks: IntArray) -> Floats:
        """(rows,) of values that depend on the rank, the mean over the pages of a query of those at a candidate's.

        values   (longest,), or with a row for each segment; 0 on pages without a result at the rank

        >>> example_log().paged(np.array([1.0, 0.5, 0.25]), np.array([2, 1, 3]))
        array([0.5, 1. , 0. ])
        """
        if values.ndim == 1:
            found: Floats = values[ranks - 1] * self.reached(ranks)
            return found
        depth, clicks = self.clicks.depth, self.clicks
        place = self.queries[clicks.row] * depth + clicks.position - 1
        each = clicks.impressions * values[clicks.segment, clicks.position - 1]
        sums = _sums(place, each, self.data.n_queries * depth).reshape(-1, depth)
        means = sums / np.maximum(self.pages, 1.0)[:, None]
        return np.where(ranks <= depth, means[self.queries, np.minimum(ranks, depth) - 1], 0.0)

    def reached(self, ranks: IntArray) -> Floats:
        """(rows,) of the pages of its query, the share that has a result at the rank of a candidate.

        >>> example_log().reached(np.array([2, 1, 3]))
        array([1., 1., 0.])
        """
        depth = self.clicks.depth
        return np.where(ranks <= depth, self.reach[self.queries, np.minimum(ranks, depth) - 1], 0.0)

    @cached_property
    def longest(self) -> int:
        """The most candidates, or positions, that any query has."""
        return max(int(self.data.sizes.max(initial=1)), self.clicks.depth)

    @cached_property
    def exposure(self) -> Floats:
        """(rows,) Σ_k n_k slope_k: in how many impressions a candidate was examined."""
        slope, _ = self.by_cell
        return self.by_row(self.clicks.impressions * slope)

    @cached_property
    def surplus(self) -> Floats:
        """(rows,) clicks beyond those that the position would have brought anyway, Σ_k c_k - n_k base_k."""
        _, base = self.by_cell
        return self.by_row(self.clicks.clicks - self.clicks.impressions * base)

    @cached_property
    def expected_exposure(self) -> Floats:
        """(rows,) the exposure that display probabilities give on average; without these, the exposure itself."""
        display = self.clicks.display
        if display is None:
            return self.exposure
        slope, _ = self.affine.at(np.arange(1, display.shape[1] + 1))
        found: Floats = self.row_pages * (display @ slope)
        return found

    @cached_property
    def seen(self) -> NDArray[np.bool_]:
        """(rows,) whether a candidate was ever shown."""
        found: NDArray[np.bool_] = self.clicks.row_impressions > 0
        return found

    def with_curve(self, curve: Curve) -> LoggedClicks:
        """The same log, explained by another curve; both share the arrays that do not depend on it."""
        found = LoggedClicks(self.data, self.clicks, curve)
        vars(found).update({name: getattr(self, name) for name in _OF_ANY_CURVE})
        return found

    def by_query(self, values: NDArray[Any]) -> Floats:
        """(queries,) the sum over the candidates of each query."""
        return _sums(self.queries, values, self.data.n_queries)

    def by_row(self, values: NDArray[Any]) -> Floats:
        """(rows,) the sum over the cells of each candidate."""
        return _sums(self.clicks.row, values, self.data.n_rows)


def _sums(place: IntArray, values: NDArray[Any], size: int) -> Floats:
    found: Floats = np.bincount(place, values, size).astype(np.float64, copy=False)
    return found


def example_log() -> LoggedClicks:
    """A page of two results, shown ten times, and a third candidate that never was: for examples."""
    data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    clicks = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    return LoggedClicks(data, clicks, Propensities.power(1, 2))
