"""A new day of clicks: what a folder of days and a warm start save, each against doing all of it anew, in one run.

    CLDRANK_DATA=… python benchmarks/days.py [--days 28] [--queries 2500] [--sessions 1300] [--log-sessions 50000]

Clicks on MSRD, simulated day by day (position bias 1/k, pages of 10); yesterday's window is the first 28 days, today's
drops the first of them and has one more. One JSON line each:

`aggregation`: `new_day` is the time to count the log of one more day and to read the window, `anew` that to count all
28 logs; `ratio` is the first over the second. Both give the same cells.

A line per method: steps and seconds of today's fit, cold and warm, the best of `--repeats` each in turns, and the ratio
of the seconds. nDCG@10 is on the labels of other queries (`vali`); an MLP has 12 epochs cold and 3 warm, and `short` is
a cold fit of 3 epochs. `warm_over_cold` compares the two query by query; `furthest` is the largest difference of their
scores, relative to the spread of the scores.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import cldrank as cr
from cldrank import catalogue
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.days import DayFolder
from cldrank.clicks.simulate import PositionBased, Simulation

DEPTH = 10
FIRST = date(2026, 10, 19)
RHO = cr.Propensities.power(1, DEPTH)
MEASURE = "nDCG@10"
FITS: dict[str, tuple[Any, Any]] = {  # a method, and the model of a warm fit
    "CLD, linear": (cr.CLD(), None),
    "CLD-pair, linear": (cr.CLDPair(model=cr.Linear()), None),
    "CLD-pair, MLP": (cr.CLDPair(model=cr.MLP()), cr.MLP(epochs=3)),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--days", type=int, default=28)
    arguments.add_argument("--sessions", type=int, default=1_300, help="of a day, for the fits")
    arguments.add_argument("--log-sessions", type=int, default=50_000, help="of a day, for the logs")
    arguments.add_argument("--queries", type=int, default=2_500, help="of the training data, for the fits")
    arguments.add_argument("--repeats", type=int, default=1)
    arguments.add_argument("--only", choices=["fits", "logs"])
    asked = arguments.parse_args()
    if catalogue.get("msrd").find() is None:
        print(json.dumps({"benchmark": "days", "skipped": "the data set msrd is not here"}))
        return
    train, vali = cr.load("msrd:train"), cr.load("msrd:vali")
    production = cr.SVMRank(fraction=0.01, run=cr.Run(seed=0)).fit(train)
    simulation = Simulation(train, production.predict(train), PositionBased(eta=1), depth=DEPTH)
    if asked.only != "fits":
        print(json.dumps(aggregation(simulation, asked.days, asked.log_sessions)), flush=True)
    if asked.only != "logs":
        train = train[: asked.queries]
        simulation = Simulation(train, production.predict(train), PositionBased(eta=1), depth=DEPTH)
        drawn = [simulation.draw(asked.sessions, seed=seed) for seed in range(asked.days + 1)]
        windows = cr.ClickTable.merged(drawn[:-1]), cr.ClickTable.merged(drawn[1:])
        for title, (method, warm_model) in FITS.items():
            found = fits(method, warm_model, train, vali, windows, asked.repeats)
            print(
                json.dumps({"benchmark": "days", "fit": title, "sessions": asked.days * asked.sessions, **found}),
                flush=True,
            )


def aggregation(simulation: Simulation, days: int, sessions: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        logs = [Path(place) / f"{FIRST + timedelta(days=at)}.parquet" for at in range(days + 1)]
        for at, log in enumerate(logs):
            simulation.save_log(log, sessions, seed=at)
            rows = pq.read_table(log)  # sessions of different days are different ones
            pq.write_table(rows.set_column(0, "session_id", pc.add(rows["session_id"], at * sessions)), log)
        folder = DayFolder(Path(place) / "cells")
        for log in logs[:-1]:
            folder.add(log, day=log.stem)
        anew, expected = timed(lambda: aggregate(logs[1:], simulation.dataset).clicks)
        adding, _ = timed(lambda: folder.add(logs[-1], day=logs[-1].stem))
        reading, found = timed(lambda: cr.ClickTable.read(folder.path, simulation.dataset, last=f"{days}d"))
        repeating, again = timed(lambda: folder.add(logs, day=logs[-1].stem))
        assert not again.written
        for name in ("row", "position", "impressions", "clicks"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    return {
        "benchmark": "days", "aggregation": days, "rows": int(expected.impressions.sum()), "cells": expected.n_cells,
        "anew": round(anew, 2), "new_day": round(adding + reading, 2), "adding": round(adding, 2),
        "reading": round(reading, 2), "ratio": round((adding + reading) / anew, 3), "repeating": round(repeating, 2),
    }  # fmt: skip


def fits(
    method: Any,
    warm_model: Any,
    train: cr.RankingDataset,
    vali: cr.RankingDataset,
    windows: tuple[cr.ClickTable, cr.ClickTable],
    repeats: int,
) -> dict[str, Any]:
    def fitted(clicks: cr.ClickTable, **parts: Any) -> Any:
        made = type(method)(**{**method.get_params(deep=False), **parts})
        return made.fit(train, clicks, RHO)

    yesterday, today = windows
    earlier = fitted(yesterday).ranker_
    start = {"run": replace(method.run, warm_start=earlier), "model": warm_model or method.model}
    short = [] if warm_model is None else [("short", {"model": warm_model})]
    seconds = {"cold": np.inf, "warm": np.inf, **{name: np.inf for name, _ in short}}
    found: dict[str, Any] = {}
    for _ in range(repeats):
        for name, parts in (("cold", {}), ("warm", start), *short):
            taken, found[name] = timed(partial(fitted, today, **parts))
            seconds[name] = min(seconds[name], taken)
    rankers = {"yesterday": earlier, **{name: one.ranker_ for name, one in found.items()}}
    measured = {name: cr.evaluate(one, vali, measures=[MEASURE]) for name, one in rankers.items()}
    compared = cr.compare(found["warm"].ranker_, found["cold"].ranker_, vali, measures=[MEASURE])[MEASURE]
    cold, warm = (found[name].ranker_.predict(vali) for name in ("cold", "warm"))
    return {
        "steps": {name: one.n_iter_ for name, one in found.items()},
        "seconds": {name: round(taken, 2) for name, taken in seconds.items()},
        "ratio": round(seconds["warm"] / seconds["cold"], 3),
        MEASURE: {name: round(float(one[MEASURE]), 4) for name, one in measured.items()},
        "warm_over_cold": str(compared),
        "furthest": float(f"{np.abs(cold - cold.mean() - warm + warm.mean()).max() / cold.std():.2g}"),
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


if __name__ == "__main__":
    main()
