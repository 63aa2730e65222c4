"""Clicks, carts and purchases beside clicks alone: rankers by value and relevance, verdicts on value, size and time.

    CLDRANK_DATA=… python benchmarks/events.py verdict --logs 30   # how often 90% intervals hold the truth, on MSRD
    python benchmarks/events.py train --logs 3                     # rankers from clicks, and from weighted events
    python benchmarks/events.py count                              # cells and their counting with three events

MSRD has labels 0 and 1; `yahoo-like`, for training, is synthetic, with labels 0 to 4. Production is a ranker from 1%
of the labels (for verdicts, 5%); pages have 5 results, with neighbours swapped on three in ten, examined with 1/k; 10%
noise. A cart follows 30% of the clicks on the best results, a purchase 10%, and on others in proportion to label + 1.
Weights: click 1, cart 3, purchase 10. Each command prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cldrank as cr
from cldrank import segments
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation
from cldrank.data import synthetic
from cldrank.errors import CldrankWarning
from cldrank.measures import mean_interval

Floats = NDArray[np.float64]
DEPTH, NOISE, K, FEATURES = 5, 0.1, 3, 40
EVENTS, WEIGHTS = {"cart": 0.3, "purchase": 0.1}, {"click": 1, "cart": 3, "purchase": 10}
CURVE = cr.Propensities.power(1.0, DEPTH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "verdict", "count"))
    parser.add_argument("--logs", type=int, default=4)
    parser.add_argument("--relevant", type=float, default=1, help="train: the lowest label that is relevant")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--sessions", type=float, nargs="+", default=[3e3, 3e4, 3e5])
    parser.add_argument("--rows", type=float, default=1e6)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CldrankWarning)
    start = time.process_time()
    rows = {"train": train, "verdict": verdict, "count": count}[asked.what](asked)
    seconds = round(time.process_time() - start, 1)
    print(json.dumps({"benchmark": f"events: {asked.what}", **vars(asked), "rows": rows, "cpu_seconds": seconds}))


def simulation(data: cr.RankingDataset, scores: Floats, relevant: float = 1) -> Simulation:
    return Simulation(
        data,
        scores,
        PositionBased(1.0, NOISE),
        NeighbourSwaps(0.3),
        DEPTH,
        relevant_from=relevant,
        events=EVENTS,
    )


def value(data: cr.RankingDataset, relevant: float = 1) -> Floats:
    """(rows,) the expected value of each candidate where it is examined."""
    world = simulation(data, np.zeros(data.n_rows), relevant)
    follows = sum(WEIGHTS[event] * chance for event, chance in world.after_click.chances.items())
    return np.where(world.relevant, 1.0, NOISE) * (WEIGHTS["click"] + follows)


def value_per_page(data: cr.RankingDataset, scores: Floats, gains: Floats) -> Floats:
    """(queries,) Σ value / log2(rank + 1) over the first 3: DCG of value."""
    ranks = segments.descending_ranks(scores, data.offsets)
    discounts = np.where(ranks <= K, 1 / np.log2(ranks + 1), 0.0)
    return np.bincount(data.row_queries, discounts * gains, data.n_queries).astype(np.float64)


def train(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Trees by IPS and by CLD-pair, of both kinds of evidence; on 1,000 test queries."""
    whole = synthetic.make("yahoo-like", 3000, seed=3)
    data, test = whole[:2000], whole[2000:]
    gains = value(test, asked.relevant)
    results: dict[Any, list[Any]] = defaultdict(list)
    for seed in range(asked.logs):
        production = cr.SVMRank(fraction=0.01, run=cr.Run(seed=seed)).fit(data)
        pages = simulation(data, production.predict(data), asked.relevant)
        for sessions in asked.sessions:
            clicks = pages.draw(sessions, seed=seed)
            for method in (
                cr.IPS(model=cr.Trees(rounds=asked.rounds)),
                cr.CLDPair(model=cr.Trees(rounds=asked.rounds)),
            ):
                for evidence, table in (("clicks", clicks), ("events", clicks.weighted(WEIGHTS))):
                    ranker = method.fit(data, table, CURVE).ranker_
                    worth = value_per_page(test, ranker.predict(test), gains).mean()
                    relevance = cr.evaluate(ranker, test, "nDCG@3")["nDCG@3"]
                    results[int(sessions), method.label, evidence].append((worth, relevance))
    rows = []
    for sessions, method in dict.fromkeys(key[:2] for key in results):
        alone, events = (np.array(results[sessions, method, each]) for each in ("clicks", "events"))
        row: dict[str, Any] = {"sessions": sessions, "method": method}
        for at, name in enumerate(("value@3", "nDCG@3")):
            gain = mean_interval(events[:, at] - alone[:, at], 0.9)
            row |= {f"{name} clicks": alone[:, at].mean(), f"{name} events": events[:, at].mean()}
            row[f"{name} gain"] = [gain.estimate, gain.low, gain.high]
        rows.append(row)
    return rows


def verdict(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A ranker by labels against production, by value and by clicks alone, on 600 other queries for each log.

    The model of never-shown results knows the 40 features that the ranker uses most.
    """
    data, pool = cr.load("msrd:train")[:3000], cr.load("msrd:test")
    production = cr.SVMRank(fraction=0.05).fit(data).predict(pool)
    strong: Any = cr.Oracle(model=cr.Trees(rounds=40)).fit(data).ranker_
    new, weights = strong.predict(pool), strong.importance()
    relevance = np.where(simulation(pool, production).relevant, 1.0, NOISE)
    used = sorted(weights, key=lambda name: -weights[name])[:FEATURES]
    known = pool.with_features([pool.feature_names.index(name) for name in used])
    results: dict[Any, list[Any]] = defaultdict(list)
    for seed in range(asked.logs):
        chosen = np.sort(np.random.default_rng(seed).choice(pool.n_queries, 600, replace=False))
        rows, own = segments.rows_of_segments(pool.offsets, chosen), known[chosen]
        clicks = simulation(own, production[rows]).draw(3e4, seed=seed)
        for evidence, table in (("clicks", clicks), ("events", clicks.weighted(WEIGHTS))):
            options: dict[str, Any] = {"clicks": table, "propensities": CURVE, "measures": "DCG@3"}
            found = cr.compare(new[rows], production[rows], own, trust_propensity=True, **options)
            results[evidence].append((found["DCG@3"].difference.interval, found.verdict.words))
    rows_of_results = []
    for evidence, gains in (("clicks", relevance), ("events", value(pool))):
        truth = (value_per_page(pool, new, gains) - value_per_page(pool, production, gains)).mean()
        intervals = [interval for interval, _ in results[evidence]]
        words = [said for _, said in results[evidence]]
        row = {"evidence": evidence, "production": value_per_page(pool, production, gains).mean(), "truth": truth}
        row |= {"mean estimate": float(np.mean([each.estimate for each in intervals])), "logs": len(intervals)}
        row |= {"half width": float(np.mean([each.high - each.low for each in intervals])) / 2}
        row |= {"held": sum(bool(each.low <= truth <= each.high) for each in intervals)}
        rows_of_results.append({**row, "verdicts": {each: words.count(each) for each in sorted(set(words))}})
    return rows_of_results


def count(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A log of 10^6 rows, counted three times each way; the least time counts."""
    data = synthetic.make("yahoo-like", 2000, seed=3)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        log, cells = Path(folder) / "log.parquet", Path(folder) / "cells.parquet"
        simulation(data, np.asarray(data.features[:, 0], dtype=np.float64)).save_log(log, asked.rows / DEPTH)
        for name, weights in (("clicks", {}), ("three events", WEIGHTS)):
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                counted = aggregate(log, data, event_weights=weights, threads=1).clicks
                seconds.append(time.perf_counter() - start)
            counted.save(cells)
            row = {"events": name, "cells": counted.n_cells, "bytes": cells.stat().st_size, "seconds": min(seconds)}
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
