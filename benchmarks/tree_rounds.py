"""What a round of boosting takes on MSRD, against XGBoost's own `rank:ndcg` with the same trees, in one run.

    CLDRANK_DATA=… python benchmarks/tree_rounds.py [--device cuda]

Prints one JSON line: milliseconds a round, from fits of 110 and of 10 rounds, and what parts of a round take: growing a
tree, scoring, and the loss with its derivatives on learned and held-out queries.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xgboost

import cldrank as cr
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.host import available_cores
from cldrank.methods.observing import observe
from cldrank.models.pairs import PairTable
from cldrank.models.targets import Unshown
from cldrank.models.trees.boosting import TreeEngine
from cldrank.models.trees.feature_rules import FeatureRules
from cldrank.models.trees.tree_fit import pair_loss, split
from cldrank.workers import fair_threads

DEPTH, FEW, MANY, REPEATS = 5, 10, 110, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    run = cr.Run(device=parser.parse_args().device)
    train, curve = cr.load("msrd:train"), cr.Propensities.power(1.0, DEPTH)
    production = cr.SVMRank().fit(train)
    pages = Simulation(train, production.predict(train), PositionBased(1.0, 0.1), TopK(), DEPTH, relevant_from=1)
    clicks = pages.draw(1e5, seed=0)

    def ours(rounds: int) -> None:
        cr.CLDPair(model=cr.Trees(rounds=rounds, patience=None), run=run).fit(train, clicks, curve)

    usual, threads = cr.Trees(), fair_threads(available_cores())
    labels = {"label": np.asarray(train.labels), "qid": train.row_queries}
    matrix = xgboost.QuantileDMatrix(np.asarray(train.features), **labels, max_bin=usual.max_bin, nthread=threads)
    settings = {
        "objective": "rank:ndcg", "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0,
        "max_leaves": usual.leaves, "max_bin": usual.max_bin, "learning_rate": usual.learning_rate,
        "reg_lambda": usual.l2, "colsample_bynode": usual.column_share, "nthread": threads,
        "device": run.device or "cpu",
    }  # fmt: skip
    mine, theirs = _round(ours), _round(lambda rounds: xgboost.train(settings, matrix, rounds))
    line = {
        "benchmark": "tree rounds",
        "device": run.device or "cpu",
        "threads": threads,
        "ms": mine,
        "xgboost": theirs,
    }
    print(json.dumps({**line, "ratio": round(mine / theirs, 2), "parts": _parts(train, clicks, curve, run, threads)}))


def _round(fit: Callable[[int], Any]) -> float:
    """Milliseconds a round, the best of several."""
    fit(FEW)
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        fit(MANY)
        between = time.perf_counter()
        fit(FEW)
        seconds.append(2 * between - began - time.perf_counter())
    return round(min(seconds) * 1000 / (MANY - FEW), 2)


def _parts(train: Any, clicks: Any, curve: Any, run: Any, threads: int) -> dict[str, float]:
    table = PairTable.of_observations(observe(train, clicks, curve, "mixed"), Unshown(0.1))
    model = cr.Trees()
    learned, held = split(model, len(table), 0)
    loss = pair_loss(model, table, learned, held, run)
    engine = TreeEngine(train.features, table.rows, model, FeatureRules.of(model, train), run, threads, "it")
    slopes, spent = loss.at(engine.scores()), np.zeros(3)
    for number in range(MANY):
        times = [time.perf_counter()]
        engine.grow(slopes.gradient, slopes.hessian)
        times.append(time.perf_counter())
        scores = engine.scores()
        times.append(time.perf_counter())
        slopes = loss.at(scores)
        times.append(time.perf_counter())
        spent += np.diff(times) if number >= FEW else 0.0
    return {name: round(ms, 2) for name, ms in zip(("grow", "score", "loss"), spent * 1000 / (MANY - FEW), strict=True)}


if __name__ == "__main__":
    main()
