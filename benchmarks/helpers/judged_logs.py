"""Logs of a world whose truth is known, each judged as a user would."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from known_truth import DEPTH, FIRST, MEASURES, PAIRS, KnownWorld, Pair, small_world

from cldrank.errors import CldrankError, CldrankWarning
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.judge import ClickJudge
from cldrank.evaluation.off_policy import ESTIMATORS, Affine, off_policy
from cldrank.propensity import Propensities
from cldrank.tuning.judges import HeldOutClicks, mean_of

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
    sessions       of each log
    pairs          the names of those that are judged
    """

    world: str
    queries: str
    logging: str
    propensities: str
    sessions: int
    pairs: tuple[str, ...] = tuple(pair.name for pair in PAIRS)


@cache
def world_of(path: str, queries: str) -> KnownWorld:
    """A world, loaded once by each process."""
    return small_world() if path == "small" else KnownWorld.load(path, queries)


@cache
def truth_of(path: str, queries: str, logging: str) -> dict[str, dict[str, float]]:
    """The truth of a world, computed once by each process."""
    return world_of(path, queries).truth(logging)


class _Remembering(ClickJudge):
    """A judge that remembers the model that it learned last."""

    def learned(self, *orders: Any) -> tuple[ClickEstimator, str]:
        found = super().learned(*orders)
        self.__dict__["last"] = found
        return found

    @property
    def last(self) -> tuple[ClickEstimator, str]:
        found: tuple[ClickEstimator, str] = self.__dict__["last"]
        return found


def judged(task: tuple[Setting, int]) -> dict[str, Any]:
    """One log, judged about every pair: a flat record."""
    setting, seed = task
    world = world_of(setting.world, setting.queries).drawn(seed)
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
        judge = _Remembering.of(known.data, clicks[clicks.query_impressions > 0], rho)
        pairs = {pair.name: _judged_pair(known, judge, pair, setting) for pair in wanted}
    return record | {"pairs": pairs}


def _judged_pair(world: KnownWorld, judge: Any, pair: Pair, setting: Setting) -> dict[str, Any]:
    clicks = judge.clicks
    new, old = (world.given(name, setting.logging) for name in (pair.new, pair.old))
    found = judge.compare(new, old, trust_propensity=setting.propensities == "true")
    knowing = ClickEstimator(clicks.log.with_curve(Propensities.power(1.0, DEPTH)), Affine())
    measured = {}
    for measure in MEASURES:
        one = found.measures[str(measure)].difference
        own = world.true_difference(knowing, pair, measure, setting.logging)
        errors = asdict(one.errors)
        numbers = (one.interval.estimate, one.interval.low, one.interval.high, one.lowest.low, one.highest.high)
        measured[str(measure)] = [float(f"{value:.5g}") for value in (*numbers, *errors.values(), own.value)]
    own = world.true_difference(knowing, pair, FIRST, setting.logging)
    by_labels = decide(clicks.interval(own.value, own.error(clicks.n_queries)), found.verdict.margin)
    return {
        "decision": found.verdict.decision,
        "depends": found.verdict.depends_on_never_shown,
        "placebo": found.permutation_check is None or found.permutation_check.passed,
        "labels": by_labels,
        "measures": measured,
        "without_model": judge.last[1],
        "estimators": _by_estimator(judge, new, old),
        "naive": _naive(judge, new, old),
        "concordance": _concordance(world, judge, pair),
    }


def _by_estimator(judge: _Remembering, new: Any, old: Any) -> dict[str, float]:
    """The difference in the first measure, by each estimator."""
    orders, found, clicks = (judge.order(new, "new"), judge.order(old, "old")), {}, judge.last[0]
    for name in ESTIMATORS:
        estimator = off_policy(name)
        if clicks.model is not None or not estimator.uses_model:
            found[name] = replace(clicks, estimator=estimator).value(FIRST, *orders).value
    return found


def _naive(judge: ClickJudge, new: Any, old: Any) -> float:
    """The difference by click-through rates as they are."""
    flat = judge.clicks.log.with_curve(Propensities.power(0.0, DEPTH))
    clicks = replace(judge.clicks, log=flat, estimator=Affine(), model=None)
    orders = (judge.order(new, "new"), judge.order(old, "old"))
    return clicks.value(FIRST, *orders).value


def _concordance(world: KnownWorld, judge: _Remembering, pair: Pair) -> float | None:
    """The difference in concordance with the corrected clicks, all of which are held out."""
    log = judge.clicks.log
    try:
        by_clicks = HeldOutClicks(log.data, log.clicks, log.curve)
    except CldrankError:
        return None
    names = ("production" if name == "log" else name for name in (pair.new, pair.old))
    gains = [by_clicks.gains(world.scores[name]) for name in names]
    return mean_of(gains[0] - gains[1], by_clicks.weight).value
