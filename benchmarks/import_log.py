"""Importing a UBI log on DuckDB, against DuckDB reading the same JSON with known types, all in one run.

    python benchmarks/import_log.py [--impressions 1e6]

Prints one JSON line. `ratio` is our time over that of reading, `cpu_ratio` the same in processor time, which tells more
on a machine with other work, `memory_ratio` our peak resident memory over that of
reading; each runs in a process of its own that does nothing else. `before_gib` is what the packages alone take, before
anything is read. Reading counts records, events by action, and the different ids, so that no field of them is skipped;
it keeps and writes nothing. Goal: at most twice the time. `ratio_to_copy` compares with the least that any import has
to do: read the same fields and write them to Parquet, without a join or a check.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

GOAL = 2.0
DEPTH = 10
QUERIES = """
    COPY (
        SELECT uuid_of(page) AS query_id, 'some words ' || (hash(page) % 6000)::VARCHAR AS user_query,
               'client-' || (page % 50000)::VARCHAR AS client_id, 'shop' AS application,
               strftime(TIMESTAMP '2026-01-01' + INTERVAL 1 SECOND * page, '%Y-%m-%dT%H:%M:%S.000Z') AS "timestamp",
               '{"query":{"match":{"title":{"query":"some words"}}}}' AS query,
               list_transform(range(10), lambda k: object_of(page, k)) AS query_response_hit_ids
        FROM range({pages}) t(page)
    ) TO '{folder}/queries.jsonl' (FORMAT json)
"""
EVENTS = """
    COPY (
        SELECT CASE WHEN click THEN 'click' ELSE 'impression' END AS action_name, uuid_of(page) AS query_id,
               'session-' || (page // 3)::VARCHAR AS session_id, 'client-' || (page % 50000)::VARCHAR AS client_id,
               strftime(TIMESTAMP '2026-01-01' + INTERVAL 1 SECOND * (page + 2 + 9 * click::INT),
                        '%Y-%m-%dT%H:%M:%S.000Z') AS "timestamp", 'shop' AS application,
               {'object': {'object_id': object_of(page, k), 'object_id_field': 'product_id'},
                'position': {'ordinal': k + 1}} AS event_attributes
        FROM range({pages}) t(page), range(10) u(k), (VALUES (false), (true)) v(click)
        WHERE NOT click OR hash(page, k) % 1000 < 300 // (k + 1)
        ORDER BY hash(page, k, click)
    ) TO '{folder}/events.jsonl' (FORMAT json)
"""
MEMORY = """
import json, pathlib, sys, time


def memory(name):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 2**20


"""
READ = """
import duckdb
before = memory("VmRSS")
folder, copied = sys.argv[1], len(sys.argv) > 2
start, cpu = time.perf_counter(), time.process_time()
connection = duckdb.connect(config={"memory_limit": "3GB"})
connection.execute("SET enable_progress_bar = false")
queries = "{query_id: 'VARCHAR', user_query: 'VARCHAR', client_id: 'VARCHAR', application: 'VARCHAR', " \\
    "timestamp: 'TIMESTAMP', query_response_hit_ids: 'VARCHAR[]'}"
inside = "STRUCT(object STRUCT(object_id VARCHAR), position STRUCT(ordinal INTEGER))"
events = "{action_name: 'VARCHAR', query_id: 'VARCHAR', timestamp: 'TIMESTAMP', event_attributes: '" + inside + "'}"
options = "format='newline_delimited', columns="
queries = f"read_json('{folder}/queries.jsonl', {options}{queries})"
events = f"read_json('{folder}/events.jsonl', {options}{events})"
if copied:
    connection.execute(f"COPY (FROM {queries}) TO '{folder}/q.parquet' (COMPRESSION zstd, COMPRESSION_LEVEL 1)")
    connection.execute(f"COPY (FROM {events}) TO '{folder}/e.parquet' (COMPRESSION zstd, COMPRESSION_LEVEL 1)")
    rows = []
else:
    connection.sql(
        "SELECT count(*), count(DISTINCT user_query), sum(len(query_response_hit_ids)), max(timestamp) "
        f"FROM {queries}"
    ).fetchall()
    rows = connection.sql(
        "SELECT action_name, count(*), count(query_id), count(event_attributes.object.object_id), max(timestamp), "
        f"sum(event_attributes.position.ordinal) FROM {events} GROUP BY ALL"
    ).fetchall()
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
"""
IMPORT = """
from cldrank.clicks.imports import import_log
folder = sys.argv[1]


def run(where):
    return import_log(
        "ubi", queries=f"{where}/queries.jsonl", events=f"{where}/events.jsonl", out=f"{where}/log.parquet"
    )


run(f"{folder}/small")  # imports and first use
before = memory("VmRSS")
start, cpu = time.perf_counter(), time.process_time()
report = run(folder)
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
rows = [report.rows, report.clicks, sum(one.count for one in report.set_aside)]
"""
TOLD = """
print(json.dumps([seconds, cpu, before, memory("VmHWM"), rows], default=str))
"""


def write(folder: Path, pages: int) -> None:
    with duckdb.connect(config={"memory_limit": "3GB"}) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            "CREATE MACRO uuid_of(page) AS printf('%08x-0000-4000-8000-%012x', page % 4294967296, hash(page) >> 16)"
        )
        connection.execute("CREATE MACRO object_of(page, k) AS 'B0' || (hash(page % 6000, k) % 1000000)::VARCHAR")
        for sql in (QUERIES, EVENTS):
            connection.execute(sql.replace("{pages}", str(pages)).replace("{folder}", str(folder)))


def measured(code: str, runs: int, *arguments: str | Path) -> tuple[float, float, float, float, Any]:
    """The shortest time and processor time of some runs, memory before and at its largest, and what was found."""
    found = []
    for _ in range(runs):
        ran = subprocess.run(
            [sys.executable, "-c", MEMORY + code + TOLD, *arguments], capture_output=True, text=True, check=True
        )
        found.append(json.loads(ran.stdout))
    seconds, cpu, before, peak, rows = zip(*found, strict=True)
    return min(seconds), min(cpu), max(before), max(peak), rows[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--impressions", type=float, default=1e6)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small").mkdir()
        write(folder / "small", 10)
        write(folder, int(arguments.impressions) // DEPTH)
        size = sum((folder / file).stat().st_size for file in ("queries.jsonl", "events.jsonl"))
        reading, read_cpu, read_before, read_peak, _ = measured(READ, arguments.runs, folder)
        copying, copy_cpu, _, copy_peak, _ = measured(READ, arguments.runs, folder, "copy")
        importing, cpu, before, peak, (rows, clicks, set_aside) = measured(IMPORT, arguments.runs, folder)
    result = {
        "benchmark": "import_log",
        "json_mb": round(size / 1e6),
        "rows": rows,
        "clicks": clicks,
        "set_aside": set_aside,
        "seconds": {"read_json": round(reading, 2), "copy": round(copying, 2), "cldrank": round(importing, 2)},
        "ratio": round(importing / reading, 2),
        "ratio_to_copy": round(importing / copying, 2),
        "cpu_ratio": round(cpu / read_cpu, 2),
        "cpu_ratio_to_copy": round(cpu / copy_cpu, 2),
        "before_gib": {"read_json": round(read_before, 2), "cldrank": round(before, 2)},
        "peak_gib": {"read_json": round(read_peak, 2), "copy": round(copy_peak, 2), "cldrank": round(peak, 2)},
        "memory_ratio": round(peak / read_peak, 2),
        "goal": GOAL,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
