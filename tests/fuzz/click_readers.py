"""Readers of click logs and of cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from mutation import Random, mutate_text
from reader import Reader, WrongError, bytes_of, parquet_of, same, small_clicks, small_data

import cldrank as cr
from cldrank.clicks.aggregate import Aggregation


def log_table() -> pa.Table:
    """A small log, one row per displayed result."""
    random = np.random.default_rng(1)
    rows = [(page, page % 4, place) for page in range(12) for place in range(3)]
    return pa.table(
        {
            "session_id": [page for page, _, _ in rows],
            "query_id": [query for _, query, _ in rows],
            "doc_id": [f"d{query * 6 + place}" for _, query, place in rows],
            "position": [place + 1 for _, _, place in rows],
            "clicked": [bool(random.random() < 0.3) for _ in rows],
        }
    )


def _seed_log(folder: Path) -> None:
    table = log_table()
    pq.write_table(table, folder / "log.parquet")
    lines = [",".join(table.column_names), *(",".join(map(str, row.values())) for row in table.to_pylist())]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def _case_log(seeds: Path, place: Path, random: Random) -> Path:
    kind = random.random()
    if kind < 0.5:
        return parquet_of("log.parquet")(seeds, place, random)
    name = "log.csv" if kind < 0.75 else "log.jsonl"
    if random.random() < 0.3:
        return bytes_of(name)(seeds, place, random)
    content = mutate_text((seeds / name).read_text(), random, '\n,:{}"')
    (place / name).write_text(content, errors="surrogatepass")
    return place / name


def _read_log(path: Path) -> None:
    from cldrank.clicks.aggregate import aggregate

    done = aggregate(path, max_rejected=1.0, memory_limit="500MB", threads=1)
    if path.suffix == ".parquet":
        same(done.account.rows, pq.read_metadata(path).num_rows, "rows of the log")
    check_counts(done)


def check_counts(done: Aggregation) -> None:
    """Every row is counted or set aside, and the counts make sense."""
    clicks, account = done.clicks, done.account
    same(int(clicks.impressions.sum()) + account.n_rejected, account.rows, "rows counted and set aside")
    if clicks.n_cells and not (1 <= clicks.position.min() <= clicks.position.max() <= 10_000):
        raise WrongError(f"positions {clicks.position.min()} … {clicks.position.max()}")
    if (clicks.clicks > clicks.impressions).any() or (clicks.clicks < 0).any():
        raise WrongError("more clicks than impressions")


def _seed_cells(folder: Path) -> None:
    table = small_clicks(small_data())
    table.save(folder / "cells.parquet")
    parts: dict[str, Any] = {
        "row": table.row,
        "position": table.position,
        "impressions": table.impressions,
        "clicks": table.clicks,
    }
    segment = ["phone", "desktop", "ä b"] * 4
    cr.ClickTable.from_arrays(small_data(), **parts, segment=segment).save(folder / "segments.parquet")


def _load_cells(path: Path) -> None:
    from cldrank.clicks.cells_file import is_cells, load_cells

    if not is_cells(path):
        return
    table = load_cells(path)
    content = pq.read_table(path)
    for name in ("impressions", "clicks"):
        same(int(getattr(table, name).sum()), sum(int(value) for value in content[name].to_pylist()), name)
    counted = [
        int(n) > 0 or int(c) > 0
        for n, c in zip(content["impressions"].to_pylist(), content["clicks"].to_pylist(), strict=True)
    ]
    positions = {int(value) for value, kept in zip(content["position"].to_pylist(), counted, strict=True) if kept}
    same(sorted(set(table.position.tolist())), sorted(positions), "positions")
    if "segment" in content.column_names and len(content):
        told = pc.fill_null(content["segment"].cast(pa.string()), "(missing)").to_pylist()
        named = {str(value) for value, kept in zip(told, counted, strict=True) if kept}
        same(sorted({table.segment_names[code] for code in table.segment}), sorted(named), "segments")
        again = path.parent / "again.parquet"
        table.save(again)
        same(
            {name: int(part.clicks.sum()) for name, part in load_cells(again).by_segment().items()},
            {name: int(part.clicks.sum()) for name, part in table.by_segment().items()},
            "clicks by segment, saved again",
        )


CLICK_READERS = {
    "log": Reader(_seed_log, _case_log, _read_log, 4),
    "cells": Reader(_seed_cells, parquet_of("cells.parquet"), _load_cells, 12),
    "cells by segment": Reader(_seed_cells, parquet_of("segments.parquet"), _load_cells, 6),
}
