"""How well the linear methods rank when trained on simulated clicks of real data.

    CLDRANK_DATA=… python benchmarks/quality_linear.py [--data msrd mq2008] [--seeds 5]

As in the paper: production shows its top 5, noise 0.1, 10^5 sessions, eta 0.1 and 1; the propensities given are true. A
seed draws the production ranker's 1% of the labels and the clicks. Every figure is the mean over seeds with its 90%
t-interval; on MQ2008 the value of a seed is the mean over five folds. Prints one JSON line a data set and eta, and a
table in Markdown for people on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cldrank as cr
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.data import catalogue
from cldrank.errors import CldrankWarning
from cldrank.estimators import CLD, IPS, PIJD, HeckmanRank, Naive, Oracle, SVMRank
from cldrank.measures import mean_interval

MEASURES = ("nDCG@1", "nDCG@3", "AP")
CUTOFF, NOISE, SESSIONS, FRACTION = 5, 0.1, 1e5, 0.01
GAMMAS = (0.05, 0.1, 0.2, 0.3)
FOLDS = {"msrd": [""], "mq2008": [f"fold{fold}/" for fold in range(1, 6)]}

METHODS: dict[str, Callable[[], Any]] = {
    "Naive": Naive,
    "IPS": IPS,
    "Heckman^rank": HeckmanRank,
    "Heckman^rank, position corrected": partial(HeckmanRank, position_correction=True),
    "PIJD": PIJD,
    "PIJD, position effects": partial(PIJD, position_effects=True),
    **{f"CLD, γ = {gamma}": partial(CLD, gamma=gamma) for gamma in GAMMAS},
}


def run(name: str, eta: float, seeds: int, methods: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """For each method and measure, one value a seed."""
    parts = [(cr.load(f"{name}:{fold}train"), cr.load(f"{name}:{fold}test")) for fold in FOLDS[name]]
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    ceilings = [Oracle().fit(train) for train, _ in parts]
    for seed in range(seeds):
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (train, test), oracle in zip(parts, ceilings, strict=True):
            production = SVMRank(fraction=FRACTION, seed=seed).fit(train)
            model = PositionBased(eta=eta, noise=NOISE)
            simulation = Simulation(train, production.predict(train), model=model, policy=TopK(), cutoff=CUTOFF)
            clicks = simulation.draw(SESSIONS, seed=seed)
            rho = cr.Propensities.power(eta, CUTOFF)
            fitted = {"Production": production, "Oracle": oracle}
            fitted |= {method: METHODS[method]().fit(train, clicks, rho) for method in methods}
            for method, ranker in fitted.items():
                result = cr.evaluate(ranker, test, MEASURES, replicates=2)
                for measure in MEASURES:
                    found[method][measure].append(result[measure])
        for method, measures in found.items():
            for measure, over_folds in measures.items():
                values[method][measure].append(sum(over_folds) / len(over_folds))
    return values


def table(values: dict[str, dict[str, list[float]]]) -> str:
    """The table for people, with the share of the gap from Naive to Oracle that is closed on nDCG@3 and AP."""
    means = {m: {k: sum(v) / len(v) for k, v in by.items()} for m, by in values.items()}
    lines = [f"| | {' | '.join(MEASURES)} | gap closed, nDCG@3 / AP |", "|---|" + "---|" * (len(MEASURES) + 1)]
    for method in (method for method in ("Production", *METHODS, "Oracle") if method in values):
        cells = [f"{mean_interval(values[method][measure]):.4f}" for measure in MEASURES]
        gaps = []
        for measure in MEASURES[1:]:
            whole = means["Oracle"][measure] - means["Naive"][measure]
            share = (means[method][measure] - means["Naive"][measure]) / whole
            gaps.append(f"{share:.0%}" if whole > 0.005 else "–")  # no gap to speak of
        lines.append(f"| {method} | {' | '.join(cells)} | {' / '.join(gaps)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(FOLDS), choices=FOLDS)
    parser.add_argument("--eta", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), choices=METHODS, help="Naive is always among them."
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", CldrankWarning)
    for name in arguments.data:
        if catalogue.get(name).find() is None:
            print(json.dumps({"benchmark": "quality_linear", "data": name, "skipped": "the data set is not here"}))
            continue
        for eta in arguments.eta:
            start = time.perf_counter()
            values = run(name, eta, arguments.seeds, list(dict.fromkeys(["Naive", *arguments.methods])))
            seconds = round(time.perf_counter() - start, 1)
            print(
                json.dumps(
                    {"benchmark": "quality_linear", "data": name, "eta": eta, "seconds": seconds, "values": values}
                )
            )
            print(f"\n{name}, eta = {eta}\n\n{table(values)}\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
