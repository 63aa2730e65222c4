"""Boosting CLD-pair's loss on a WEB10K-shaped set, against XGBoost's own ranking objective, all in one run.

    python benchmarks/trees.py [--rows 720000] [--rounds 100] [--device cuda]

Prints one JSON line. `ratio` is the time of a whole fit of CLD-pair over that of XGBoost's `rank:ndcg` with the same
trees on the same rows (goal: at most 2); both quantise the features themselves, take turns, and the best of each
counts. `ratio_targets` is the same for IPS, which learns from the shown candidates alone, `ratio_labels` for Oracle,
which has a target for each. `peak_over_matrix` is the growth of resident memory at the peak of a fit over what the
quantised features take in XGBoost (`bytes_per_value` each), in a process of its own that has fitted a smaller set
before (goal: at most 2); `peak_over_matrix_xgboost` is that of `rank:ndcg`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

import cldrank as cr
from cldrank.host import available_cores
from cldrank.workers import fair_threads

GOALS = {"ratio": 2.0, "peak_over_matrix": 2.0}
CANDIDATES, SHOWN, WIDTH = 120, 5, 136
THREADS = fair_threads(available_cores())
RHO = cr.Propensities.power(1, SHOWN)
Given = tuple[cr.RankingDataset, cr.ClickTable]


def make(rows: int, seed: int = 0) -> Given:
    """Correlated, heavy-tailed features with labels; five in 120 candidates shown, by a noisy ranker; 10⁵ sessions."""
    random = np.random.default_rng(seed)
    queries = max(rows // CANDIDATES, 1)
    features = np.empty((queries * CANDIDATES, WIDTH), dtype=np.float32)
    mixing = random.normal(size=(24, WIDTH)) / 5
    for start in range(0, len(features), 1 << 16):
        part = features[start : start + (1 << 16)]
        part[:] = np.exp(random.normal(size=(len(part), 24)) @ mixing + 0.5 * random.normal(size=part.shape))
    worth = np.log(features[:, :10]).sum(axis=1)
    labels = np.clip(np.floor(worth), 0, 4)
    noisy = worth + 2 * random.normal(size=len(worth))
    rank = np.argsort(np.argsort(-noisy.reshape(queries, CANDIDATES), axis=1), axis=1).ravel()
    position = np.where(rank < SHOWN, rank + 1, 0)
    impressions = np.where(position > 0, max(100_000 // queries, 1), 0)
    clicks = random.binomial(impressions, 1 / (1 + np.exp(-worth)) / np.maximum(position, 1))
    data = cr.RankingDataset.from_arrays(features, np.arange(len(features)) // CANDIDATES, labels)
    return data, cr.ClickTable.from_arrays(data, position=position, impressions=impressions, clicks=clicks)


def ours(method: Any, given: Given, rounds: int, device: str | None) -> Any:
    model = cr.Trees(rounds=rounds, validation=0.0, patience=None)
    needs = {"labels": 1, "clicks": 2}.get(method.needs, 3)
    return method(model=model, run=cr.Run(device=device)).fit(*(*given, RHO)[:needs])


def quantised(given: Given) -> Any:
    data = given[0]
    parts = {"label": data.labels, "qid": data.row_queries}
    return xgboost.QuantileDMatrix(data.features, **parts, max_bin=cr.Trees().max_bin, nthread=THREADS)


def theirs(given: Given, rounds: int, device: str | None) -> Any:
    """XGBoost's own objective, with the trees that `Trees` grows by default."""
    matrix, usual = quantised(given), cr.Trees()
    settings = {
        "objective": "rank:ndcg", "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0,
        "max_leaves": usual.leaves, "max_bin": usual.max_bin, "learning_rate": usual.learning_rate,
        "min_child_weight": 1e-3, "reg_lambda": usual.l2, "colsample_bynode": usual.column_share,
        "nthread": THREADS, "device": device or "cpu",
    }  # fmt: skip
    return xgboost.train(settings, matrix, rounds)


def best_of(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The best time of each function, which take turns."""
    times = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def peak_over_matrix(rows: int, fit: str) -> tuple[float, float]:
    """Growth of resident memory at its peak while fitting, over that of the quantised features; and that per value."""
    script = f"""
import ctypes, gc, sys, pathlib
sys.path.insert(0, {str(Path(__file__).parent)!r})
import trees
def resident(what):
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back first
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) * 1024
def fit(rows):
    given = trees.make(rows)
    before = resident("VmRSS")
    matrix = trees.quantised(given)
    held = resident("VmRSS") - before
    del matrix
    before = resident("VmRSS")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    {fit}
    return (resident("VmHWM") - before) / held, held / given[0].features.size
fit(48_000)
print(*fit({rows}))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ratio, size = map(float, found.stdout.split())
    return ratio, size


def measure(rows: int, rounds: int, device: str | None, repeats: int, memory: bool) -> dict[str, Any]:
    given = make(rows)
    functions: dict[str, Callable[[], Any]] = {
        "xgboost": lambda: theirs(given, rounds, device),
        "cld-pair": lambda: ours(cr.CLDPair, given, rounds, device),
        "ips": lambda: ours(cr.IPS, given, rounds, device),
        "oracle": lambda: ours(cr.Oracle, given, rounds, device),
    }
    small = make(12_000)
    for method in (cr.CLDPair, cr.IPS, cr.Oracle):  # compiles, starts threads
        ours(method, small, 2, device)
    theirs(small, 2, device)
    times = best_of(functions, repeats)
    figures = {
        "ratio": times["cld-pair"] / times["xgboost"],
        "ratio_targets": times["ips"] / times["xgboost"],
        "ratio_labels": times["oracle"] / times["xgboost"],
    }
    if memory:
        own = peak_over_matrix(rows, "trees.ours(trees.cr.CLDPair, given, 10, None)")
        figures |= {"peak_over_matrix": own[0], "bytes_per_value": own[1]}
        figures["peak_over_matrix_xgboost"], _ = peak_over_matrix(rows, "trees.theirs(given, 10, None)")
    return {
        "benchmark": "trees",
        "device": device or "cpu",
        "rows": given[0].n_rows,
        "features": WIDTH,
        "rounds": rounds,
        "seconds": {name: round(value, 2) for name, value in times.items()},
        **{name: round(value, 3) for name, value in figures.items()},
        "goals": GOALS,
        "met": all(figures[name] <= goal for name, goal in GOALS.items() if name in figures),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=720_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--device")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="leave the peaks of memory out")
    chosen = parser.parse_args()
    found = measure(chosen.rows, chosen.rounds, chosen.device, chosen.repeats, chosen.memory)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
