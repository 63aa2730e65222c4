"""`cldrank train --safe`: how often a ranker is worse than production, with and without it.

    CLDRANK_DATA=… python benchmarks/safe.py [--logs 200] [--scene good|perfect|wrong|trees] [--on vali|test]

Logs of 1,000 queries of the training set each, pages of 5, noise 0.1; 10^3, 10^4 and 10^5 sessions in turn, learned
from by Naive and IPS in turn, linear models. Scenes:

    good      production learned from 1% of the labels; clicks support rankers that are better
    perfect   production learned from all labels; most rankers from clicks do harm
    wrong     propensities 1/k where people examine as 1/k^0.5 and 1/k^1.5 in turn; either production
    trees     as perfect and good in turn, with boosted trees; few logs

The truth is DCG@5 of the probabilities of a click, by the labels of queries that no log has. `harm` is the share of
logs whose ranker is worse than production by more than 1%; `kept` the gain of safe rankers over that of the others,
over logs where these gain; a refusal leaves production as it is. Prints one JSON line a log, with --each, and four a
scene.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cldrank as cr
from cldrank import catalogue, segments
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.methods import IPS, Method, Naive, Oracle, SVMRank
from cldrank.methods.evidence import needed
from cldrank.safety import Safe, UnsafeError

DEPTH, NOISE, MARGIN, QUERIES = 5, 0.1, 0.01, 1000
SESSIONS = (10**3, 10**4, 10**5)
Floats = NDArray[np.float64]


def true_dcg(scores: Floats, data: cr.RankingDataset) -> float:
    """The mean DCG@5 of the probabilities of a click at the first position."""
    assert data.labels is not None
    ranks = segments.descending_ranks(scores, data.offsets)
    relevance = np.where(data.labels >= 1, 1.0, NOISE)
    return float((relevance / np.log2(ranks + 1))[ranks <= DEPTH].sum() / data.n_queries)


def makers(scene: str) -> list[Method]:
    """The methods, in turn."""
    if scene == "trees":
        return [Naive(model=cr.Trees(rounds=100)), IPS(model=cr.Trees(rounds=100))]
    return [Naive(), IPS()]


class Scene:
    """A production ranker, and the logs of it."""

    def __init__(self, name: str, on: str, hold_out: float) -> None:
        self.hold_out = hold_out
        self.name, self.train, self.judged = name, cr.load("msrd:train"), cr.load(f"msrd:{on}")
        fractions = {"good": (0.01,), "perfect": (1.0,)}.get(name, (0.01, 1.0))
        rankers: list[Method] = [SVMRank(fraction=fraction).fit(self.train) for fraction in fractions]
        if name == "trees":
            rankers[-1] = Oracle(model=cr.Trees(rounds=200)).fit(self.train)
        self.productions = [
            (one.predict(self.train), true_dcg(one.predict(self.judged), self.judged)) for one in rankers
        ]

    def run(self, number: int) -> dict[str, Any]:
        """One log: the true gains, relative to production, of the ranker as it is, and of the safe one."""
        random = np.random.default_rng([number, 15])
        queries = np.sort(random.choice(self.train.n_queries, QUERIES, replace=False))
        scores, value = self.productions[number // 6 % len(self.productions)]
        data, rows = self.train[queries], segments.rows_of_segments(self.train.offsets, queries)
        eta = (0.5, 1.5)[number // 12 % 2] if self.name == "wrong" else 1.0
        sessions, method = SESSIONS[number % 3], makers(self.name)[number // 3 % 2]
        clicks = Simulation(data, scores[rows], PositionBased(eta, NOISE), depth=DEPTH).draw(sessions, seed=number)
        rho = cr.Propensities.power(1, DEPTH)
        method.fit(data, *needed(method.required, clicks, rho))
        unsafe = true_dcg(method.predict(self.judged), self.judged) / value - 1
        found = {"log": number, "sessions": sessions, "method": method.name, "unsafe": round(unsafe, 5)}
        begun = time.perf_counter()
        try:
            kept = Safe(method, margin=MARGIN, hold_out=self.hold_out).fit(data, clicks, rho)
        except UnsafeError:
            return found | {"safe": 0.0, "share": None, "seconds": round(time.perf_counter() - begun, 1)}
        gained = true_dcg(kept.predict(self.judged), self.judged) / value - 1
        known = {"safe": round(gained, 5), "share": kept.safety_.share, "overlap": round(kept.safety_.overlap, 3)}
        return found | known | {"seconds": round(time.perf_counter() - begun, 1)}


def summed(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What came of some logs."""
    unsafe, safe = (np.array([one[key] for one in found]) for key in ("unsafe", "safe"))
    helps = unsafe > 0
    return {
        "logs": len(found),
        "worst unsafe": round(float(unsafe.min()), 4),
        "worst safe": round(float(safe.min()), 4),
        "harm unsafe": round(float((unsafe < -MARGIN).mean()), 3),
        "harm safe": round(float((safe < -MARGIN).mean()), 3),
        "mean unsafe": round(float(unsafe.mean()), 4),
        "mean safe": round(float(safe.mean()), 4),
        "kept": round(float(safe[helps].sum() / unsafe[helps].sum()), 3) if helps.any() else None,
        "refused": round(sum(one["share"] is None for one in found) / len(found), 3),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--logs", type=int, default=200)
    arguments.add_argument("--first", type=int, default=0, help="the number of the first log")
    arguments.add_argument("--scene", choices=["good", "perfect", "wrong", "trees"], nargs="+", default=["good"])
    arguments.add_argument("--on", choices=["vali", "test"], default="vali")
    arguments.add_argument("--hold-out", type=float, default=0.3, help="the share of queries that judge")
    arguments.add_argument("--each", action="store_true")
    asked = arguments.parse_args()
    if catalogue.get("msrd").find() is None:
        print(json.dumps({"benchmark": "safe", "skipped": "the data set is not here"}))
        return
    warnings.simplefilter("ignore", cr.errors.CldrankWarning)
    for name in asked.scene:
        scene, found = Scene(name, asked.on, asked.hold_out), []
        for number in range(asked.first, asked.first + asked.logs):
            found.append(scene.run(number))
            if asked.each:
                print(json.dumps({"scene": name, "on": asked.on, **found[-1]}), flush=True)
        for sessions in (*SESSIONS, None):
            some = [one for one in found if sessions in (None, one["sessions"])]
            print(
                json.dumps({"benchmark": f"safe {name}", "on": asked.on, "sessions": sessions or "all", **summed(some)})
            )


if __name__ == "__main__":
    main()
