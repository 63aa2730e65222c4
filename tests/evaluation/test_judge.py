from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_clicks import SimulatedClicks, simulated

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UsageError
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.exposure import ScoreOrder
from cldrank.propensity import AffineClicks, Propensities


@pytest.fixture(scope="module")
def world() -> SimulatedClicks:
    return simulated()


@pytest.fixture(scope="module")
def judge(world: SimulatedClicks) -> ClickJudge:
    return ClickJudge.of(world.data, world.clicks, world.rho)


def quick(world: SimulatedClicks, new: Any, old: Any = "production", **options: Any) -> Any:
    """A comparison by one measure."""
    options = {"clicks": world.clicks, "propensities": world.rho, "measures": "DCG@4", **options}
    return cr.compare(new, old, world.data, **options)


# -- verdicts ----------------------------------------------------------------------------------------------------


def test_a_comparison_from_end_to_end(world: SimulatedClicks) -> None:
    options: dict[str, Any] = {"clicks": world.clicks, "propensities": world.rho}
    found = cr.compare(world.good, "production", world.data, trust_propensity=True, **options)
    assert list(found.measures) == ["DCG@4", "Clicks@4"]
    assert found.verdict.decision == "better"
    assert (found.new, found.old, found.estimator) == ("new", "production", "doubly robust")
    assert found.checks == ()
    values = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert {"verdict", "measures", "support", "never_shown", "checks", "permutation_check", "settling"} <= set(values)
    for measure in values["measures"].values():
        assert {"new", "old", "difference", "low", "high"} <= set(measure)
        assert measure["low"] <= measure["difference"] <= measure["high"]
        assert measure["difference"] == pytest.approx(measure["new"] - measure["old"])
    assert "new against production on toy (synthetic)" in str(found)
    assert {"A/B test", "interleaving test"} <= {way.name for way in found.settling}
    assumed = cr.compare(world.good, "production", world.data, **options)
    assert [check.name for check in assumed.checks] == ["η + 0.5", "η − 0.5"]
    assert (assumed.measures, assumed.permutation_check) == (found.measures, found.permutation_check)


def test_the_margin_is_a_hundredth_of_old_s_unless_it_is_given(world: SimulatedClicks) -> None:
    found = quick(world, world.good, world.bad)
    assert found.verdict.margin == pytest.approx(0.01 * found.first.old.interval.estimate)
    same = quick(world, world.good, 2 * world.good, margin=0)
    assert (same.verdict.decision, same.verdict.margin) == ("no difference", 0)
    for margin in (-1, "x", float("nan")):
        with pytest.raises(UsageError, match="`margin` must be"):
            quick(world, world.good, margin=margin)


def test_rankers_of_one_order_do_not_differ_at_all(world: SimulatedClicks) -> None:
    found = quick(world, world.good, np.exp(world.good), measures=None)
    for pair in found.measures.values():
        assert (pair.interval.estimate, pair.interval.low, pair.interval.high) == (0, 0, 0)
    assert found.verdict.decision == "no difference"
    assert not found.verdict.depends_on_never_shown
    assert (found.never_shown.results, found.never_shown.break_even) == (0, None)
    production = quick(world, "production", "production")
    assert production.first.interval.high == 0


def test_production_brings_the_clicks_it_had(world: SimulatedClicks) -> None:
    found = cr.evaluate("production", world.data, "Clicks", clicks=world.clicks, propensities=world.rho)
    value = found.measures["Clicks@4"].interval.estimate
    assert value == pytest.approx(world.clicks.clicks.sum() / 6000)
    assert (found.ranker, found.never_shown.results) == ("production", 0)
    assert found.support.shown == pytest.approx(1)
    assert dict(found) == {"Clicks@4": value}
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["measures"]["Clicks@4"]["estimate"] == value
    assert f"{value:.4f}" in str(found)


def test_an_assumed_curve_is_held_to_others_unless_it_is_trusted(world: SimulatedClicks) -> None:
    noisy = world.good + np.random.default_rng(5).standard_normal(480)
    assumed, trusted = (quick(world, noisy, trust_propensity=trust) for trust in (False, True))
    assert assumed.first == trusted.first
    assert (assumed.verdict.decision, trusted.verdict.decision) == ("cannot tell", "better")
    against = [check.name for check in assumed.checks if check.decision != "better"]
    assert against
    assert f"but not with {against[0]}" in assumed.verdict.reason
    assert not trusted.checks


def test_an_estimated_curve_is_not_held_to_others(world: SimulatedClicks) -> None:
    replicates = world.rho.values ** np.random.default_rng(0).normal(1, 0.01, (20, 1))
    rho = Propensities(world.rho.values, method="Pivot", replicates=replicates)
    found = quick(world, world.good, propensities=rho)
    assert (found.verdict.decision, found.curve_is_estimated, found.checks) == ("better", True, ())


@pytest.mark.filterwarnings("ignore:.*refute:cldrank.errors.CldrankWarning")
def test_a_curve_that_is_too_steep_withholds_the_verdict_in_either_direction(world: SimulatedClicks) -> None:
    upside_down = np.full(world.data.n_rows, -9.0)
    upside_down[world.clicks.row] = world.clicks.position
    options: dict[str, Any] = {"propensities": Propensities.power(3, 4), "trust_propensity": True}
    forth = quick(world, upside_down, "production", **options)
    back = quick(world, "production", upside_down, names=("new", "before"), **options)
    assert forth.first.interval.low > 0
    assert back.first.interval.high < 0
    for found, name in ((forth, "new"), (back, "before")):
        assert found.verdict.decision == "cannot tell"
        assert f"{name} still seems better than the order of the log" in found.verdict.reason


@pytest.mark.parametrize(("name", "label"), [("affine", "affine IPS"), ("doubly-robust", "doubly robust")])
def test_every_estimator_judges(world: SimulatedClicks, name: str, label: str) -> None:
    found = quick(world, world.good, world.bad, estimator=name, measures=None)
    assert found.estimator == label
    assert (found.never_shown.model is None) == (name == "affine")
    for pair in found.measures.values():
        assert pair.difference.lowest.low <= pair.interval.low
        assert pair.interval.high <= pair.difference.highest.high
    json.dumps(found.as_dict(), allow_nan=False)


def test_trust_in_positions_is_corrected_for(world: SimulatedClicks) -> None:
    shown = world.clicks.impressions  # half of what is shown is clicked whatever it is
    lifted = replace(world.clicks, clicks=world.clicks.clicks + shown, impressions=2 * shown)
    curve = AffineClicks(world.rho.values / 2, np.full(4, 0.5))
    found = quick(world, world.good, clicks=lifted, propensities=curve)
    usual = quick(world, world.good)
    assert found.first.interval.estimate == pytest.approx(usual.first.interval.estimate)


# -- queries that were trained on --------------------------------------------------------------------------------


def trained(world: SimulatedClicks, queries: slice) -> Any:
    return cr.IPS().fit(world.data[queries], world.clicks[queries], world.rho)


def test_queries_that_a_ranker_was_trained_on_are_left_out(world: SimulatedClicks) -> None:
    method = trained(world, slice(0, 25))
    for ranker in (method, method.ranker_):
        found = quick(world, ranker)
        assert (found.left_out, found.support.queries) == (25, 35)
        assert re.search(r"^35 queries.*; 25 queries left out", str(found), re.M)
    rest = SimulatedClicks(world.data[25:], world.clicks[25:], world.good[200:], world.bad[200:], world.relevance[200:])
    alone = quick(rest, method.predict(rest.data))
    assert "left out" not in str(alone)
    assert found.first.interval == alone.first.interval
    backwards = quick(world, world.good, method)  # scores are those of all rows
    assert backwards.left_out == 25
    expected = quick(rest, rest.good, method.predict(rest.data))
    assert backwards.first.interval == expected.first.interval


# -- what logs may look like -------------------------------------------------------------------------------------


def test_too_few_queries_have_bounds_instead_of_a_model() -> None:
    small = simulated(queries=12, sessions=3000)
    found: Any = quick(small, small.good, measures=None)
    assert found.estimator == "affine IPS"
    assert "needs 20 queries, and there are 12" in found.never_shown.without_model
    assert found.never_shown.model is None
    first = found.first.difference
    assert (first.interval.low, first.interval.high) == (first.lowest.low, first.highest.high)


def test_pages_of_one_result(world: SimulatedClicks) -> None:
    narrow = simulated(depth=1)
    found = quick(narrow, narrow.good, measures=None)
    assert list(found.measures) == ["DCG@1", "Clicks@1"]
    assert found.never_shown.hidden_predicted is None
    first = found.first.difference
    assert (first.interval.low, first.interval.high) == pytest.approx((first.lowest.low, first.highest.high), rel=0.1)


def test_missing_and_constant_features(world: SimulatedClicks) -> None:
    cells: Any = {name: getattr(world.clicks, name) for name in ("row", "position", "impressions", "clicks")}
    missing = np.array(world.data.features)
    missing[::5, 1] = np.nan
    for features in (missing, np.ones((480, 2))):
        data = cr.RankingDataset.from_arrays(features, world.data.query_ids[world.log.queries], missing="keep")
        found = quick(replace(world, data=data), world.good, clicks=ClickTable.from_arrays(data, **cells))
        assert found.estimator == "doubly robust"
        assert not found.never_shown.without_model


@pytest.mark.parametrize("queries", [[0], []])
def test_clicks_on_one_query_say_nothing_of_others(world: SimulatedClicks, queries: list[int]) -> None:
    kept = np.isin(world.log.queries[world.clicks.row], queries)
    clicks = replace(world.clicks, clicks=np.where(kept, world.clicks.clicks, 0))
    with pytest.raises(DataError, match="1 query has clicks" if queries else "has no clicks"):
        quick(world, world.good, clicks=clicks)


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"new": "prodcution"}, UsageError, "'prodcution' is not a ranker"),
        ({"new": np.ones(7)}, DataError, "new has 7 scores for 480 candidates"),
        ({"confidence": 1.0}, UsageError, "`confidence` must be"),
        ({"propensities": [1, 0.5]}, UsageError, "not a list"),
        ({"propensities": Propensities.power(1, 2)}, DataError, "position 4|propensit"),
    ],
)
def test_refusals(world: SimulatedClicks, changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"new": world.good, **changes}
    with pytest.raises(kind, match=message):
        quick(world, given.pop("new"), **given)


def test_the_dataset_must_be_that_of_the_clicks(world: SimulatedClicks) -> None:
    with pytest.raises(DataError):
        cr.compare(world.good[8:], "production", world.data[1:], clicks=world.clicks, propensities=world.rho)
    given: Any = world.data.features
    with pytest.raises(UsageError, match="RankingDataset"):
        cr.compare(world.good, "production", given, clicks=world.clicks, propensities=world.rho)


# -- the judge ---------------------------------------------------------------------------------------------------


def test_a_judge_gives_what_the_functions_give(world: SimulatedClicks, judge: ClickJudge) -> None:
    found = judge.compare(world.good, "production", "DCG", names=("trees", "before"))
    assert (found.new, found.old) == ("trees", "production")
    assert found.first == quick(world, world.good).first
    one = judge.evaluate(world.good, "DCG@2 Clicks", name="trees")
    other = cr.evaluate(world.good, world.data, "DCG@2 Clicks", clicks=world.clicks, propensities=world.rho)
    assert one.measures == other.measures
    assert (one.ranker, other.ranker) == ("trees", "the ranker")
    beside = judge.compare(world.good, "production", "DCG@2").first.new
    assert one.measures["DCG@2"] == beside


def test_scores_are_those_of_the_whole_dataset(world: SimulatedClicks) -> None:
    searched = world.log.queries[world.clicks.row] % 2 == 0
    some = ClickJudge.of(world.data, world.clicks.where(searched), world.rho)
    assert some.clicks.n_queries == 30
    order = some.order(world.good, "new")
    assert isinstance(order, ScoreOrder)
    assert order.ranks.tolist() == [
        rank
        for query in range(0, 60, 2)
        for rank in (np.argsort(np.argsort(-world.good[8 * query : 8 * query + 8])) + 1).tolist()
    ]
    with pytest.raises(DataError, match="new has 240 scores for 480 candidates"):
        some.order(world.good[:240], "new")
    unknown = np.where(np.arange(480) == 8 * 58, np.nan, world.good)
    with pytest.raises(DataError, match=f"new scores a candidate of query {world.data.query_ids[58]} as NaN"):
        some.order(unknown, "new")


def test_options_of_the_other_way_of_judging_are_refused(world: SimulatedClicks) -> None:
    data = cr.RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], labels=[1, 0, 1, 0])
    for option in ({"margin": 0.0}, {"estimator": "affine"}, {"trust_propensity": True}):
        with pytest.raises(UsageError, match=f"`{next(iter(option))}`"):
            cr.compare(np.arange(4), np.arange(4), data, **option)
    with pytest.raises(UsageError, match="clicks= and propensities="):
        cr.compare(np.arange(4), "production", data)
    with pytest.raises(UsageError, match="clicks are missing"):
        cr.evaluate("production", data, propensities=cr.Propensities.power(1, 2))
    with pytest.raises(UsageError, match="`empty`"):
        quick(world, world.good, empty="skip")


# -- ratings -------------------------------------------------------------------------------------------------------


def rated(world: SimulatedClicks) -> ClickTable:
    ids = {"query_id": world.data.query_ids[world.data.row_queries], "doc_id": world.clicks.candidates.doc_ids}
    return world.clicks.rated(pd.DataFrame({**ids, "rating": world.relevance}))


def test_ratings_shorten_intervals_and_their_agreement_comes_first(world: SimulatedClicks) -> None:
    without, with_them = quick(world, world.bad), quick(world, world.bad, clicks=rated(world))
    half = [each.first.interval.high - each.first.interval.low for each in (without, with_them)]
    assert half[1] < half[0]
    assert (without.ratings, without.as_dict()["ratings"]) == (None, None)
    (machines,) = json.loads(json.dumps(with_them.as_dict()))["ratings"]["agreements"]
    assert machines["used"]
    page = with_them.to_html()
    assert page.index("Ratings beside clicks") < page.index("Estimates") < page.index("Never-shown results")
    evaluated = cr.evaluate(world.bad, world.data, "DCG@4", clicks=rated(world), propensities=world.rho)
    assert evaluated.ratings == with_them.ratings


def test_ratings_go_with_a_model_of_clicks(world: SimulatedClicks) -> None:
    by_ips = quick(world, world.good, clicks=rated(world), estimator="affine")
    assert "no model" in by_ips.ratings.unused
