"""A new day of clicks: what a folder of days saves against counting all logs anew, in one run.

    CLDRANK_DATA=… python benchmarks/days.py [--days 28] [--log-sessions 50000]

Clicks on MSRD, simulated day by day (position bias 1/k, pages of 10); yesterday's window is the first 28 days, today's
drops the first of them and has one more. It prints a JSON line: `new_day` is the time to count the log of one more day
and to read the window, `anew` that to count all 28 logs; `ratio` is the first over the second. Both give the same
cells.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import cldrank as cr
from cldrank import catalogue
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.days import DayFolder
from cldrank.clicks.simulate import PositionBased, Simulation

DEPTH = 10
FIRST = date(2026, 10, 19)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--days", type=int, default=28)
    arguments.add_argument("--log-sessions", type=int, default=50_000, help="of a day, for the logs")
    asked = arguments.parse_args()
    if catalogue.get("msrd").find() is None:
        print(json.dumps({"benchmark": "days", "skipped": "the data set msrd is not here"}))
        return
    train = cr.load("msrd:train")
    production = cr.SVMRank(fraction=0.01, run=cr.Run(seed=0)).fit(train)
    simulation = Simulation(train, production.predict(train), PositionBased(eta=1), depth=DEPTH)
    print(json.dumps(aggregation(simulation, asked.days, asked.log_sessions)), flush=True)


def aggregation(simulation: Simulation, days: int, sessions: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        logs = [Path(place) / f"{FIRST + timedelta(days=at)}.parquet" for at in range(days + 1)]
        for at, log in enumerate(logs):
            simulation.save_log(log, sessions, seed=at)
            rows = pq.read_table(log)  # sessions of different days are different ones
            rows = rows.set_column(0, "session_id", pc.add(rows["session_id"], at * sessions))
            day = pa.repeat(pa.scalar(FIRST + timedelta(days=at), pa.date32()), len(rows))
            pq.write_table(rows.append_column("timestamp", day), log)
        folder = DayFolder(Path(place) / "cells")
        for log in logs[:-1]:
            folder.add(log)
        anew, expected = timed(lambda: aggregate(logs[1:], simulation.dataset).clicks)
        adding, _ = timed(lambda: folder.add(logs[-1]))
        reading, found = timed(lambda: cr.ClickTable.read(folder.path, simulation.dataset, last=f"{days}d"))
        repeating, again = timed(lambda: folder.add(logs))
        assert not again.days
        for name in ("row", "position", "impressions", "clicks"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    return {
        "benchmark": "days", "aggregation": days, "rows": int(expected.impressions.sum()), "cells": expected.n_cells,
        "anew": round(anew, 2), "new_day": round(adding + reading, 2), "adding": round(adding, 2),
        "reading": round(reading, 2), "ratio": round((adding + reading) / anew, 3), "repeating": round(repeating, 2),
    }  # fmt: skip


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


if __name__ == "__main__":
    main()
