"""Two click tables as one, whatever candidates and segments each of them has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.log.paths import AGAIN, in_both, names_of
from cldrank.clicks.log.values import DEEPEST
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, setting


def merged_tables(one: ClickTable, other: ClickTable, again: bool) -> ClickTable:
    """Both logs together, see `ClickTable.merge`."""
    if one.every_click != other.every_click:
        raise DataError("one table counts every click, the other one click per impression; they cannot be merged.")
    candidates = one.candidates
    mine, theirs = one.row, other.row
    if not candidates.equals(other.candidates):
        candidates = one.candidates.joined(other.candidates)
        mine = candidates.find(*_ids(one))
        theirs = candidates.find(*_ids(other))
    _check_same_display(one, other)
    names, (my_segment, their_segment) = _joined_segments(one, other)
    common = in_both(one.sources, other.sources)
    if common and not again:
        span = DEEPEST + 1
        my_cells = (mine * len(names) + my_segment) * span + one.position
        if np.isin((theirs * len(names) + their_segment) * span + other.position, my_cells).any():
            raise DataError(
                "{} went into both and would be counted twice; add only what is new, or set {} if intended.",
                names_of(common),
                AGAIN,
            )
    fresh = tuple(source for source in other.sources if source not in common)
    return ClickTable(
        candidates,
        np.concatenate([mine, theirs]),
        np.concatenate([one.position, other.position]),
        np.concatenate([one.impressions, other.impressions]),
        np.concatenate([one.clicks, other.clicks]),
        one.every_click,
        (*one.sources, *fresh),
        one.display,
        np.concatenate([my_segment, their_segment]),
        names,
    )


def _ids(table: ClickTable) -> tuple[NDArray[Any], NDArray[Any]]:
    """The query and document id of each cell."""
    candidates = table.candidates
    return candidates.query_ids[candidates.row_queries[table.row]], candidates.doc_ids[table.row]


def _joined_segments(*tables: ClickTable) -> tuple[tuple[str, ...], list[IntArray]]:
    """The segments that any of the tables has, and of each table the codes of its cells among them."""
    named = [table for table in tables if table.n_cells] or list(tables)
    if len({table.has_segments for table in named}) > 1:
        raise DataError(
            "one table has segments ({}), the other has none; aggregate both logs with {}.",
            ", ".join(next(table.segment_names for table in named if table.has_segments)),
            setting("segment"),
        )
    names = tuple(sorted({name for table in named for name in table.segment_names}))
    return names, [
        np.array([names.index(name) if name in names else 0 for name in table.segment_names])[table.segment]
        for table in tables
    ]


def _check_same_display(one: ClickTable, other: ClickTable) -> None:
    """Refuse to add up logs of policies that differ, or might."""
    if one.display is None and other.display is None:
        return
    if (
        one.display is None
        or other.display is None
        or not one.candidates.equals(other.candidates)
        or not np.array_equal(one.display, other.display)
    ):
        raise DataError(
            "the tables differ in their display probabilities; merge them without, and set those of the merged log "
            "with with_display."
        )
