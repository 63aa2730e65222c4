"""Logs of a world whose truth is known, each judged as a user would."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from known_truth import DEPTH, FIRST, PAIRS, KnownWorld, Pair, small_world

from cldrank.errors import CldrankError, CldrankWarning
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.judge import ClickJudge
from cldrank.propensity import Propensities

RATINGS = ("none", "all", "tenth", "people", "tops")
LOGGING = ("one", "swaps", "two")
PROPENSITIES = ("true", "estimated", "assumed", "steep", "flat")
FIELDS = ("estimate", "low", "high", "lowest", "highest", "queries", "propensities", "model", "extrapolation", "own")


@dataclass(frozen=True)
class Setting:
    """What logs are drawn from, and how they are judged.

    world          the file of a world, or "small"
    queries        "sampled" for each log anew, or the "same" for all
    logging        by "one" ranker, with "swaps", or by "two"
    propensities   the "true" curve; "estimated"; the true one, but only "assumed"; assumed and too "steep" or "flat"
    behaviour      how people click
    sessions       of each log
    ratings        who rated what, beside clicks, see `KnownWorld.ratings`
    pairs          the names of those that are judged
    """

    world: str
    queries: str
    logging: str
    propensities: str
    sessions: int
    behaviour: str = "position-based"
    ratings: str = "none"
    pairs: tuple[str, ...] = tuple(pair.name for pair in PAIRS)


@cache
def world_of(path: str, queries: str) -> KnownWorld:
    """A world, loaded once by each process."""
    return small_world() if path == "small" else KnownWorld.load(path, queries)


def truth_of(path: str, queries: str, logging: str, behaviour: str = "position-based") -> dict[str, dict[str, float]]:
    """The truth of a world; how people click moves it only where clicks come to wrong results."""
    return _truth_of(path, queries, logging, "trust-biased" if behaviour == "trust-biased" else "position-based")


@cache
def _truth_of(path: str, queries: str, logging: str, behaviour: str) -> dict[str, dict[str, float]]:
    return replace(world_of(path, queries), behaviour=behaviour).truth(logging)


def judged(task: tuple[Setting, int]) -> dict[str, Any]:
    """One log, judged about every pair: a flat record."""
    setting, seed = task
    world = replace(world_of(setting.world, setting.queries), behaviour=setting.behaviour).drawn(seed)
    record: dict[str, Any] = {**asdict(setting), "log": seed}
    wanted = [pair for pair in PAIRS if pair.name in setting.pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CldrankWarning)
        clicks = world.log(setting.logging, setting.sessions, seed)
        try:
            rho = world.curve(setting.propensities, setting.logging, clicks, seed)
        except CldrankError as error:
            return record | {"refused": str(error)}
        known = world.searched(clicks)
        rated = clicks.rated(world.ratings(setting.ratings, seed))
        judge = ClickJudge.of(known.data, rated[clicks.query_impressions > 0], rho)
        pairs = {pair.name: _judged_pair(known, judge, pair, setting) for pair in wanted}
    return record | {"pairs": pairs}


def _judged_pair(world: KnownWorld, judge: ClickJudge, pair: Pair, setting: Setting) -> dict[str, Any]:
    clicks = judge.clicks
    new, old = (world.given(name, setting.logging) for name in (pair.new, pair.old))
    result = judge.compare(new, old, [FIRST], trust_propensity=setting.propensities == "true")
    knowing = ClickEstimator(clicks.log.with_curve(Propensities.power(1.0, DEPTH)))
    own, difference = world.true_difference(knowing, pair, FIRST, setting.logging), result.first.difference
    interval = difference.interval
    ends = interval.estimate, interval.low, interval.high, difference.lowest.low, difference.highest.high
    measured = [float(f"{value:.5g}") for value in (*ends, *asdict(difference.errors).values(), own.value)]
    return {
        "decision": result.verdict.decision,
        "labels": decide(clicks.interval(own.value, own.error(clicks.n_queries)), result.verdict.margin),
        "measures": {str(FIRST): measured},
        "shown": round(result.support.shown, 3),
    }
