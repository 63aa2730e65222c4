"""How well methods rank when trained on simulated clicks of real data.

    CLDRANK_DATA=… python benchmarks/quality.py linear|pairwise [--data msrd] [--seeds 5] [--jobs 1] [--device cuda]

As in the paper: production shows its top 5, noise 0.1, 10^5 sessions, eta 0.1 and 1; the propensities given are true. A
seed draws the production ranker's 1% of the labels, the clicks, and where networks begin. Every figure is the mean over
seeds with its 90% t-interval; on MQ2008 the value of a seed is the mean over five folds. Nothing is tuned. Prints one
JSON line a data set and eta, and a table in Markdown for people on standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import cldrank as cr
from cldrank import catalogue
from cldrank.clicks.simulate import PositionBased, Simulation, TopK
from cldrank.errors import CldrankWarning
from cldrank.measures import mean_interval
from cldrank.methods import CLD, IPS, PIJD, CLDPair, HeckmanRank, Naive, Oracle, RankAgg, SVMRank
from cldrank.methods.evidence import needed
from cldrank.models import MLP, Linear, Run

MEASURES = ("nDCG@1", "nDCG@3", "AP")
CUTOFF, NOISE, SESSIONS, FRACTION = 5, 0.1, 1e5, 0.01
FOLDS = {"msrd": [""], "mq2008": [f"fold{fold}/" for fold in range(1, 6)]}
Values = dict[str, dict[str, list[float]]]

FAMILIES: dict[str, dict[str, Callable[..., Any]]] = {
    "linear": {
        "Naive": Naive,
        "IPS": IPS,
        "Heckman^rank": HeckmanRank,
        "PIJD": PIJD,
        **{f"CLD, γ = {gamma}": partial(CLD, gamma=gamma) for gamma in (0.05, 0.1, 0.2, 0.3)},
        "Oracle": Oracle,
    },
    "pairwise": {
        "Naive": partial(Naive, model=MLP()),
        "IPS": partial(IPS, model=MLP()),
        "RankAgg": RankAgg,
        "CLD-N": partial(CLD, model=MLP()),
        "CLD-pair-L": partial(CLDPair, model=Linear()),
        **{
            f"CLD-pair, C = {weight}": partial(CLDPair, selection_weight=weight)
            for weight in (0.02, 0.05, 0.1, 0.3, 1.0)
        },
        "Oracle": partial(Oracle, model=MLP()),
        "Oracle, 30 epochs": partial(Oracle, model=MLP(epochs=30)),
    },
}


def one_seed(
    family: str, name: str, eta: float, seed: int, device: str | None, part: str
) -> dict[str, dict[str, float]]:
    """For each method and measure, the mean over folds."""
    warnings.simplefilter("ignore", CldrankWarning)
    found: Values = defaultdict(lambda: defaultdict(list))
    for fold in FOLDS[name]:
        train, test = cr.load(f"{name}:{fold}train"), cr.load(f"{name}:{fold}{part}")
        production = SVMRank(fraction=FRACTION, run=Run(seed=seed)).fit(train)
        model = PositionBased(eta=eta, noise=NOISE)
        simulation = Simulation(train, production.predict(train), model=model, policy=TopK(), depth=CUTOFF)
        clicks, rho = simulation.draw(SESSIONS, seed=seed), cr.Propensities.power(eta, CUTOFF)
        fitted: dict[str, Any] = {"Production": production}
        for method, make in FAMILIES[family].items():
            estimator = make() if family == "linear" else make(run=Run(seed=seed, device=device))
            fitted[method] = estimator.fit(train, *needed(estimator.required, clicks, rho))
        for method, ranker in fitted.items():
            result = cr.evaluate(ranker, test, MEASURES)
            for measure in MEASURES:
                found[method][measure].append(result[measure])
    return {method: {name: sum(over) / len(over) for name, over in by.items()} for method, by in found.items()}


def table(values: Values, ceiling: str) -> str:
    """The table for people, with the share of the gap from Naive to Oracle that is closed on nDCG@3 and AP."""
    means = {m: {k: sum(v) / len(v) for k, v in by.items()} for m, by in values.items()}
    lines = [f"| | {' | '.join(MEASURES)} | gap closed, nDCG@3 / AP |", "|---|" + "---|" * (len(MEASURES) + 1)]
    for method in values:
        cells = [f"{mean_interval(values[method][measure]):.4f}" for measure in MEASURES]
        gaps = []
        for measure in MEASURES[1:]:
            whole = means[ceiling][measure] - means["Naive"][measure]
            share = (means[method][measure] - means["Naive"][measure]) / whole if whole else 0.0
            gaps.append(f"{share:.0%}" if whole > 0.005 else "–")  # no gap to speak of
        lines.append(f"| {method} | {' | '.join(cells)} | {' / '.join(gaps)} |")
    return "\n".join(lines)


def differences(values: Values, method: str, rivals: tuple[str, ...]) -> str:
    """How far a method is ahead of others, seed by seed, with the 90% interval of the mean difference."""
    lines = []
    for rival in rivals:
        cells = []
        for measure in MEASURES:
            gaps = [a - b for a, b in zip(values[method][measure], values[rival][measure], strict=True)]
            cells.append(f"{measure} {mean_interval(gaps):+.4f}")
        lines.append(f"{method} over {rival}: {', '.join(cells)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="?", default="pairwise", choices=FAMILIES)
    parser.add_argument("--data", nargs="+", default=list(FOLDS), choices=FOLDS)
    parser.add_argument("--eta", nargs="+", type=float, default=[0.1, 1.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default=None)
    parser.add_argument("--part", default="test", choices=("vali", "test"), help="what to measure on")
    arguments = parser.parse_args()
    family = arguments.family
    ceiling = "Oracle" if family == "linear" else "Oracle, 30 epochs"
    for name in arguments.data:
        if catalogue.get(name).find() is None:
            print(json.dumps({"benchmark": "quality", "data": name, "skipped": "the data set is not here"}))
            continue
        for eta in arguments.eta:
            start = time.perf_counter()
            work = partial(one_seed, family, name, eta, device=arguments.device, part=arguments.part)
            with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
                seeds = list(pool.map(work, range(arguments.seeds)))
            values: Values = {m: {k: [seed[m][k] for seed in seeds] for k in MEASURES} for m in seeds[0]}
            seconds = round(time.perf_counter() - start, 1)
            facts = {
                "benchmark": "quality",
                "family": family,
                "data": name,
                "part": arguments.part,
                "eta": eta,
                "seconds": seconds,
            }
            print(json.dumps({**facts, "values": values}), flush=True)
            print(f"\n{name}, eta = {eta}\n\n{table(values, ceiling)}\n", file=sys.stderr)
            if family == "pairwise":
                print(
                    differences(values, "CLD-pair, C = 0.05", ("IPS", "RankAgg", "Naive")), file=sys.stderr, flush=True
                )


if __name__ == "__main__":
    main()
