"""Simulating clicks: session by session against writing the same arrays with pyarrow; 10^9 sessions against 10^5.

Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.clicks.simulate.session_log import Columns
from cldrank.data.dataset import RankingDataset

IMPRESSIONS_GOAL = 3e6  # a second, written
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
    simulation = world(options.queries, options.candidates, options.depth)
    with tempfile.TemporaryDirectory() as folder:
        columns = Columns(simulation)
        tables = [pa.Table.from_batches([columns.batch(block)]) for block in simulation.sessions(options.sessions)]
        prepared = pa.concat_tables(tables)
        log, limit = Path(folder) / "log.parquet", Path(folder) / "limit.parquet"
        seconds = timed(
            {
                "log": lambda: simulation.save_log(log, options.sessions),
                "pyarrow": lambda: pq.write_table(prepared, limit, row_group_size=1 << 20, **columns.options),
                "pyarrow, its defaults": lambda: pq.write_table(prepared, limit, row_group_size=1 << 20),
                "1e5": lambda: simulation.draw(1e5),
                "1e9": lambda: simulation.draw(1e9),
            },
            options.repeats,
        )
        size = log.stat().st_size
    rate = len(prepared) / seconds["log"]
    result = {
        "benchmark": "simulate",
        "rows": simulation.dataset.n_rows,
        "queries": options.queries,
        "depth": options.depth,
        "sessions": int(options.sessions),
        "impressions": len(prepared),
        "bytes_per_impression": round(size / len(prepared), 2),
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "impressions_per_second": round(rate),
        "goal_impressions_per_second": IMPRESSIONS_GOAL,
        "reference": "pyarrow.parquet.write_table of the same arrays, prepared before, with the same options",
        "ratio": round(seconds["log"] / seconds["pyarrow"], 3),
        "ratio_pyarrow_defaults": round(seconds["log"] / seconds["pyarrow, its defaults"], 3),
        "extra_seconds_of_1e9_sessions": round(seconds["1e9"] - seconds["1e5"], 4),
        "goal_extra_seconds": EXTRA_GOAL,
        "met": rate >= IMPRESSIONS_GOAL and seconds["1e9"] - seconds["1e5"] <= EXTRA_GOAL,
    }
    print(json.dumps(result))


def world(queries: int, candidates: int, depth: int) -> Simulation:
    """Candidates whose production score has a little to do with their label."""
    random = np.random.default_rng(0)
    labels = random.choice(len(GRADE_SHARES), p=GRADE_SHARES, size=queries * candidates)
    scores = labels + random.normal(0, 2, len(labels))
    query = np.repeat(np.arange(queries), candidates)
    data = RankingDataset.from_arrays(np.zeros((len(labels), 1)), query, labels, doc_ids=np.arange(len(labels)))
    return Simulation(data, scores, PositionBased(eta=1, noise=0.1), depth=depth)


def timed(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each; the repeats take turns, so that a slow moment of the machine meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn:  # the first turn only warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


if __name__ == "__main__":
    main()
