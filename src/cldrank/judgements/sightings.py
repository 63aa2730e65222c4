"""`Sightings`: everything that a log says about each candidate that was shown, at all its positions together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.propensity.segment_propensities import Curve, slopes_and_bases

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

_BLOCK = 1 << 13  # candidates whose posteriors are held at once
_CERTAIN = 1e-12  # nothing is less probable, and no click or miss more than 1 minus this


@dataclass(frozen=True, eq=False)
class Sightings:
    """Clicks and misses of the candidates that were shown, by place: a position, on a surface where there are several.

    rows      (shown,) the candidates
    cell      (places,) a cell at each place, to look up the curve there
    home      (shown,) the place where each candidate was shown most often; of several, the first
    clicked   (shown, places) sparse: clicks
    missed    (shown, places) sparse: impressions without a click
    """

    rows: IntArray
    cell: IntArray
    home: IntArray
    clicked: csr_array
    missed: csr_array

    @classmethod
    def of(cls, clicks: ClickTable) -> Sightings:
        """Those of a log."""
        from scipy.sparse import csr_array

        rows, row = np.unique(clicks.row, return_inverse=True)
        _, cell, place = np.unique(_places(clicks), return_index=True, return_inverse=True)
        shape = len(rows), len(cell)
        missed = clicks.impressions - clicks.clicks
        most = np.lexsort((place, -clicks.impressions, row))
        first = most[np.flatnonzero(np.diff(row[most], prepend=-1))]
        return cls(
            rows,
            cell,
            place[first],
            csr_array((clicks.clicks.astype(np.float64), (row, place)), shape=shape),
            csr_array((missed.astype(np.float64), (row, place)), shape=shape),
        )

    @property
    def number(self) -> int:
        """How many candidates were shown."""
        return len(self.rows)

    def order(self) -> IntArray:
        """(shown,) the candidates by clicks, then by misses: an order that does not depend on that of rows."""
        found: IntArray = np.lexsort((self.missed.sum(axis=1), self.clicked.sum(axis=1)))
        return found

    def blocks(self) -> Iterator[IntArray]:
        """The candidates, some thousands at a time."""
        for start in range(0, self.number, _BLOCK):
            yield np.arange(start, min(start + _BLOCK, self.number))

    def likelihood(self, chosen: IntArray, clicked: Floats) -> Floats:
        """(chosen, grid) of all that was seen of some candidates, over the largest of each.

        clicked   (places, grid) the probability of a click at each place, at each relevance of a grid; where it lies
                  beyond 0 or 1, a document of that relevance cannot have been there
        """
        outside = (clicked < -_CERTAIN) | (clicked > 1 + _CERTAIN)
        certain = np.clip(clicked, _CERTAIN, 1 - _CERTAIN)
        hit, miss = (np.where(outside, np.log(_CERTAIN), one) for one in (np.log(certain), np.log1p(-certain)))
        logs = self.clicked[chosen] @ hit + self.missed[chosen] @ miss
        found: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        return found

    def click_probability(self, clicks: ClickTable, curve: Curve, grid: Floats) -> Floats:
        """(places, grid) the probability of a click at each place, at each relevance of a grid."""
        slope, base = slopes_and_bases(curve, clicks)
        found: Floats = slope[self.cell, None] * grid + base[self.cell, None]
        return found


def _places(clicks: ClickTable) -> IntArray:
    """(cells,) a number for the position and, where the log has segments, the segment of each cell."""
    segment = clicks.segment
    found: IntArray = segment * (clicks.depth + 1) + clicks.position
    return found
