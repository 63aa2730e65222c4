"""Analysing the log of an experiment on DuckDB, against hand-written SQL without any check, in one run.

    python benchmarks/analyse.py [--pages 1e6 1e7]

One JSON line a log of five results a page, a fifth as many persons as pages, in 20 days. `ratio` is our processor
time over that of plain SQL for the same means and errors, a GROUP BY of pages in one of persons (goal: 3 at 10^7
pages), the best of two rounds each; `seconds` and `plain` are the times by the clock, `peak_gib` the peak resident
memory of a process that does nothing else (goal: below 2).
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
WORTH = "CASE WHEN clicked AND {0} <= 5 THEN 1 / log2(1 + {0}) ELSE 0 END"
CREDIT = f"""
    sum(CASE team WHEN 'new' THEN clicked::INT WHEN 'old' THEN -clicked::INT ELSE 0 END) AS a,
    sum({WORTH.format("new_rank")} - {WORTH.format("old_rank")}) AS b, 0 AS c"""
CLICKS = "sum(clicked::INT) AS a, sum((clicked AND position <= 3)::INT) AS b, (NOT bool_or(clicked))::INT AS c"
SQL = """
    SELECT arm, count(*), sum(pages), sum(pages * pages), sum(a), sum(a * a), sum(a * pages), sum(b), sum(b * b),
           sum(b * pages), sum(c), sum(c * c), sum(c * pages)
    FROM (
        SELECT arm, person, sum(a) AS a, sum(b) AS b, sum(c) AS c, count(*) AS pages FROM (
            SELECT {arm} AS arm, min(user_id) AS person, {measures}
            FROM read_parquet('{path}') GROUP BY session_id, query_id
        ) GROUP BY arm, person
    ) GROUP BY arm"""
ARMS = {"interleaving": ("1", CREDIT), "ab": ("min(arm)", CLICKS)}
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
    arm, measures = ARMS[kind]
    query = SQL.format(arm=arm, measures=measures, path=path)
    rounds = [(*sql_seconds(query), *ours(path, small)) for _ in range(2)]
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
