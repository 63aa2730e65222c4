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

_BLOCK = 1 << 13  # kinds whose posteriors are held at once
_CERTAIN = 1e-12  # nothing is less probable, and no click or miss more than 1 minus this


@dataclass(frozen=True, eq=False)
class Sightings:
    """Clicks and misses of the candidates that were shown, by place: a position, on a surface where there are several.

    Candidates with the same clicks and misses at the same places are judged alike, and only once; with few impressions
    they are many.

    rows      (shown,) the candidates
    kind      (shown,) which of the kinds each is of
    number    (kinds,) how many candidates are of each
    cell      (places,) a cell at each place, to look up the curve there
    home      (kinds,) the place where each kind was shown most often; of several, the first
    clicked   (kinds, places) sparse: clicks
    missed    (kinds, places) sparse: impressions without a click
    """

    rows: IntArray
    kind: IntArray
    number: IntArray
    cell: IntArray
    home: IntArray
    clicked: csr_array
    missed: csr_array

    @classmethod
    def of(cls, clicks: ClickTable) -> Sightings:
        """Those of a log."""
        from scipy.sparse import csr_array

        rows = np.flatnonzero(clicks.shown)
        row = (np.cumsum(clicks.shown) - 1)[clicks.row]
        cell, place = _places(clicks)
        _, example, kind, number = np.unique(
            _kinds(row, place, clicks.impressions, clicks.clicks),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        chosen = np.zeros(len(rows), dtype=bool)
        chosen[example] = True
        cells = np.flatnonzero(chosen[row])
        row, place, shown, clicked = kind[row[cells]], place[cells], clicks.impressions[cells], clicks.clicks[cells]
        most = np.lexsort((place, -shown, row))
        first = most[np.flatnonzero(np.diff(row[most], prepend=-1))]
        found, missed = (
            csr_array((one.astype(np.float64), (row, place)), shape=(len(number), len(cell)))
            for one in (clicked, shown - clicked)
        )
        return cls(rows, kind, number, cell, place[first], found, missed)

    def order(self) -> IntArray:
        """(kinds,) by clicks, then by misses: an order that does not depend on that of rows."""
        found: IntArray = np.lexsort((self.missed.sum(axis=1), self.clicked.sum(axis=1)))
        return found

    def blocks(self) -> Iterator[IntArray]:
        """The kinds, some thousands at a time."""
        for start in range(0, len(self.number), _BLOCK):
            yield np.arange(start, min(start + _BLOCK, len(self.number)))

    def likelihood(self, chosen: IntArray, clicked: Floats) -> Floats:
        """(chosen, grid) of all that was seen of some kinds, over the largest of each.

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


def _places(clicks: ClickTable) -> tuple[IntArray, IntArray]:
    """(places,) the first cell at each position of each segment, and (cells,) the place of each cell."""
    number = clicks.segment * (clicks.depth + 1) + clicks.position
    first = np.full(number.max() + 1, -1)
    first[number[::-1]] = np.arange(len(number))[::-1]
    used = first >= 0
    return first[used], (np.cumsum(used) - 1)[number]


def _kinds(row: IntArray, place: IntArray, impressions: IntArray, clicks: IntArray) -> IntArray:
    """(shown,) a number for all cells of each candidate together, the same for those whose cells are the same.

    row   (cells,) the candidate of each cell, rising from 0 to as many as were shown; its places rise as well

    >>> row, place = np.array([0, 0, 1, 2, 2]), np.array([1, 2, 1, 1, 2])
    >>> _kinds(row, place, np.array([9, 5, 9, 9, 5]), np.array([3, 1, 3, 3, 1]))
    array([2, 1, 2])
    """
    order = np.lexsort([_short(one) for one in (clicks, impressions, place)])
    new = np.zeros(len(order), dtype=bool)
    for values in (place, impressions, clicks):
        new |= np.diff(values[order], prepend=-1) != 0
    code = np.empty(len(order), dtype=np.int64)
    code[order] = np.cumsum(new)
    length = np.bincount(row)
    start = np.cumsum(length) - length
    found = np.zeros(len(length), dtype=np.int64)
    for step in range(int(length.max(initial=0))):  # candidates of few cells keep the number that they have
        further = np.flatnonzero(length > step)
        pair = found[further] * (len(order) + 1) + code[start[further] + step]
        found[further] = found.max() + 1 + np.unique(pair, return_inverse=True)[1]
    return found


def _short(values: IntArray) -> NDArray[np.integer]:
    """The same numbers in 16 bits where these are enough: NumPy sorts them several times as fast."""
    return values.astype(np.uint16) if values.max(initial=0) < 1 << 16 else values
