"""Comparisons whose errors are given, and what would settle them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from exact_log import KnownWorld
from numpy.typing import NDArray
from scipy.special import ndtri

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import WayToSettle
from cldrank.evaluation.decision_rule import ClickVerdict, decide
from cldrank.evaluation.experiment_planning import ways_to_settle
from cldrank.evaluation.exposure import LoggedClicks, LoggedOrder, RankOrder, ScoreOrder
from cldrank.evaluation.intervals import ClickEstimate, ClickEstimator, Errors, MeasuredPair
from cldrank.evaluation.relevance_model import HiddenCheck, RelevanceModel

Z = float(ndtri(0.95))
DCG = ClickMeasure("DCG", 3)


def orders_of(world: KnownWorld, log: LoggedClicks, noise: float = 0.25) -> tuple[ScoreOrder, LoggedOrder]:
    """A noisy order of relevance among the candidates shown, against production, which is in no order."""
    scores = world.relevance.ravel() + noise * np.random.default_rng(1).standard_normal(log.data.n_rows)
    return ScoreOrder.of("new", scores, log), LoggedOrder(log)


def a_pair(
    clicks: ClickEstimator, new: RankOrder, old: RankOrder, measure: ClickMeasure = DCG, errors: Errors | None = None
) -> MeasuredPair:
    both = clicks.estimate(measure, new), clicks.estimate(measure, old)
    difference = clicks.estimate(measure, new, old)
    if errors is not None:
        difference = with_errors(clicks, difference, errors)
    return MeasuredPair(str(measure), *both, difference)


def with_errors(clicks: ClickEstimator, found: ClickEstimate, errors: Errors) -> ClickEstimate:
    """The same with other errors, as `ClickEstimator` adds them up."""
    parts = errors.queries, errors.propensities, errors.model, errors.extrapolation
    middle, half = found.interval.estimate, clicks.quantile * float(np.linalg.norm(parts))
    interval = replace(found.interval, low=middle - half, high=middle + half)
    return replace(found, interval=interval, errors=errors)


def settled(
    clicks: ClickEstimator,
    new: RankOrder,
    old: RankOrder,
    pair: MeasuredPair,
    *,
    measure: ClickMeasure = DCG,
    margin: float = 0.0,
    decision: str | None = None,
) -> dict[str, WayToSettle]:
    verdict = ClickVerdict(decision or decide(pair.interval, margin), margin, "", True)  # type: ignore[arg-type]
    ways = ways_to_settle(clicks, measure, new, old, pair, verdict)
    pages = [way.pages for way in ways]
    known = [one for one in pages if one is not None]
    assert known == sorted(known)
    assert pages[: len(known)] == known  # those that cannot settle it come last
    return {way.name: way for way in ways}


def pages_of(way: WayToSettle) -> int:
    assert way.pages is not None, way.about
    return way.pages


def known_model(relevance: NDArray[np.float64]) -> RelevanceModel:
    """A model that knows the relevance."""
    nothing = np.zeros(len(relevance))
    return RelevanceModel(relevance, nothing, np.tile(relevance, (2, 1)), nothing, HiddenCheck(0.5, 0.5, 0.01))


def unseen_world() -> tuple[KnownWorld, ClickEstimator, ScoreOrder, LoggedOrder]:
    """Two of five candidates are never shown; new lifts them; a model knows them."""
    world = KnownWorld.draw(queries=100, candidates=5, seed=7)
    log, relevance = world.log(), world.relevance.ravel()
    model = known_model(relevance)
    clicks = ClickEstimator(log, model)
    return world, clicks, *orders_of(world, log)
