"""What estimators add up: the cells of the first positions, and pairs of cells of the same candidate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import cell_pairs, deal, many_queries
from cldrank.errors import Spelling, UnidentifiableError, UsageError, setting

Floats = NDArray[np.float64]
Resample = Literal["auto", "queries", "candidates"]
Weighting = Literal["candidates", "impressions"]

DEEPEST = 200


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of the first `size` positions, sorted by row and position.

    row, query            (cells,) int64: codes of the candidate and of the query, each together with the segment, since
                          only what was shown on the same surface is compared
    place                 (cells,) int64: the position, from 0
    impressions, clicks   (cells,) float64, weighted where the estimator has weights
    seen                  (cells,) float64: the impressions, not weighted
    group                 (cells,) int64: what is drawn together when the log is resampled
    n_groups, n_units     groups, and the queries or candidates in them
    units                 "queries" or "candidates"
    every_click           whether an impression may have several clicks
    n_segments            how many segments codes are of
    """

    row: IntArray
    query: IntArray
    place: IntArray
    impressions: Floats
    clicks: Floats
    seen: Floats
    size: int
    group: IntArray
    n_groups: int
    n_units: int
    units: str
    every_click: bool
    n_segments: int = 1

    @classmethod
    def of(cls, clicks: ClickTable, depth: int | None, resample: Resample, seed: int) -> Cells:
        """The cells of a table down to a depth (None: all positions), grouped at random into equal parts."""
        size = _depth(clicks, depth)
        used = (clicks.position <= size) & (clicks.impressions > 0)
        kept = slice(None) if used.all() else np.flatnonzero(used)
        row, place = clicks.row[kept], clicks.position[kept] - 1
        query = clicks.candidates.row_queries[row]
        by_query = resample == "queries" or (resample == "auto" and many_queries(query))
        unit = query if by_query else row
        row, query = clicks.segment_row[kept], clicks.segment_query[kept]
        group, n_groups, n_units = deal(unit, size, seed)
        if n_units < 2 and by_query:
            raise UnidentifiableError(
                "the log has only one query, which does not show how far an estimate can be trusted; {} may.",
                setting("resample", "candidates"),
            )
        if n_units < 2:
            raise UnidentifiableError(
                "the log has only one candidate, which does not show how far an estimate can be trusted."
            )
        impressions = clicks.impressions[kept].astype(np.float64)
        return cls(
            row,
            query,
            place,
            impressions,
            clicks.clicks[kept].astype(np.float64),
            impressions,
            size,
            group,
            n_groups,
            n_units,
            "queries" if by_query else "candidates",
            clicks.every_click,
            clicks.n_segments,
        )

    @property
    def candidate(self) -> IntArray:
        """(cells,) the row of the dataset."""
        return self.row // self.n_segments

    def by_group(self, key: IntArray, values: Floats, width: int, cells: IntArray | None = None) -> Floats:
        """(groups, width): the sum of values by group and key; `cells` says which cells they are of."""
        group = self.group if cells is None else self.group[cells]
        sums = np.bincount(group * width + key, values, minlength=self.n_groups * width)
        return np.asarray(sums, dtype=np.float64).reshape(self.n_groups, width)

    def pairs(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Pairs of cells of one candidate on one surface, see `cell_pairs`."""
        return cell_pairs(self.row, self.place, self.size)

    def rates(self) -> Floats:
        """(size,) the click-through rate of each position."""
        shown = np.bincount(self.place, self.impressions, self.size)
        rates: Floats = np.bincount(self.place, self.clicks, self.size) / np.where(shown > 0, shown, 1.0)
        return rates


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over S_kl, the candidates shown at both positions k < l, for every pair of positions.

    upper, lower                 (pairs,) int64: k and l, from 0, in order
    above, below                 (groups, pairs) the weighted click-through rates at k and at l
    total                        (groups, pairs) the weights
    candidates                   (pairs,) how many candidates
    clicks_upper, clicks_lower   (pairs,) their clicks at k and at l
    units                        (pairs,) how many queries (or whatever is resampled) they belong to, or groups of such
    effective                    (pairs,) how many impressions, at each of the two, would be as informative

    Weights of a candidate, with n impressions at k and m at l: n m / (n + m), which brings the least variance (Mantel
    and Haenszel 1959), or 1, as in Agarwal et al. (2019).
    """

    upper: IntArray
    lower: IntArray
    above: Floats
    below: Floats
    total: Floats
    candidates: IntArray
    clicks_upper: Floats
    clicks_lower: Floats
    units: IntArray
    effective: Floats

    @classmethod
    def of(cls, cells: Cells, weighting: Weighting) -> PairSums:
        """Add up all pairs of cells of the same candidate."""
        size = cells.size
        upper, lower = np.triu_indices(size, 1)
        count = len(upper)
        grouped = np.zeros((3, cells.n_groups, count))
        plain = np.zeros((4, count))
        rate = cells.clicks / cells.impressions
        for one, two, pair in cells.pairs():
            n, m = cells.impressions[one], cells.impressions[two]
            harmonic = n * m / (n + m)
            weight = harmonic if weighting == "impressions" else np.ones(len(one))
            for at, values in enumerate((weight * rate[one], weight * rate[two], weight)):
                grouped[at] += cells.by_group(pair, values, count, one)
            for at, values in enumerate(
                (np.ones(len(one)), cells.clicks[one], cells.clicks[two], weight**2 / harmonic)
            ):
                plain[at] += np.bincount(pair, values, count)
        candidates, clicks_upper, clicks_lower, spread = plain
        effective = 2 * grouped[2].sum(axis=0) ** 2 / np.where(spread > 0, spread, 1.0)
        above, below, total = grouped
        units = (total > 0).sum(axis=0)
        counted = candidates.astype(np.int64)
        return cls(upper, lower, above, below, total, counted, clicks_upper, clicks_lower, units, effective)


def _depth(clicks: ClickTable, depth: int | None) -> int:
    """How many positions to look at; each must have been shown."""
    if not clicks.n_cells:
        raise UnidentifiableError("the log is empty: nothing was shown, so nothing is known about positions.")
    size = clicks.depth if depth is None else depth
    if size > clicks.depth:
        raise UsageError("{} is too deep: nothing was shown below position {}.", setting("depth", size), clicks.depth)
    if size > DEEPEST:
        raise UsageError(
            "the log shows {:,} positions, and all pairs of them would be compared; set {}, the number of positions "
            "from the top, to at most {}.",
            size,
            setting("depth"),
            DEEPEST,
        )
    missing = np.flatnonzero(np.bincount(clicks.position, minlength=size + 1)[1 : size + 1] == 0) + 1
    if len(missing):
        first = int(missing[0])
        above = setting("depth", first - 1)
        raise UnidentifiableError(
            "position {} was never shown, so its propensity is unknown; {}. If the log counts positions from another "
            "number, read it with {}.",
            first,
            Spelling(*(f"{name} estimates the positions above it" for name in above))
            if first > 2
            else "nothing is left to compare",
            setting("first_position"),
            positions=tuple(missing.tolist()),
            depth=first - 1,
        )
    if size < 2:
        raise UnidentifiableError(
            "only one position was shown, or asked for; there is nothing to compare it with.", depth=size
        )
    return size
