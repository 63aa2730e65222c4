"""One ranker from two surfaces: by the curve of each, by one curve of all, and from each surface alone.

    CLDRANK_DATA=… python benchmarks/surfaces.py [--data msrd] [--seeds 5] [--sessions 20000] [--method ips cld]

Phones show three results and are hardly looked at below the first (η = 2), desktops show ten (η = 0.3); each has a
production ranker of its own, some of whose pages swap the first result with another. Curves are estimated from the same
log: `segments` by `BySegment(AllPairs())`, `pooled` by `AllPairs()`, which also compares results on the same surface
only, but finds one curve; `mixed` forgets the surfaces altogether. `truth` is given the true curves. Prints one JSON
line a method: nDCG@5 on the labels of the test set, as the mean over seeds and its standard error, how far the others
are behind `segments` seed by seed, and the largest error of log ρ.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from typing import Any

import numpy as np

import cldrank as cr
from cldrank import catalogue
from cldrank.clicks.simulate import FirstSwaps, PositionBased, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning
from cldrank.methods import SVMRank
from cldrank.methods.registry import configured, methods
from cldrank.propensity import AllPairs, BySegment, Propensities, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve

SURFACES = {"phone": (2.0, 3), "desktop": (0.3, 10)}  # η, and results on a page
NOISE, SWAPPED, MEASURE = 0.1, 0.3, "nDCG@5"


def logs_of(data: RankingDataset, sessions: float, seed: int) -> dict[str, ClickTable]:
    """The log of each surface."""
    found = {}
    for number, (name, (eta, depth)) in enumerate(SURFACES.items()):
        own = 2 * seed + number
        production = SVMRank(fraction=0.01, run=cr.Run(seed=own)).fit(data).predict(data)
        simulation = Simulation(data, production, PositionBased(eta, NOISE), FirstSwaps(SWAPPED), depth)
        found[name] = simulation.draw(sessions, seed=own).with_display(None).as_segment(name)
    return found


def error_of(curve: Curve) -> float:
    """The largest error of log ρ, over the positions of both surfaces."""
    errors = []
    for name, (eta, depth) in SURFACES.items():
        own = curve[name] if isinstance(curve, SegmentPropensities) else curve
        errors.append(np.abs(np.log(own.at(np.arange(1, depth + 1))) + eta * np.log(np.arange(1, depth + 1))).max())
    return float(max(errors))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", default="msrd")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--sessions", type=float, default=2e4, help="on each surface")
    arguments.add_argument("--method", nargs="+", default=["ips", "cld"])
    asked = arguments.parse_args()
    if catalogue.get(asked.data).find() is None:
        print(json.dumps({"benchmark": "surfaces", "data": asked.data, "skipped": "the data set is not here"}))
        return
    warnings.simplefilter("ignore", CldrankWarning)
    train, test = cr.load(f"{asked.data}:train"), cr.load(f"{asked.data}:test")
    values: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in asked.method}
    errors: dict[str, list[float]] = defaultdict(list)
    true = SegmentPropensities.of({name: Propensities.power(eta, depth) for name, (eta, depth) in SURFACES.items()})
    for seed in range(asked.seeds):
        logs = logs_of(train, asked.sessions, seed)
        both = logs["phone"].merge(logs["desktop"])
        mixed = both.as_segment("")
        curves = BySegment(AllPairs()).fit(both)
        found: dict[str, tuple[ClickTable, Any]] = {
            "segments": (both, curves),
            "pooled": (both, AllPairs().fit(both)),
            "mixed": (mixed, AllPairs().fit(mixed)),
            **{f"{name} alone": (log, curves) for name, log in logs.items()},
            "truth": (both, true),
        }
        for name in ("segments", "pooled", "mixed"):
            errors[name].append(error_of(found[name][1]))
        for method, into in values.items():
            for name, (clicks, curve) in found.items():
                ranker = configured(methods()[method], {"seed": seed}).fit(train, clicks, curve).ranker_
                into[name].append(cr.evaluate(ranker, test, MEASURE)[MEASURE])
    for method, into in values.items():
        rows = {name: _row(np.array(own), np.array(into["segments"])) for name, own in into.items()}
        off = {name: round(float(np.mean(own)), 3) for name, own in errors.items()}
        known = {"data": asked.data, "method": method, "seeds": asked.seeds, "sessions": asked.sessions}
        print(
            json.dumps(
                {"benchmark": "surfaces", **known, MEASURE: rows, "largest error of log ρ": off}, ensure_ascii=False
            ),
            flush=True,
        )


def _row(values: Any, best: Any) -> dict[str, float]:
    root = np.sqrt(max(len(values) - 1, 1))
    behind = best - values
    figures = {"mean": values.mean(), "error": values.std() / root, "behind": behind.mean(), "±": behind.std() / root}
    return {name: round(float(figure), 4) for name, figure in figures.items()}


if __name__ == "__main__":
    main()
