"""One small log, to be written in odd ways and read back: the cells must be those of the plain log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from small_logs import cells

from cldrank.clicks.aggregate import Aggregation, aggregate

# session, query, document, position, clicked
PLAIN: list[tuple[int, str, str, int, int]] = [
    (session, "qr"[session % 2], document, place, int((session + place) % 3 == 0))
    for session in range(8)
    for place, document in enumerate("abcdef" if session % 3 else "badcfe", start=1)
]
NAMES = ("session_id", "query_id", "doc_id", "position", "clicked")

Cells = dict[tuple[Any, Any, int], tuple[int, int]]


def expected() -> Cells:
    """The cells of the plain log, counted one by one."""
    counts: Cells = {}
    for _, query, document, position, clicked in PLAIN:
        n, c = counts.get((query, document, position), (0, 0))
        counts[query, document, position] = n + 1, c + clicked
    return counts


def plain_rows() -> list[dict[str, Any]]:
    """The plain log, a dictionary per row."""
    return [dict(zip(NAMES, row, strict=True)) for row in PLAIN]


def plain_pages() -> list[tuple[int, str, list[str], list[int]]]:
    """The plain log by page: session, query, documents, and a click or not for each."""
    pages = []
    for (session, query), rows in groupby(PLAIN, key=lambda row: row[:2]):
        results = list(rows)
        pages.append((session, query, [row[2] for row in results], [row[4] for row in results]))
    return pages


def write_parquet(path: Path, rows: Iterable[dict[str, Any]], **types: pa.DataType) -> Path:
    table = pa.Table.from_pylist(list(rows))
    for name, kind in types.items():
        table = table.set_column(table.column_names.index(name), name, table[name].cast(kind))
    pq.write_table(table, path)
    return path


def write_json(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def read(path: Path, engine: Any = "duckdb", **options: Any) -> tuple[Cells, Aggregation]:
    """The cells of a log, and all that came back."""
    result = aggregate(path, engine=engine, max_rejected=1, **options)
    assert result.clicks.impressions.sum() + result.account.n_rejected == result.account.rows
    return cells(result.clicks), result
