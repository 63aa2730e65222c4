"""The plan of an audit against what verdicts take: queries until four of five verdicts tell a difference.

    python benchmarks/audit_plan.py [small] [msrd.npz …] [--logs 100] [--logging one swaps two]

Worlds are those of `verdict.py prepare`. Rankers order what production shows, so that nothing was never shown; pages
per query are those of the log that is audited. `factor` is the number of queries that the plan says over the number at
which 80% of verdicts tell the true difference.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from known_truth import DEPTH, FIRST, KnownWorld, small_world

from cldrank import segments
from cldrank.auditing import audit_table
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.exposure import PRODUCTION, LoggedClicks, order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.propensity import Propensities

HELD_OUT = 0.3  # of the queries
AUDITED, PAGES = 300, 10  # queries of the log that is audited, pages for each
CURVE = Propensities.power(1.0, DEPTH)
ENDLESS = 1e12  # pages of a log that shows what any log can
MARGIN = 0.01  # of production's value
SMALLEST = 0.015  # difference, as a share of production's
TRIED = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the planned queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", default=["small"])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--logging", nargs="+", default=["one"], choices=["one", "swaps", "two"])
    parser.add_argument("--rankers", nargs="+", default=["strong", "linear", "noisy"])
    options = parser.parse_args()
    for path in options.worlds:
        whole = small_world() if path == "small" else KnownWorld.load(path, "sampled")
        for logging in options.logging:
            world = shown_alone(whole, ("production", "other") if logging == "two" else ("production",))
            for ranker in options.rankers:
                found = checked(world, logging, ranker, options.logs)
                print(json.dumps({"benchmark": "audit_plan", "world": path, "logging": logging, **found}), flush=True)


def shown_alone(world: KnownWorld, rankers: tuple[str, ...]) -> KnownWorld:
    """The world with only those candidates that some rankers show."""
    data = world.data
    ranks = [segments.descending_ranks(world.scores[name], data.offsets) for name in rankers]
    rows = np.flatnonzero(np.min(ranks, axis=0) <= DEPTH)
    sizes = np.bincount(data.row_queries[rows], minlength=data.n_queries)
    part = RankingDataset(
        features=data.features[rows],
        offsets=segments.from_lengths(sizes),
        labels=None if data.labels is None else data.labels[rows],
        query_ids=np.arange(data.n_queries),
        doc_ids=np.arange(len(rows)),
        name=data.name,
        synthetic=data.synthetic,
    )
    return KnownWorld(part, {name: values[rows] for name, values in world.scores.items()})


def checked(world: KnownWorld, logging: str, ranker: str, logs: int) -> dict[str, object]:
    """The plan for the true difference of a ranker from production, and the queries that its verdicts take."""
    endless = LoggedClicks(world.data, world.log(logging, ENDLESS, 0), CURVE)
    estimator, new = ClickEstimator(endless), order_of(world.scores[ranker], endless)
    old = order_of(PRODUCTION, endless)
    value = estimator.value(FIRST, old, relevance=world.relevance).value
    share = estimator.value(FIRST, new, old, world.relevance).value / value
    if abs(share) < SMALLEST:
        return {"ranker": ranker, "difference": round(share, 4)}
    audited = replace(world, sample=AUDITED).drawn(0).log(logging, AUDITED * PAGES, 0)
    plan = audit_table(audited, plan=abs(share)).facts.plan
    if plan is None or plan.queries is None:
        raise AssertionError("the log of a world can be planned by")
    sizes = [round(times * plan.queries) for times in TRIED]
    rates = [told(world, logging, ranker, size, logs, share) for size in sizes]
    needed = float(np.exp(np.interp(0.8, np.maximum.accumulate(rates), np.log(sizes))))
    ends = "at least" if rates[0] >= 0.8 else "at most" if max(rates) < 0.8 else ""
    numbers = {"difference": round(share, 4), "planned": plan.queries, "told": rates, "needed": round(needed)}
    return {"ranker": ranker, **numbers, "factor": round(plan.queries / needed, 2), "bound": ends}


def told(world: KnownWorld, logging: str, ranker: str, queries: int, logs: int, share: float) -> float:
    """The share of logs whose verdict is the true one."""
    right, whole = 0, round(queries * PAGES / HELD_OUT)  # pages of the log that the curve is estimated from
    for seed in range(1, logs + 1):
        drawn = replace(world, sample=queries).drawn(seed)
        clicks = drawn.log(logging, queries * PAGES, seed)
        try:
            curve = drawn.curve(
                "true" if logging == "one" else "estimated", logging, drawn.log(logging, whole, 10**5 + seed), 0
            )
        except CldrankError:  # too few clicks for the curve, so there is no verdict
            continue
        known, searched = drawn.searched(clicks), clicks[clicks.query_impressions > 0]
        log = LoggedClicks(known.data, searched, curve)
        estimator, old = ClickEstimator(log, seed=seed), order_of(PRODUCTION, log)
        margin = MARGIN * abs(estimator.value(FIRST, old).value)
        gain = estimator.estimate(FIRST, order_of(known.scores[ranker], log), old).interval
        right += decide(gain, margin) == ("better" if share > 0 else "worse")
    return right / logs


if __name__ == "__main__":
    main()
