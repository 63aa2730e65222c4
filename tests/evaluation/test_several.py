from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from simulated_clicks import SimulatedClicks, simulated

import cldrank as cr
from cldrank.clicks.simulate import NeighbourSwaps
from cldrank.errors import DataError, UsageError
from cldrank.evaluation import ClickComparison, SeveralComparisons
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.exposure import PRODUCTION
from cldrank.evaluation.judge import ClickJudge
from cldrank.propensity import AllPairs


@pytest.fixture(scope="module")
def world() -> SimulatedClicks:
    return simulated(queries=120, sessions=12_000)


def by_clicks(world: SimulatedClicks, rankers: dict[str, Any], old: Any = PRODUCTION, **options: Any) -> Any:
    given: dict[str, Any] = {"clicks": world.clicks, "propensities": world.rho, "trust_propensity": True}
    return cr.compare(rankers, old, world.data, "DCG@4", names=("new", "before"), **given, **options)


def test_one_ranker_is_a_comparison_of_two(world: SimulatedClicks) -> None:
    several = by_clicks(world, {"good": world.good})
    options: dict[str, Any] = {"clicks": world.clicks, "propensities": world.rho, "trust_propensity": True}
    alone = cr.compare(world.good, PRODUCTION, world.data, "DCG@4", names=("good", "before"), **options)
    assert several["good"].as_dict() == alone.as_dict()
    assert (several.confidence_each, several.decision) == (0.9, alone.verdict.decision)


def test_which_to_try_first_and_what_cannot_be_told_from_it(world: SimulatedClicks) -> None:
    near = world.good + 0.05 * np.random.default_rng(0).standard_normal(len(world.good))
    several = by_clicks(world, {"bad": world.bad, "good": world.good, "near": near, "mixed": world.good + world.bad})
    assert isinstance(several, SeveralComparisons)
    estimates = {name: several.interval(name).estimate for name in several}
    assert several.try_first == max(estimates, key=lambda name: estimates[name])
    assert {several.try_first, *several.not_told_apart} == {"good", "near"}
    assert several.decisions["bad"] == "worse"
    assert several.decision == several.decisions[several.try_first] == "better"
    assert several.words == f"try {several.try_first} first: better"
    for name, pair in several.items():
        assert isinstance(pair, ClickComparison)
        assert several.interval(name).confidence == several.confidence_each > several.confidence == 0.9
        assert several.decisions[name] == pair.verdict.decision == decide(several.interval(name), pair.verdict.margin)
    again = by_clicks(world, {"bad": world.bad, "good": world.good, "near": near, "mixed": world.good + world.bad})
    written = json.loads(json.dumps(several.as_dict(), allow_nan=False))
    assert written == json.loads(json.dumps(again.as_dict()))
    assert list(written["rankers"]) == ["bad", "good", "near", "mixed"]
    assert {"new", "old", "measures", "verdict", "decision"} <= set(written["rankers"]["good"])
    assert f"{several.try_first} is better than production" in str(several)
    assert "<svg" in several.to_html()


def test_where_all_are_worse_there_is_none_to_try(world: SimulatedClicks) -> None:
    several = by_clicks(world, {"bad": world.bad, "reversed": -world.good}, world.good)
    assert (several.try_first, several.not_told_apart, several.decision) == (None, (), "worse")
    assert several.words == "keep before: all others are worse"
    assert "All are worse than before" in str(several)


def test_deviations_hold_all_of_the_error_but_extrapolation() -> None:
    swapped = simulated(policy=NeighbourSwaps(0.3))
    judge = ClickJudge.of(swapped.data, swapped.clicks, AllPairs().fit(swapped.clicks))
    good, old = judge.order(swapped.good, "good"), judge.order(PRODUCTION, "")
    clicks, _ = judge.learned
    for measure in (ClickMeasure("DCG", 4), ClickMeasure("Clicks", 4)):
        errors = clicks.estimate(measure, good, old).errors
        assert min(errors.queries, errors.propensities, errors.model) > 0
        expected = np.linalg.norm([errors.queries, errors.propensities, errors.model])
        assert np.linalg.norm(clicks.deviations(measure, good, old)) == pytest.approx(expected)
        apart = clicks.deviations(measure, good) - clicks.deviations(measure, old)
        np.testing.assert_allclose(clicks.deviations(measure, good, old), apart, atol=1e-12)


def test_errors_of_extrapolation_are_each_ranker_s_own() -> None:
    """Two rankers with the same order have all other errors in common: then the level is that of a single interval."""
    for depth, shared in ((4, False), (8, True)):  # of eight candidates
        world = simulated(queries=30, sessions=3000, depth=depth)
        several = by_clicks(world, {"good": world.good, "twice": 2 * world.good})
        assert (several["good"].first.difference.errors.extrapolation == 0) == shared
        assert (several.confidence_each < 0.901) == shared


def test_by_labels_each_is_compared_at_the_common_level(world: SimulatedClicks) -> None:
    data, rankers = world.data, {"good": world.good, "bad": world.bad, "also good": 2 * world.good}
    several = cr.compare(rankers, world.bad, data, ["DCG@4", "AP"], names=("", "before"))
    assert several.decisions == {"good": "better", "bad": "no difference", "also good": "better"}
    assert (several.try_first, several.not_told_apart) == ("good", ("also good",))
    options: dict[str, Any] = {"confidence": several.confidence_each, "names": ("good", "before")}
    alone = cr.compare(world.good, world.bad, data, ["DCG@4", "AP"], **options)
    assert several["good"].as_dict() == {**alone.as_dict()}
    assert several["good"]["AP"].interval == alone["AP"].interval
    assert several.as_dict()["rankers"]["bad"]["measures"]["DCG@4"]["difference"] == 0
    assert "good is better than before, by DCG@4" in str(several)


def test_refusals(world: SimulatedClicks) -> None:
    for rankers in ({}, {3: world.good}, {"before": world.good}):
        with pytest.raises(UsageError, match="name"):
            by_clicks(world, rankers)  # type: ignore[arg-type]
    none = replace(world.data, labels=np.zeros(world.data.n_rows, dtype=np.float32))
    with pytest.raises(DataError, match="at least 2 values"):
        cr.compare({"good": world.good, "bad": world.bad}, -world.good, none, "AP", empty="skip")
    with pytest.raises(UsageError, match="margin"):
        cr.compare({"good": world.good}, world.bad, world.data, margin=0.1)
    with pytest.raises(UsageError, match="production"):
        cr.compare({"log": PRODUCTION}, world.bad, world.data)


# -- simulations ---------------------------------------------------------------------------------------------------
