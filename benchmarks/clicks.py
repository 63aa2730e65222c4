"""Aggregating click logs on DuckDB, against hand-written SQL without any check, all in one run.

    python benchmarks/clicks.py [--rows 1e6 1e7 1e8]

Prints one JSON line a log. `ratio` is our time over that of the SQL (goal: 1.3 at 10^8 rows), `peak_gib` the peak
resident memory of a process that does nothing else (goal: below 4). Three kinds of logs, all clean: `sorted` lies
session by session, each document always at one position; `shuffled` is the same in random order; `stochastic` lies
session by session, with documents at several positions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

GOALS = {"ratio": 1.3, "peak_gib": 4.0}
SQL = """
    SELECT query_id, doc_id, position, count(*) AS impressions, sum(clicked::INT) AS clicks
    FROM read_parquet('{path}') GROUP BY ALL
"""
LOG = """
    COPY (
        SELECT i // 10 AS session_id, (hash(i // 10) % 6000)::BIGINT AS query_id, (i % 10 + 1)::INT AS position,
               query_id * 1000 + position + {shift} AS doc_id,
               hash(i, 1) % 1000 < 300 // position AS clicked
        FROM range({rows}) t(i) {order}
    ) TO '{path}' (FORMAT parquet)
"""
KINDS = {
    "sorted": {"shift": "0", "order": ""},
    "shuffled": {"shift": "0", "order": "ORDER BY hash(i, 2)"},
    "stochastic": {"shift": "3 * (hash(i // 10, 3) % 4)::BIGINT", "order": ""},
}


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"memory_limit": "3GB"})
    connection.execute("SET enable_progress_bar = false")
    return connection


def sql_seconds(path: Path) -> float:
    with connect() as connection:
        start = time.perf_counter()
        connection.sql(SQL.format(path=path)).to_arrow_table()
        return time.perf_counter() - start


OURS = """
import json, pathlib, sys, time
from cldrank.clicks.aggregate import aggregate
aggregate(sys.argv[2])  # imports and first use
start = time.perf_counter()
result = aggregate(sys.argv[1])
seconds = time.perf_counter() - start
status = pathlib.Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 2**20
print(json.dumps([seconds, peak, result.account.rows, result.account.n_rejected, result.clicks.n_cells]))
"""


def ours(path: Path, small: Path) -> list[Any]:
    found = subprocess.run([sys.executable, "-c", OURS, path, small], capture_output=True, text=True, check=True)
    values: list[Any] = json.loads(found.stdout)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "log.parquet", Path(folder) / "small.parquet"
        with connect() as connection:
            connection.execute(LOG.format(path=small, rows=1000, **KINDS["sorted"]))
        for kind in arguments.kinds:
            for rows in map(int, arguments.rows):
                with connect() as connection:
                    connection.execute(LOG.format(path=path, rows=rows, **KINDS[kind]))
                print(json.dumps(measure(kind, path, small)), flush=True)


def measure(kind: str, path: Path, small: Path) -> dict[str, Any]:
    reference = min(sql_seconds(path) for _ in range(3))
    runs = [ours(path, small) for _ in range(3)]
    seconds, peak, rows, rejected, cells = min(runs)
    return {
        "benchmark": "clicks",
        "log": kind,
        "rows": rows,
        "rejected": rejected,
        "cells": cells,
        "seconds": {"sql": round(reference, 2), "cldrank": round(seconds, 2)},
        "ratio": round(seconds / reference, 2),
        "peak_gib": round(peak, 2),
        "goals": GOALS,
    }


if __name__ == "__main__":
    main()
