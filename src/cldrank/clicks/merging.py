"""Several click tables as one, whatever candidates and segments each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.cell_arrays import joined_sources
from cldrank.clicks.cell_kind import joined_kind
from cldrank.clicks.log.values import DEEPEST
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UsageError


def merged_tables(tables: Sequence[ClickTable], again: bool) -> ClickTable:
    """Any number of logs together, see `ClickTable.merge`."""
    if not tables:
        raise UsageError("there are no tables to merge.")
    first, *others = tables
    candidates = first.candidates
    kind = joined_kind((f"table {number}", table.kind) for number, table in enumerate(tables, 1))
    for other in others:
        _check_same_display(first, other)
    if not all(candidates.equals(other.candidates) for other in others):
        candidates = Candidates.joined(table.candidates for table in tables)
    names, segments = _joined_segments(tables)
    rows = [one.row if one.candidates.equals(candidates) else candidates.find(*_ids(one)) for one in tables]
    parts = [
        (one.sources, (row * len(names) + segment) * (DEEPEST + 1) + one.position)
        for one, row, segment in zip(tables, rows, segments, strict=True)
    ]
    return ClickTable(
        candidates,
        np.concatenate(rows),
        np.concatenate([one.position for one in tables]),
        np.concatenate([one.impressions for one in tables]),
        np.concatenate([one.clicks for one in tables]),
        kind.every_click,
        joined_sources(parts, again=again),
        first.display,
        np.concatenate(segments),
        names,
        kind.layout,
    )


def _ids(table: ClickTable) -> tuple[NDArray[Any], NDArray[Any]]:
    """The query and document id of each cell."""
    candidates = table.candidates
    return candidates.query_ids[candidates.row_queries[table.row]], candidates.doc_ids[table.row]


def _joined_segments(tables: Sequence[ClickTable]) -> tuple[tuple[str, ...], list[IntArray]]:
    """The segments that any of the tables has, and of each table the codes of its cells among them."""
    named = [table for table in tables if table.n_cells] or list(tables)
    names = tuple(sorted({name for table in named for name in table.segment_names if name})) or ("",)
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
