"""The arrays of a click table: cells in order, display probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.arguments import shortened
from cldrank.clicks.log.paths import AGAIN, LogFile, in_both, names_of
from cldrank.errors import DataError

_ROUNDING = 1e-6  # by which display probabilities may add up to more than 1


def merged_cells(row: IntArray, position: IntArray, impressions: IntArray, clicks: IntArray) -> list[IntArray]:
    """The cells sorted by row and position, with equal ones added up and empty ones dropped."""
    kept = (impressions > 0) | (clicks > 0)
    row, position, impressions, clicks = row[kept], position[kept], impressions[kept], clicks[kept]
    key = row * (position.max(initial=0) + 1) + position
    if not (np.diff(key) > 0).all():
        order = np.argsort(key, kind="stable")
        row, position, impressions, clicks, key = (
            values[order] for values in (row, position, impressions, clicks, key)
        )
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        row, position = row[starts], position[starts]
        impressions, clicks = np.add.reduceat(impressions, starts), np.add.reduceat(clicks, starts)
    return [np.array(values) for values in (row, position, impressions, clicks)]


def joined_sources(
    parts: Sequence[tuple[tuple[LogFile, ...], IntArray]], *, again: bool = False
) -> tuple[LogFile, ...]:
    """The sources of tables that are added up, each once; tables are given by sources and keys of their cells.

    Tables with a source and cells in common are refused, unless `again` asks for that.
    """
    found: list[LogFile] = []
    for place, (sources, keys) in enumerate(parts):
        common = in_both(found, sources)
        if common and not again:
            earlier = [other_keys for others, other_keys in parts[:place] if in_both(others, sources)]
            if any(np.isin(keys, other_keys).any() for other_keys in earlier):
                raise DataError(
                    "{} went into both and would be counted twice; add only what is new, or set {} if intended.",
                    names_of(common),
                    AGAIN,
                )
        found += [source for source in sources if source not in common]
    return tuple(found)


def display_table(probabilities: Any, rows: int, row: IntArray, position: IntArray) -> NDArray[np.float64]:
    """P(shown at a position) of each of `rows` candidates; the cells at `row` and `position` must not contradict it."""
    try:
        table = np.array(probabilities, dtype=np.float64)
    except (ValueError, TypeError):
        raise DataError("display must be a table of numbers, one row per candidate.") from None
    depth = int(position.max(initial=0))
    if table.ndim != 2 or len(table) != rows or table.shape[1] < depth:
        raise DataError(
            f"display has shape {table.shape}; it needs one row for each of {rows:,} candidates and one column per "
            f"position, at least {depth}."
        )
    with np.errstate(invalid="ignore"):  # inf - inf
        good = (np.isfinite(table) & (table >= 0)).all(axis=1) & (table.sum(axis=1) <= 1 + _ROUNDING)
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        raise DataError(
            f"row {at} of display, {shortened(table[at].tolist())}, does not hold probabilities that add up to at "
            "most 1."
        )
    impossible = np.flatnonzero(table[row, position - 1] == 0)
    if len(impossible):
        cell = impossible[0]
        raise DataError(f"row {row[cell]} was shown at position {position[cell]}, where display says it cannot be.")
    table.flags.writeable = False
    return table
