"""`Contexts`: cells split by where their page was last clicked above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.log.layout import DEEPEST
from cldrank.data.checks import whole_numbers
from cldrank.errors import DataError

LAST_CLICK = "last_click"  # the column of files


@dataclass(frozen=True, eq=False)
class Contexts:
    """Impressions and clicks by candidate, position, and the position of the last click above it on the same page.

    row, segment, position   (contexts,) int64: those of the cell; segment None: all are of one
    last_click               (contexts,) int64: the position of the last click above on the page; 0 without any
    impressions, clicks      (contexts,) int64: they add up to those of the cell

    These are the contexts of the user browsing model (Dupret and Piwowarski 2008). They are sorted by the first four,
    no two alike; nothing can be changed.

    >>> pages = Contexts(row=[5, 5, 3], segment=None, position=[2, 2, 1], last_click=[1, 0, 0],
    ...                  impressions=[10, 30, 40], clicks=[1, 9, 10])
    >>> pages.row, pages.last_click, pages.cell
    (array([3, 5, 5]), array([0, 0, 1]), array([0, 1, 1]))
    """

    row: IntArray
    segment: IntArray
    position: IntArray
    last_click: IntArray
    impressions: IntArray
    clicks: IntArray

    def __post_init__(self) -> None:
        row, position = whole_numbers(self.row, "row", 0), whole_numbers(self.position, "position", 1, DEEPEST)
        segment = one_segment(len(row)) if self.segment is None else whole_numbers(self.segment, "segment", 0)
        last_click = whole_numbers(self.last_click, LAST_CLICK, 0, DEEPEST)
        counts = [whole_numbers(getattr(self, name), name, 0) for name in ("impressions", "clicks")]
        if {len(values) for values in (segment, position, last_click, *counts)} != {len(row)}:
            raise DataError("row, segment, position, last_click, impressions and clicks must be of the same length.")
        wrong = np.flatnonzero((last_click >= position) | (counts[1] > counts[0]))
        if len(wrong):
            at = wrong[0]
            raise DataError(
                f"row {row[at]} has {counts[1][at]} clicks in {counts[0][at]} impressions at position {position[at]} "
                f"after a click at {last_click[at]}; clicks are at most as many as impressions, and the last click is "
                "above."
            )
        values = added_up([row, segment, position, last_click], *counts)
        if not values[1].any():
            values[1] = one_segment(len(values[0]))
        for name, array in zip(self.__dataclass_fields__, values, strict=True):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def cell(self) -> IntArray:
        """(contexts,) the number of the cell of each, in the order of a `ClickTable`."""
        return np.asarray(np.cumsum(self._starts()) - 1)

    def cells(self) -> dict[str, Any]:
        """Row, segment, position, impressions and clicks of the cells."""
        first = np.flatnonzero(self._starts())
        cells = {"row": self.row[first], "segment": self.segment[first], "position": self.position[first]}
        for name in ("impressions", "clicks"):
            counts = getattr(self, name)
            cells[name] = np.add.reduceat(counts, first) if len(first) else counts
        return cells

    def where(self, kept: NDArray[np.bool_], **others: Any) -> Contexts:
        """Those where a mask is true; `others` replace some of the arrays that are left."""
        return replace(self, **{name: getattr(self, name)[kept] for name in self.__dataclass_fields__} | others)

    def _starts(self) -> NDArray[np.bool_]:
        """Where the next cell begins."""
        first = np.ones(len(self.row), dtype=bool)
        first[1:] = np.any([np.diff(values) != 0 for values in (self.row, self.segment, self.position)], axis=0)
        return first


def added_up(keys: Sequence[IntArray], *counts: IntArray) -> list[IntArray]:
    """Keys and counts, sorted by the keys; counts with equal keys are added up, those that are all 0 dropped."""
    kept = np.any([values > 0 for values in counts], axis=0)
    keys, parts = [values[kept] for values in keys], [values[kept] for values in counts]
    key = np.zeros(len(parts[0]), dtype=np.int64)
    for values in keys:
        key = key * (values.max(initial=0) + 1) + values
    if not (np.diff(key) > 0).all():
        order = np.argsort(key)
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        keys = [values[order][starts] for values in keys]
        parts = [np.add.reduceat(values[order], starts) for values in parts]
    return [np.array(values) for values in (*keys, *parts)]


def one_segment(cells: int) -> IntArray:
    """The code of each cell of a log with a single segment, which costs no memory."""
    return np.broadcast_to(np.zeros(1, dtype=np.int64), cells)
