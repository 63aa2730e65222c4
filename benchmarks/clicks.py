"""Aggregating click logs on DuckDB, against hand-written SQL without any check, all in one run.

    python benchmarks/clicks.py [--rows 1e6 1e7 1e8]

Prints one JSON line a log. `ratio` is our time over that of the SQL, the best of three rounds each (goal: 2 at 10^8
rows), `cpu_ratio` the same in processor time, the median of rounds, which depends less on what else runs, `peak_gib`
the peak resident memory of a process that does nothing else (goal: below 4).

`sorted` lies session by session, each document always at one position; `shuffled` is the same in random order;
`stochastic` lies session by session, documents at several positions; `both` is that in random order; in `repeated`,
which is like `both`, one row of a thousand is a copy. The other logs are clean.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

GOALS = {"ratio": 2.0, "peak_gib": 4.0}
SQL = """
    SELECT query_id, doc_id, position, count(*) AS impressions, sum(clicked::INT) AS clicks
    FROM read_parquet('{path}') GROUP BY ALL
"""
LOG = """
    COPY (
        SELECT i // 10 AS session_id, (hash(i // 10) % 6000)::BIGINT AS query_id, (i % 10 + 1)::INT AS position,
               query_id * 1000 + position + {shift} AS doc_id,
               hash(i, 1) % 1000 < 300 // position AS clicked
        FROM (SELECT i - (hash(i, 4) % 1000 < {copies})::BIGINT AS i FROM range({rows}) t(i)) {order}
    ) TO '{path}' (FORMAT parquet)
"""
IN_PLACE, MOVING = "0", "3 * (hash(i // 10, 3) % 4)::BIGINT"
SORTED, SHUFFLED = "", "ORDER BY hash(i, 2)"
KINDS = {
    "sorted": {"shift": IN_PLACE, "order": SORTED, "copies": 0},
    "shuffled": {"shift": IN_PLACE, "order": SHUFFLED, "copies": 0},
    "stochastic": {"shift": MOVING, "order": SORTED, "copies": 0},
    "both": {"shift": MOVING, "order": SHUFFLED, "copies": 0},
    "repeated": {"shift": MOVING, "order": SHUFFLED, "copies": 1},
}


def connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"memory_limit": "3GB"})
    connection.execute("SET enable_progress_bar = false")
    return connection


def sql_seconds(path: Path) -> tuple[float, float]:
    with connect() as connection:
        start, used = time.perf_counter(), time.process_time()
        connection.sql(SQL.format(path=path)).to_arrow_table()
        return time.perf_counter() - start, time.process_time() - used


OURS = """
import json, pathlib, sys, time
from cldrank.clicks.aggregate import aggregate
aggregate(sys.argv[2])  # imports and first use
start, used = time.perf_counter(), time.process_time()
result = aggregate(sys.argv[1], max_rejected=1)
seconds, used = time.perf_counter() - start, time.process_time() - used
status = pathlib.Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 2**20
print(json.dumps([seconds, used, peak, result.account.rows, result.account.n_rejected, result.clicks.n_cells]))
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
    rounds = [(sql_seconds(path), ours(path, small)) for _ in range(3)]
    sql = min(seconds for (seconds, _), _ in rounds)
    seconds, _, peak, rows, rejected, cells = min(mine for _, mine in rounds)
    cpu_ratio = statistics.median(mine[1] / theirs[1] for theirs, mine in rounds)
    return {
        "benchmark": "clicks",
        "log": kind,
        "rows": rows,
        "rejected": rejected,
        "cells": cells,
        "seconds": {"sql": round(sql, 2), "cldrank": round(seconds, 2)},
        "ratio": round(seconds / sql, 2),
        "cpu_ratio": round(cpu_ratio, 2),
        "peak_gib": round(peak, 2),
        "goals": GOALS,
    }


if __name__ == "__main__":
    main()
