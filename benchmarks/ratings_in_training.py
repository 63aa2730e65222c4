"""Training with and without ratings beside clicks: what a machine's ratings add where sessions are few.

    CLDRANK_DATA=… python benchmarks/ratings_in_training.py [--sessions 1e3] [--logs 4] [--first 0]

MSRD: production is a ranker from 1% of the labels; pages have 5 results, with neighbours swapped on three in ten. A
relevant result is clicked if it is examined (1/k), another in one case of ten. A machine's ratings agree with labels to
0.83, on all candidates or a tenth. nDCG@3 by the labels of the test queries; one JSON line.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from simulated_raters import machine_grades

import cldrank as cr
from cldrank.clicks.ratings import Ratings
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation
from cldrank.errors import CldrankWarning
from cldrank.measures import mean_interval

DEPTH, RELEVANT = 5, 1
METHODS: dict[str, Any] = {
    "ips, mixed": cr.IPS(target="mixed"),
    "ips, posterior": cr.IPS(target="posterior"),
    "cld, mixed": cr.CLD(target="mixed"),
    "cld-pair, mixed": cr.CLDPair(target="mixed"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=float, default=1e3)
    parser.add_argument("--logs", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the number, and seed, of the first log")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", CldrankWarning)
    train, test = cr.load("msrd:train"), cr.load("msrd:test")
    labels, curve = np.asarray(train.labels), cr.Propensities.power(1.0, DEPTH)
    results = defaultdict(list)
    for seed in range(asked.first, asked.first + asked.logs):
        production = cr.SVMRank(fraction=0.01, run=cr.Run(seed=seed)).fit(train)
        pages = Simulation(
            train,
            production.predict(train),
            PositionBased(1.0, 0.1),
            NeighbourSwaps(0.3),
            DEPTH,
            relevant_from=RELEVANT,
        )
        clicks = pages.draw(asked.sessions, seed=seed)
        beside = {"none": clicks}
        for rated in ("all", "tenth"):
            machine = machine_grades(labels, labels >= RELEVANT, rated, seed)
            beside[rated] = clicks.rated(Ratings(np.full(len(labels), np.nan), machine))
        for name, method in METHODS.items():
            for rated, table in beside.items():
                ranker = method.fit(train, table, curve).ranker_
                results[name, rated].append(cr.evaluate(ranker, test, "nDCG@3")["nDCG@3"])
    rows = [
        {
            "method": name,
            "ratings": rated,
            "nDCG@3": round(float(np.mean(values)), 4),
            "beyond none": _difference(values, results[name, "none"]),
        }
        for (name, rated), values in results.items()
    ]
    print(json.dumps({"benchmark": "ratings in training", **vars(asked), "rows": rows}))


def _difference(values: list[float], others: list[float]) -> str:
    """The mean difference, log by log, with its 90% interval."""
    gaps = [value - other for value, other in zip(values, others, strict=True)]
    return f"{mean_interval(gaps):+.4f}" if len(gaps) > 1 and any(gaps) else "0"


if __name__ == "__main__":
    main()
