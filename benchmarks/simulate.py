"""Simulating clicks: session by session against writing the same arrays with pyarrow; 10^9 sessions against 10^5.

Logs of production's pages (`top`) and of pages of random candidates (`shuffled`). Beside the time, the
processor time of all threads: other work on the machine does not lengthen it, and on a quiet machine a log takes at
least this divided by the cores.

Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.clicks.simulate import Policy, PositionBased, ShuffledShare, Simulation, TopK
from cldrank.clicks.simulate.session_log import Columns
from cldrank.data.dataset import RankingDataset
from cldrank.host import available_cores

GOALS = {"top": 3e6, "shuffled": 5e6}  # impressions a second, written
EXTRA_GOAL = 1.0  # seconds that 10^9 sessions may take more than 10^5
GRADE_SHARES = [0.52, 0.32, 0.13, 0.02, 0.01]  # about those of WEB10K


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=6_000)
    parser.add_argument("--candidates", type=int, default=120, help="of each query")
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--sessions", type=float, default=2e6, help="of the log that is written")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    logs = {}
    for policy in (TopK(), ShuffledShare(1, shuffle="candidates")):
        simulation = world(options.queries, options.candidates, options.depth, policy)
        logs[policy.name] = measured(simulation, options.sessions, options.repeats)
    simulation = world(options.queries, options.candidates, options.depth, TopK())
    spent = timed({"1e5": lambda: simulation.draw(1e5), "1e9": lambda: simulation.draw(1e9)}, options.repeats)
    extra = spent["1e9"][0] - spent["1e5"][0]
    result = {
        "benchmark": "simulate",
        "rows": simulation.dataset.n_rows,
        "queries": options.queries,
        "depth": options.depth,
        "sessions": int(options.sessions),
        "cores": available_cores(),
        "logs": logs,
        "goal_impressions_per_second": GOALS,
        "reference": "pyarrow.parquet.write_table of the same arrays, prepared before, with the same options",
        "extra_seconds_of_1e9_sessions": round(extra, 4),
        "goal_extra_seconds": EXTRA_GOAL,
        "met": all(logs[name]["impressions_per_second"] >= goal for name, goal in GOALS.items())
        and extra <= EXTRA_GOAL,
    }
    print(json.dumps(result))


def measured(simulation: Simulation, sessions: float, repeats: int) -> dict[str, Any]:
    """How quickly a log is written, against pyarrow."""
    with tempfile.TemporaryDirectory() as folder:
        columns = Columns(simulation)
        tables = [pa.Table.from_batches([columns.batch(block)]) for block in simulation.sessions(sessions)]
        prepared = pa.concat_tables(tables)
        log, limit = Path(folder) / "log.parquet", Path(folder) / "limit.parquet"
        spent = timed(
            {
                "log": lambda: simulation.save_log(log, sessions),
                "pages and clicks": lambda: deque(simulation.sessions(sessions), maxlen=0),
                "pyarrow": lambda: pq.write_table(prepared, limit, row_group_size=1 << 20, **columns.options),
                "pyarrow, its defaults": lambda: pq.write_table(prepared, limit, row_group_size=1 << 20),
            },
            repeats,
        )
        size = log.stat().st_size
    return {
        "impressions": len(prepared),
        "bytes_per_impression": round(size / len(prepared), 2),
        "seconds": {name: round(seconds, 4) for name, (seconds, _) in spent.items()},
        "processor_ns_per_impression": {name: round(cpu / len(prepared) * 1e9) for name, (_, cpu) in spent.items()},
        "impressions_per_second": round(len(prepared) / spent["log"][0]),
        "ratio": round(spent["log"][0] / spent["pyarrow"][0], 3),
        "ratio_pyarrow_defaults": round(spent["log"][0] / spent["pyarrow, its defaults"][0], 3),
    }


def world(queries: int, candidates: int, depth: int, policy: Policy) -> Simulation:
    """Candidates whose production score has a little to do with their label."""
    random = np.random.default_rng(0)
    labels = random.choice(len(GRADE_SHARES), p=GRADE_SHARES, size=queries * candidates)
    scores = labels + random.normal(0, 2, len(labels))
    query = np.repeat(np.arange(queries), candidates)
    data = RankingDataset.from_arrays(np.zeros((len(labels), 1)), query, labels, doc_ids=np.arange(len(labels)))
    return Simulation(data, scores, PositionBased(eta=1, noise=0.1), policy, depth=depth)


def timed(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """Median seconds and processor seconds; the repeats take turns, so that a slow moment of the machine meets all."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            start, cpu = time.perf_counter(), time.process_time()
            function()
            if turn:  # the first turn only warms up
                spent[name].append((time.perf_counter() - start, time.process_time() - cpu))
    return {
        name: (statistics.median(seconds for seconds, _ in values), statistics.median(cpu for _, cpu in values))
        for name, values in spent.items()
    }


if __name__ == "__main__":
    main()
