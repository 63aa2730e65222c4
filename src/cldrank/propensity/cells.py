"""`Cells`: what an estimator looks at: the cells of the first positions, and what they are resampled by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import deal, many_queries
from cldrank.errors import UnidentifiableError, UsageError

Floats = NDArray[np.float64]
Resample = Literal["auto", "queries", "candidates"]

DEEPEST = 200


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of the first `size` positions, sorted by row and position.

    row, query, place     (cells,) int64; places count from 0
    impressions, clicks   (cells,) float64, weighted if the estimator weighs them
    seen                  (cells,) float64: the impressions, not weighted
    group                 (cells,) int64: what is drawn together when the log is resampled
    n_groups, n_units     groups, and the queries or candidates in them
    units                 "queries" or "candidates"
    every_click           whether an impression may have several clicks
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
        group, n_groups, n_units = deal(unit, size, seed)
        if n_units < 2:
            what = "one query; resample='candidates' may tell" if by_query else "one candidate; that does not tell"
            raise UnidentifiableError(f"the log has only {what} how far an estimate can be trusted.")
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
        )

    def by_group(self, key: IntArray, values: Floats, width: int, cells: IntArray | None = None) -> Floats:
        """(groups, width): the sum of values by group and key; `cells` says which cells they are of."""
        group = self.group if cells is None else self.group[cells]
        sums = np.bincount(group * width + key, values, minlength=self.n_groups * width)
        return np.asarray(sums, dtype=np.float64).reshape(self.n_groups, width)

    def rates(self) -> Floats:
        """(size,) the click-through rate of each position."""
        shown = np.bincount(self.place, self.impressions, self.size)
        rates: Floats = np.bincount(self.place, self.clicks, self.size) / np.where(shown > 0, shown, 1.0)
        return rates


def _depth(clicks: ClickTable, depth: int | None) -> int:
    """How many positions to look at; each must have been shown."""
    if not clicks.n_cells:
        raise UnidentifiableError("the log is empty: nothing was shown, so nothing can be said of positions.")
    size = clicks.depth if depth is None else depth
    if size > clicks.depth:
        raise UsageError(f"depth is {size}, but nothing was shown below position {clicks.depth}.")
    if size > DEEPEST:
        raise UsageError(
            f"the log shows {size:,} positions, and all pairs of them would be compared; say how many from the top to "
            f"estimate, at most {DEEPEST}, by depth."
        )
    missing = np.flatnonzero(np.bincount(clicks.position, minlength=size + 1)[1 : size + 1] == 0) + 1
    if len(missing):
        first = int(missing[0])
        way = f"depth={first - 1} estimates the positions above it" if first > 2 else "nothing is left to compare"
        raise UnidentifiableError(
            f"position {first} was never shown, so its propensity is unknown; {way}. If the log counts positions from "
            "another number, read it with first_position.",
            positions=tuple(missing.tolist()),
            depth=first - 1,
        )
    if size < 2:
        raise UnidentifiableError(
            "only one position was shown, or asked for; there is nothing to compare it with.", depth=size
        )
    return size
