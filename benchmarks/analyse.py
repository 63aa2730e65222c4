"""Analysing the log of an experiment on DuckDB, against hand-written SQL without any check, in one run.

    python benchmarks/analyse.py [--pages 1e6 1e7]

One JSON line a log of five results a page, a fifth as many persons as pages, in 20 days. `ratio` is our processor
time over that of two GROUP BYs, pages and then persons (goal: 3 at 10^7 pages), the best of two rounds each, `seconds`
and `plain` the time by the clock; `peak_gib` is the peak resident memory of a process that does nothing else (goal:
below 2).
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

LIMIT = "1500MB"
LOG = """
    COPY (
        SELECT i // 5 AS session_id, (hash(i // 5) % 6000)::BIGINT AS query_id, i % 5 + 1 AS position,
               query_id * 1000 + position AS doc_id, hash(i, 1) % 1000 < 300 // position AS clicked,
               (hash(i // 5, 2) % {people})::BIGINT AS user_id,
               TIMESTAMP '2026-03-01' + to_seconds((i * 1728000 // {rows})::DOUBLE) AS timestamp, {columns}
        FROM range({rows}) t(i)
    ) TO '{path}' (FORMAT parquet)
"""
PICK = "(hash(i // 5, (i % 5) // 2 + 7) + (i % 5)) % 2 = 0"
COLUMNS = {
    "interleaving": f"CASE WHEN {PICK} THEN 'new' ELSE 'old' END AS team, "
    "(hash(i, 3) % 10 + 1)::INT AS new_rank, (hash(i, 4) % 10 + 1)::INT AS old_rank",
    "ab": "CASE WHEN hash(user_id, 5) % 2 = 0 THEN 'new' ELSE 'old' END AS arm",
}
SQL = {
    "interleaving": """
        SELECT sum(credit), sum(credit * credit), sum(credit * pages), sum(pages * pages) FROM (
            SELECT person, sum(credit) AS credit, count(*) AS pages FROM (
                SELECT min(user_id) AS person,
                    sum(CASE team WHEN 'new' THEN clicked::INT WHEN 'old' THEN -clicked::INT ELSE 0 END) AS credit
                FROM read_parquet('{path}') GROUP BY session_id, query_id
            ) GROUP BY person
        )""",
    "ab": """
        SELECT arm, sum(clicks), sum(clicks * clicks), sum(clicks * pages), sum(pages * pages) FROM (
            SELECT arm, person, sum(clicks) AS clicks, count(*) AS pages FROM (
                SELECT min(arm) AS arm, min(user_id) AS person, sum(clicked::INT) AS clicks
                FROM read_parquet('{path}') GROUP BY session_id, query_id
            ) GROUP BY arm, person
        ) GROUP BY arm""",
}
OURS = """
import json, pathlib, sys, time
from cldrank.online import analyse
analyse(sys.argv[2])  # imports and first use
start, used = time.perf_counter(), time.process_time()
result = analyse(sys.argv[1])
seconds, used = time.perf_counter() - start, time.process_time() - used
status = pathlib.Path("/proc/self/status").read_text()
peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 2**20
print(json.dumps([seconds, used, peak, sum(result.pages.values()), result.verdict.words]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=float, nargs="+", default=[1e6, 1e7])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for pages in map(int, options.pages):
            for kind in COLUMNS:
                print(json.dumps(measured(kind, pages, Path(folder))), flush=True)


def measured(kind: str, pages: int, folder: Path) -> dict[str, Any]:
    path, small = folder / f"{kind}.parquet", folder / f"small-{kind}.parquet"
    for file, n in ((path, pages), (small, 1_000)):
        duckdb.sql(LOG.format(rows=5 * n, people=n // 5, columns=COLUMNS[kind], path=file))
    rounds = [(*sql_seconds(SQL[kind].format(path=path)), *ours(path, small)) for _ in range(2)]
    plain, plain_used, seconds, used = (min(each[at] for each in rounds) for at in range(4))
    peak = max(each[4] for each in rounds)
    assert rounds[0][5] == pages
    return {
        "benchmark": "analyse", "kind": kind, "pages": pages, "seconds": round(seconds, 2), "plain": round(plain, 2),
        "ratio": round(used / plain_used, 2), "peak_gib": round(peak, 2), "verdict": rounds[0][6],
    }  # fmt: skip


def sql_seconds(query: str) -> tuple[float, float]:
    with duckdb.connect(config={"memory_limit": LIMIT}) as connection:
        start, used = time.perf_counter(), time.process_time()
        connection.sql(query).fetchall()
        return time.perf_counter() - start, time.process_time() - used


def ours(path: Path, small: Path) -> list[Any]:
    done = subprocess.run([sys.executable, "-c", OURS, path, small], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    values: list[Any] = json.loads(done.stdout)
    return values


if __name__ == "__main__":
    main()
