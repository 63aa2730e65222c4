"""Small logs, and what aggregation makes of them, for the tests of the way from a log to cells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cldrank import ClickTable
from cldrank.clicks.aggregate import REASONS

COLUMNS = ("session_id", "query_id", "doc_id", "position", "clicked")


Row = tuple[int | None, str | None, str | None, int | None, int | None]


def write(path: Path, rows: list[Row]) -> Path:
    types = (pa.int64(), pa.string(), pa.string(), pa.int64(), pa.int64())
    columns = zip(*rows, strict=True) if rows else ((),) * 5
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    pq.write_table(pa.table(arrays, names=COLUMNS), path)
    return path


def cells(table: ClickTable) -> dict[tuple[Any, Any, int], tuple[int, int]]:
    candidates = table.candidates
    queries = candidates.query_ids[candidates.row_queries[table.row]].tolist()
    keys = zip(queries, candidates.doc_ids[table.row].tolist(), table.position.tolist(), strict=True)
    return dict(zip(keys, zip(table.impressions.tolist(), table.clicks.tolist(), strict=True), strict=True))


def contexts(table: ClickTable) -> dict[tuple[Any, Any, int, int], tuple[int, int]]:
    """The contexts of a table by query, document, position and last click."""
    own, candidates = table.contexts, table.candidates
    assert own is not None
    queries = candidates.query_ids[candidates.row_queries[own.row]].tolist()
    places = own.position.tolist(), own.last_click.tolist()
    keys = zip(queries, candidates.doc_ids[own.row].tolist(), *places, strict=True)
    return dict(zip(keys, zip(own.impressions.tolist(), own.clicks.tolist(), strict=True), strict=True))


def plain_contexts(rows: list[Row]) -> dict[tuple[Any, Any, int, int], tuple[int, int]]:
    """What contexts mean, one counted row after the other."""
    kept, _ = plain_rows(rows)
    counts: dict[Any, tuple[int, int]] = {}
    for (session, query, document, position), clicked in kept.items():
        above = [key[3] for key, click in kept.items() if click and key[:2] == (session, query) and key[3] < position]
        key = (query, document, position, max(above, default=0))
        n, c = counts.get(key, (0, 0))
        counts[key] = (n + 1, c + clicked)
    return counts


def plainly(rows: list[Row]) -> tuple[dict[Any, tuple[int, int]], dict[str, int]]:
    """What aggregation means, one row after the other."""
    kept, rejected = plain_rows(rows)
    counts: dict[Any, tuple[int, int]] = {}
    for (_, *cell), clicked in kept.items():
        n, c = counts.get(tuple(cell), (0, 0))
        counts[tuple(cell)] = (n + 1, c + clicked)
    return counts, rejected


def plain_rows(rows: list[Row]) -> tuple[dict[Any, int], dict[str, int]]:
    """The rows that count, with their clicks, and how many do not, by reason."""
    rejected: Counter[str] = Counter()
    shown: dict[Any, list[int]] = {}  # of rows without a time: other clicks on a page make it one of two views
    for session, query, document, position, clicked in rows:
        clicks = int((clicked or 0) > 0)
        if session is None or query is None or document is None:
            rejected["null key"] += 1
        elif (position is None or position < 1) and clicks > 0:
            rejected["click never shown"] += 1
        elif position is None:
            rejected["null key"] += 1
        elif position < 1:
            rejected["position below 1"] += 1
        else:
            shown.setdefault((session, query, document, position), []).append(clicks)
    top: dict[Any, int] = {}
    for session, query, document, position in shown:
        key = (session, query, document)
        top[key] = min(position, top.get(key, position))
    seen_twice = {key[:2] for key, clicks_logged in shown.items() if len(set(clicks_logged)) > 1}
    kept: dict[Any, int] = {}
    for (session, query, document, position), clicks_logged in shown.items():
        if position > top[session, query, document]:
            rejected["document twice"] += len(clicks_logged)
            continue
        rejected["second view" if (session, query) in seen_twice else "repeated row"] += len(clicks_logged) - 1
        kept[session, query, document, position] = max(clicks_logged)
    return kept, {reason: rejected[reason] for reason in REASONS if rejected[reason]}


def pages_from(first: int, sessions: int, depth: int = 24, start: int = 0) -> list[Row]:
    """Deep pages, so that one position is a small share of the rows."""
    return [(start + s, "q", f"d{k}", first + k, int(k == s % depth)) for s in range(sessions) for k in range(depth)]


VIEWED: list[tuple[Any, ...]] = [  # session, document, position, clicked, time
    (1, "a", 1, 0, 10),
    (1, "b", 2, 0, 10),
    (1, "b", 2, 0, 10),  # a copy
    (1, "a", 1, 1, 20),  # a second view, clicked
    (1, "a", 1, 1, 20),  # a copy of that
    (1, "b", 2, 0, 20),  # of the second view too, though nobody clicked
    (1, "a", 2, 0, 30),  # a third view, in another order
    (2, "a", 1, 0, 10),
    (2, "b", 2, 1, 10),
]


def write_timed(path: Path, rows: list[tuple[Any, ...]]) -> Path:
    """Rows whose last value is the second of 2024-07-01."""
    rows = [(*row, 1_719_792_000 + second) for *row, second in rows]
    names = ("session_id", "doc_id", "position", "clicked", "timestamp")
    table = pa.table([pa.array(values) for values in zip(*rows, strict=True)], names=names)
    pq.write_table(table.append_column("query_id", pa.array(["q"] * len(rows))), path)
    return path


CLEAN: list[Row] = [
    (1, "q", "a", 1, 0),
    (1, "q", "b", 2, 1),
    (2, "q", "a", 1, 1),
    (2, "q", "b", 2, 1),
    (3, "r", "a", 1, 0),
]


DEFECTS: list[Row] = [
    *CLEAN,
    (None, "q", "a", 1, 1),  # null key
    (4, None, "a", 1, 0),  # null key
    (4, "q", None, 1, 0),  # null key
    (4, "q", "a", None, 0),  # null key
    (4, "q", "a", None, 1),  # click never shown
    (4, "q", "b", 0, 0),  # position below 1
    (4, "q", "b", -3, 1),  # click never shown
    (5, "q", "a", 1, 0),
    (5, "q", "a", 1, 1),  # second view; one of the two is kept, clicked
    (5, "q", "b", 2, 0),
    (5, "q", "b", 4, 1),  # document twice
    (6, "z", "a", 1, 0),  # unknown query
    (6, "q", "zz", 1, 1),  # unknown document
]
