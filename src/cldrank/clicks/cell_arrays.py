"""The arrays of a click table: cells in order, display probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.arguments import shortened
from cldrank.clicks.log.paths import AGAIN, LogFile, in_both, names_of
from cldrank.clicks.log.roles import NO_SEGMENT
from cldrank.data.checks import whole_numbers
from cldrank.errors import DataError

_ROUNDING = 1e-6  # by which display probabilities may add up to more than 1


def merged_cells(
    row: IntArray, segment: IntArray, position: IntArray, impressions: IntArray, clicks: IntArray, segments: int
) -> list[IntArray]:
    """The cells sorted by row, segment and position, with equal ones added up and empty ones dropped."""
    kept = (impressions > 0) | (clicks > 0)
    row, segment, position, impressions, clicks = (
        values[kept] for values in (row, segment, position, impressions, clicks)
    )
    key = (row * segments + segment) * (position.max(initial=0) + 1) + position
    if not (np.diff(key) > 0).all():
        order = np.argsort(key, kind="stable")
        row, segment, position, impressions, clicks, key = (
            values[order] for values in (row, segment, position, impressions, clicks, key)
        )
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        row, segment, position = row[starts], segment[starts], position[starts]
        impressions, clicks = np.add.reduceat(impressions, starts), np.add.reduceat(clicks, starts)
    return [np.array(values) for values in (row, segment, position, impressions, clicks)]


def most_impressions(group: IntArray, position: IntArray, impressions: IntArray) -> tuple[IntArray, IntArray]:
    """The groups that cells belong to, rising, and the most impressions that each has at any one position."""
    span = int(position.max(initial=0)) + 1
    places, inverse = np.unique(group * span + position, return_inverse=True)
    sums = np.zeros(len(places), dtype=np.int64)
    np.add.at(sums, inverse, impressions)
    starts = np.flatnonzero(np.diff(places // span, prepend=-1))
    return places[starts] // span, np.maximum.reduceat(sums, starts)


def segment_codes(given: Any, names: tuple[str, ...], cells: int) -> tuple[IntArray, tuple[str, ...]]:
    """The segment of each cell as a code, and the names of segments in order; a single one costs no memory.

    >>> segment_codes([0, 1, 1], ("phone", "desktop"), 3)
    (array([1, 0, 0]), ('desktop', 'phone'))
    """
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise DataError(f"segment_names must be different texts, one for each segment, not {shortened(names)}.")
    if len(names) > 1 and "" in names:
        raise DataError("some cells have segments and others have none; give all of them one.")
    ordered = tuple(sorted(names))
    codes = np.broadcast_to(np.zeros(1, dtype=np.int64), cells) if given is None else whole_numbers(given, "segment", 0)
    if len(codes) != cells:
        raise DataError(f"segment has {len(codes):,} entries for {cells:,} cells.")
    if codes.max(initial=0) >= len(names):
        raise DataError(f"a cell names segment {codes.max()}, but there are {len(names)} names of segments.")
    if len(names) == 1:
        return np.broadcast_to(np.zeros(1, dtype=np.int64), cells), ordered
    return np.array([ordered.index(name) for name in names], dtype=np.int64)[codes], ordered


def named_segments(values: Any) -> tuple[IntArray, tuple[str, ...]]:
    """Codes and names of the segments that values name; without a value, `NO_SEGMENT`.

    >>> named_segments(["phone", None, "phone"])
    (array([1, 0, 1]), ('(missing)', 'phone'))
    """
    texts = [NO_SEGMENT if value is None or value == "" or value != value else str(value) for value in values]
    names, codes = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
    return codes.astype(np.int64), tuple(names.tolist()) or ("",)


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
