"""What the clicks on held-out queries tell of parameters, beside what labels tell.

    CLDRANK_DATA=… python benchmarks/held_out_clicks.py [--data msrd] [--seed 0]

Production shows its top 5, eta 1, noise 0.1, 10^5 sessions. Each method learns from 80% of the displayed queries and is
judged by the clicks on the others, as by `cldrank tune`, and by the labels of the test set (nDCG@3). `behind` is how
far it is behind the usual parameter, query by query, with the standard error of that. Prints one JSON line a parameter.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

import cldrank as cr
from cldrank import catalogue, segments
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.measures import compute, parse
from cldrank.methods import CLD, CLDPair, Method, SVMRank
from cldrank.methods.registry import configured
from cldrank.tuning.judges import HeldOutClicks, mean_of

CUTOFF, ETA, NOISE, SESSIONS, HELD_OUT = 5, 1.0, 0.1, 10**5, 0.2
TRIED: dict[str, tuple[type[Method], str, float, tuple[float, ...]]] = {
    "CLD gamma": (CLD, "gamma", 0.1, (0.0, 0.05, 0.2, 0.3, 0.6)),
    "CLD-pair selection_weight": (CLDPair, "selection_weight", 0.05, (0.0, 0.02, 0.1, 0.3, 1.0)),
    "CLD-pair learning_rate": (CLDPair, "learning_rate", 2e-3, (2e-4, 5e-3)),
}


class Labels:
    """nDCG@3 on labels; all queries have the same weight."""

    def __init__(self, dataset: cr.RankingDataset) -> None:
        self.dataset, self.weight = dataset, np.ones(dataset.n_queries)

    def gains(self, ranker: Any) -> Any:
        """The measure, per query."""
        measure = parse("nDCG@3")
        return compute(measure, ranker.predict(self.dataset), self.dataset.labels, self.dataset.offsets)[measure]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", default="msrd")
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    if catalogue.get(asked.data).find() is None:
        print(json.dumps({"benchmark": "held_out_clicks", "data": asked.data, "skipped": "the data set is not here"}))
        return
    train, test = cr.load(f"{asked.data}:train"), cr.load(f"{asked.data}:test")
    production = SVMRank(fraction=0.01, run=cr.Run(seed=asked.seed)).fit(train)
    simulation = Simulation(train, production.predict(train), PositionBased(ETA, NOISE), TopK(), CUTOFF)
    clicks = simulation.draw(SESSIONS, seed=asked.seed)
    rho = cr.Propensities.power(ETA, CUTOFF)
    displayed = np.flatnonzero(clicks.query_impressions)
    learned, held = (
        displayed[part] for part in segments.split_segments(len(displayed), [1 - HELD_OUT, HELD_OUT], asked.seed)
    )
    judges: dict[str, Any] = {
        "clicks": HeldOutClicks(train[held], clicks[held], rho),
        "labels": Labels(test),
    }
    part, part_clicks = train[learned], clicks[learned]
    for title, (method, name, usual, others) in TRIED.items():
        rankers = {
            value: configured(method, {name: value}).fit(part, part_clicks, rho).ranker_ for value in (usual, *others)
        }
        rows: dict[float, dict[str, float]] = {value: {} for value in rankers}
        for by, judge in judges.items():
            gains = {value: judge.gains(ranker) for value, ranker in rankers.items()}
            for value, gained in gains.items():
                found, behind = mean_of(gained, judge.weight), mean_of(gains[usual] - gained, judge.weight)
                figures = {"": found.value, " behind": behind.value, " behind error": behind.error}
                rows[value] |= {f"{by}{key}": round(figure, 4) for key, figure in figures.items()}
        print(json.dumps({"benchmark": title, "data": asked.data, "seed": asked.seed, "rows": rows}), flush=True)


if __name__ == "__main__":
    main()
