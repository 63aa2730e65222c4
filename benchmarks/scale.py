"""How a linear CLD fit grows with rows, features and cells: in memory, from disk and on Spark; and a lost executor.

    python benchmarks/scale.py [--rows 3e4,1e5,3e5] [--features 34,136] [--shown 5,20] [--out docs/results/scale.svg]
    python benchmarks/scale.py --kill

Prints a JSON line for each size: seconds of one pass (a step of Newton's method) over the same candidates in memory,
as a Parquet data set on disk, and on Spark; what a pass on Spark moves and computes per second; the seconds to join and
pack there; the whole fits; and the largest difference of a coefficient, relative to the largest. With `--out`, the
passes are drawn. With `--kill`, one executor is killed in the middle of a fit, and the line says what came of it.
`local-cluster[2,1,1024]`, the default master, is a real cluster: two executors, each a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.data.loading import load
from cldrank.methods.cld import CLD
from cldrank.methods.observing import observe
from cldrank.models import Linear
from cldrank.models.linear.selection_fit import selection_objective
from cldrank.propensity import Propensities
from cldrank.spark import SparkDataset
from cldrank.spark.spark_features import SparkRows
from cldrank.tables.spark_engine import spark_session

CANDIDATES = 100


def make(rows: int, width: int, shown: int, folder: Path) -> tuple[RankingDataset, ClickTable, Propensities, str]:
    """A dataset, the clicks on it, and the same features as Parquet files, as a lake has them."""
    random = np.random.default_rng(0)
    queries = max(rows // CANDIDATES, 1)
    features = random.normal(size=(queries * CANDIDATES, width)).astype(np.float32)
    worth = features[:, : min(width, 10)].sum(axis=1) + 2 * random.normal(size=len(features))
    rank = np.argsort(np.argsort(-worth.reshape(queries, CANDIDATES), axis=1), axis=1).ravel()
    position = np.where(rank < shown, rank + 1, 0)
    impressions = np.where(position > 0, 50, 0)
    chance = 1 / (1 + np.exp(2 - 0.3 * worth)) / np.maximum(position, 1)
    query, document = np.repeat(np.arange(queries), CANDIDATES), np.tile(np.arange(CANDIDATES), queries)
    data = RankingDataset.from_arrays(features, query, doc_ids=document)
    clicks = ClickTable.from_arrays(
        data, position=position, impressions=impressions, clicks=random.binomial(impressions, chance)
    )
    path = folder / f"features-{rows}-{width}-{shown}"
    path.mkdir()
    columns: dict[str, NDArray[Any]] = {"query_id": query, "doc_id": document}
    columns |= {name: features[:, place] for place, name in enumerate(data.feature_names)}
    table = pa.table(columns)
    for part in range(4):
        own = table.slice(part * len(table) // 4, len(table) // 4)
        pq.write_table(own, path / f"{part}.parquet", compression="none", use_dictionary=False)
    return data, clicks, Propensities.power(1, shown), str(path)


class Watched:
    """Counts the passes of a fit and the time that they take."""

    def __init__(self, monkey: Any = None) -> None:
        self.passes: list[float] = []
        self.packed = 0.0
        self._fold, self._init, self._each = SparkRows.fold, SparkRows.__init__, monkey

    def __enter__(self) -> Watched:
        def fold(rows: Any, function: Any, join: Any) -> Any:
            start = time.perf_counter()
            found = self._fold(rows, function, join)
            self.passes.append(time.perf_counter() - start)
            if self._each is not None:
                self._each(len(self.passes))
            return found

        def init(rows: Any, *given: Any) -> None:
            start = time.perf_counter()
            self._init(rows, *given)
            self.packed = time.perf_counter() - start

        SparkRows.fold, SparkRows.__init__ = fold, init  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        SparkRows.fold, SparkRows.__init__ = self._fold, self._init  # type: ignore[method-assign]


def pass_seconds(data: RankingDataset, clicks: ClickTable, rho: Propensities) -> float:
    """The median time of a pass over features that are here, in memory or on disk."""
    method = CLD()
    objective = selection_objective(Linear(), observe(data, clicks, rho, "mixed"), method._context(data), 0.1)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        objective.evaluate(np.zeros(len(objective.penalties)))
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def mapped(path: str) -> RankingDataset:
    """The data with features that are mapped from a file, however small."""
    from cldrank.data import new_array

    with mock.patch.object(new_array, "spare_memory", return_value=0):
        return load(path, cache=False)


def measured(session: Any, rows: int, width: int, shown: int, folder: Path) -> dict[str, Any]:
    """A fit of one size, here and on Spark."""
    data, clicks, rho, path = make(rows, width, shown, folder)
    start = time.perf_counter()
    near = CLD().fit(data, clicks, rho)
    local = time.perf_counter() - start
    on_disk = mapped(path)
    there = ClickTable.from_arrays(
        on_disk, row=clicks.row, position=clicks.position, impressions=clicks.impressions, clicks=clicks.clicks
    )
    here = {"memory": pass_seconds(data, clicks, rho), "disk": pass_seconds(on_disk, there, rho)}
    with Watched() as watched:
        start = time.perf_counter()
        far = CLD().fit(SparkDataset.read(session, [path]), clicks, rho)
        whole = time.perf_counter() - start
    a_pass = float(np.median(watched.passes))
    size = data.n_rows * (width + 1)
    return {
        "rows": data.n_rows,
        "features": width,
        "cells": clicks.n_cells,
        "steps": far.n_iter_,
        "passes": len(watched.passes),
        "pack_s": round(watched.packed, 2),
        "pass_s": {**{name: round(seconds, 3) for name, seconds in here.items()}, "spark": round(a_pass, 3)},
        "spark_mb_per_s": round(4 * size / a_pass / 1e6),
        "spark_gflops": round(2 * size * (width + 1) / a_pass / 1e9, 2),
        "fit_s": round(whole, 2),
        "fit_here_s": round(local, 2),
        "difference": float(np.abs(far.coef_ - near.coef_).max() / np.abs(near.coef_).max()),
    }


def executors() -> list[int]:
    """The processes of the executors of a local cluster."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may have ended
            words = (process / "cmdline").read_bytes().split(b"\0")
            if any(word.endswith(b"CoarseGrainedExecutorBackend") for word in words):
                found.append(int(process.name))
    return sorted(found)


def killed(session: Any, folder: Path) -> dict[str, Any]:
    """A fit in the middle of which an executor is killed."""
    data, clicks, rho, path = make(100_000, 32, 5, folder)
    near = CLD().fit(data, clicks, rho)
    gone: list[int] = []

    def kill(number: int) -> None:
        if number == 3:
            gone.append(executors()[0])
            threading.Timer(0.2, os.kill, (gone[0], signal.SIGKILL)).start()  # during the next pass

    before = executors()
    with Watched(kill) as watched:
        start = time.perf_counter()
        far = CLD().fit(SparkDataset.read(session, [path]), clicks, rho)
        whole = time.perf_counter() - start
    return {
        "killed": gone[0],
        "executors_before": before,
        "executors_after": executors(),
        "slowest_pass_s": round(max(watched.passes), 2),
        "median_pass_s": round(float(np.median(watched.passes)), 2),
        "fit_s": round(whole, 2),
        "status": far.status_,
        "difference": float(np.abs(far.coef_ - near.coef_).max() / np.abs(near.coef_).max()),
    }


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """The time of a pass by rows, features and cells."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    largest = {name: max(one[name] for one in found) for name in ("rows", "features")}
    fewest = min(one["cells"] / one["rows"] for one in found)
    panels = {
        "rows": [one for one in found if one["features"] == largest["features"] and _few(one, fewest)],
        "features": [one for one in found if one["rows"] == largest["rows"] and _few(one, fewest)],
        "cells": [one for one in found if one["rows"] == largest["rows"] and one["features"] == largest["features"]],
    }
    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharey=True)
    looks = {"memory": ("-o", "#d55e00"), "disk": ("--s", "#0072b2"), "spark": (":^", "#009e73")}
    for panel, (along, chosen) in zip(axes, panels.items(), strict=True):
        ordered = sorted(chosen, key=lambda one: one[along])
        for name, (style, colour) in looks.items():
            panel.plot(
                [one[along] for one in ordered],
                [one["pass_s"][name] for one in ordered],
                style,
                color=colour,
                label=name if along == "rows" else None,
            )
        panel.set(xlabel=along, xscale="log", yscale="log")
        ticks = sorted({one[along] for one in chosen})
        panel.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])
        panel.xaxis.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    axes[0].set(ylabel="seconds a pass")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def _few(one: dict[str, Any], share: float) -> bool:
    return bool(one["cells"] / one["rows"] <= 1.01 * share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--rows", default="3e4,1e5,3e5")
    parser.add_argument("--features", default="34,136")
    parser.add_argument("--shown", default="5,20")
    parser.add_argument("--out", type=Path, help="draw the passes in this SVG file")
    parser.add_argument("--kill", action="store_true", help="only the fit whose executor is killed")
    given = parser.parse_args()
    rows, widths, shown = (
        [int(float(one)) for one in text.split(",")] for text in (given.rows, given.features, given.shown)
    )
    sizes = [(count, max(widths), min(shown)) for count in rows]
    sizes += [(max(rows), width, min(shown)) for width in widths[:-1]] + [(max(rows), max(widths), max(shown))]
    session = spark_session(given.master)
    with tempfile.TemporaryDirectory() as folder:
        if given.kill:
            print(json.dumps({"benchmark": "scale, an executor killed", **killed(session, Path(folder))}), flush=True)
            return
        lines = []
        for size in dict.fromkeys(sizes):
            lines.append(measured(session, *size, Path(folder)))
            print(json.dumps({"benchmark": "scale", "master": given.master, **lines[-1]}), flush=True)
    if given.out is not None:
        draw(lines, given.out)


if __name__ == "__main__":
    main()
