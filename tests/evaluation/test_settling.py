from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact_log import KnownWorld
from numpy.typing import NDArray
from scipy.special import ndtri
from settled_cases import DCG, Z, a_pair, orders_of, pages_of, settled, unseen_world

import cldrank as cr
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.evaluation.by_clicks import ClickJudge
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import ClickEstimate, ClickVerdict, Errors, Unseen, WayToSettle
from cldrank.evaluation.deciding import decide
from cldrank.evaluation.estimating import ClickEstimator
from cldrank.evaluation.orders import LoggedOrder, ScoreOrder
from cldrank.evaluation.settling import say_way, ways_to_settle
from cldrank.evaluation.unseen import look_at_unseen
from cldrank.measures import Interval

# -- tests with people --------------------------------------------------------------------------------------------


def test_an_a_b_test_of_the_planned_pages_shows_the_difference_in_80_percent() -> None:
    world = KnownWorld.draw(queries=200, candidates=3, seed=0)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log)
    pages = pages_of(settled(clicks, new, old, a_pair(clicks, new, old))["A/B test"])
    random, n = np.random.default_rng(2), pages // 2
    decided = []
    for _ in range(600):
        counts = [_clicks_on(world, ranks, n, random) for ranks in (new.ranks, np.tile([1, 2, 3], 200))]
        error = np.sqrt(sum(one.var() for one in counts) / n)
        decided.append(counts[0].mean() - counts[1].mean() > Z * error)
    assert np.mean(decided) == pytest.approx(0.8, abs=0.05)


def _clicks_on(world: KnownWorld, ranks: NDArray[np.int64], n: int, random: np.random.Generator) -> NDArray[np.int64]:
    chances = world.relevance * world.curve.values[ranks.reshape(world.relevance.shape) - 1]
    drawn = chances[random.integers(len(chances), size=n)]
    counts: NDArray[np.int64] = (random.random(drawn.shape) < drawn).sum(axis=1)
    return counts


def test_noise_of_relevance_does_not_make_an_a_b_test_longer() -> None:
    world = KnownWorld.draw(queries=20_000, candidates=3, seed=0)
    exact, noisy = world.estimator(), replace(world, pages=4).estimator(np.random.default_rng(3))
    pages = []
    for clicks in (exact, noisy):
        new, old = orders_of(world, clicks.log)
        pages.append(pages_of(settled(clicks, new, old, a_pair(clicks, new, old))["A/B test"]))
    assert pages[1] == pytest.approx(pages[0], rel=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.6])
def test_interleaving_needs_far_fewer_pages_than_an_a_b_test(noise: float) -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise)
    ways = settled(clicks, new, old, a_pair(clicks, new, old))
    assert 4 * pages_of(ways["interleaving test"]) < pages_of(ways["A/B test"])


def test_a_smaller_difference_takes_more_pages() -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    found = []
    for noise in (0.0, 0.2, 0.4, 0.8):
        new, old = orders_of(world, clicks.log, noise)
        ways = settled(clicks, new, old, a_pair(clicks, new, old, errors=Errors(0.2)))
        found.append([pages_of(ways[name]) for name in ("A/B test", "interleaving test", "more of this log")])
    assert (np.diff(found, axis=0) > 0).all()


def test_below_the_margin_tests_are_planned_for_the_margin() -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.8)
    pair = a_pair(clicks, new, old)
    whole, margin = pair.old.interval.estimate, 3 * pair.gain.estimate
    plain, planned = (settled(clicks, new, old, pair, margin=one) for one in (0.0, margin))
    old_clicks = clicks.value(ClickMeasure("Clicks", 3), old).value
    assert (
        f"a difference of {margin / whole * old_clicks:#.2g} clicks per page would show, the smallest that matters"
        in (planned["A/B test"].about)
    )
    for name in ("A/B test", "interleaving test"):
        assert pages_of(planned[name]) < pages_of(plain[name])
    # the margin in units of credit is the difference there of rankers that differ so much in clicks
    assert 4 * pages_of(planned["interleaving test"]) < pages_of(planned["A/B test"])


def test_the_margin_in_credit_is_about_that_of_rankers_that_differ_by_it() -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.2)
    pair = a_pair(clicks, new, old, ClickMeasure("Clicks", 3))
    by = {"measure": ClickMeasure("Clicks", 3)}
    plain = settled(clicks, new, old, pair, **by)  # type: ignore[arg-type]
    planned = settled(clicks, new, old, pair, margin=pair.gain.estimate * 1.0001, **by)  # type: ignore[arg-type]
    for name in plain:
        assert pages_of(planned[name]) == pytest.approx(pages_of(plain[name]), rel=0.25), name


def test_where_clicks_point_the_other_way_it_says_so() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.0)
    pair = replace(a_pair(clicks, new, old), higher_is_better=False)
    assert settled(clicks, new, old, pair)["A/B test"].about.endswith("shows, by which new would be ahead")


def test_where_every_position_is_examined_alike_only_interleaving_tells() -> None:
    world = replace(KnownWorld.draw(queries=50, candidates=3, seed=4), eta=0.0)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.0)
    ways = settled(clicks, new, old, a_pair(clicks, new, old))
    assert (ways["A/B test"].pages or 10**9) >= 10**9  # but for rounding, both bring the same clicks
    assert pages_of(ways["interleaving test"]) < 10**9


def test_pages_of_one_result_have_no_curve_to_learn() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4, depth=1)
    clicks, measure = world.estimator(), ClickMeasure("DCG", 1)
    new, old = orders_of(world, clicks.log)
    pair = a_pair(clicks, new, old, measure)
    ways = settled(clicks, new, old, pair, measure=measure, decision="cannot tell")
    assert "swap experiment" not in ways


def test_a_log_without_clicks_plans_nothing() -> None:
    world = replace(KnownWorld.draw(queries=50, candidates=3, seed=4), relevance=np.zeros((50, 3)))
    clicks = world.estimator()
    new = ScoreOrder.of("new", np.random.default_rng(0).random(150), clicks.log)
    ways = settled(
        clicks, new, LoggedOrder(clicks.log), a_pair(clicks, new, LoggedOrder(clicks.log)), decision="cannot tell"
    )
    assert {way.pages for way in ways.values()} == {None}


def test_two_equal_orders_need_no_test() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4)
    clicks = world.estimator()
    new, _ = orders_of(world, clicks.log)
    assert settled(clicks, new, new, a_pair(clicks, new, new)) == {}


# -- more of the log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [0.0, 3.0])
def test_a_log_longer_by_the_planned_pages_decides_in_80_percent(times: float) -> None:
    world = KnownWorld.draw(queries=20_000, candidates=3, seed=5)
    exact = world.estimator()
    new, old = orders_of(world, exact.log, noise=1.5)
    truth, queries, each = exact.difference(DCG, new, old).value, 200, 3
    margin, random = times * truth, np.random.default_rng(6)
    short = [_drawn(world, new.ranks, queries, each, random) for _ in range(20)]
    error = float(np.sqrt(np.mean([clicks.compare(DCG, *both).errors.queries ** 2 for clicks, *both in short])))
    clicks, one, other = short[0]
    pair = a_pair(clicks, one, other)
    wide = Interval(truth, truth - 9, truth + 9, 0.9, queries)
    pair = replace(pair, difference=ClickEstimate(wide, wide, wide, Errors(error)))
    more = pages_of(settled(clicks, one, other, pair, margin=margin)["more of this log"])
    longer = queries + round(more / each)
    found = []
    for _ in range(300):
        clicks, one, other = _drawn(world, new.ranks, longer, each, random)
        found.append(clicks.compare(DCG, one, other).interval)
    right = {"better", "no difference"} if margin else {"better"}
    assert np.mean([decide(gain, margin) in right for gain in found]) == pytest.approx(0.8, abs=0.06)


def _drawn(
    world: KnownWorld, ranks: NDArray[np.int64], queries: int, each: int, random: np.random.Generator
) -> tuple[ClickEstimator, ScoreOrder, LoggedOrder]:
    chosen = random.choice(len(world.relevance), queries, replace=False)
    clicks = world.only(chosen, each).estimator(random)
    return clicks, ScoreOrder("new", ranks.reshape(-1, 3)[chosen].ravel()), LoggedOrder(clicks.log)


def test_a_curve_that_is_estimated_again_gets_surer_with_the_log() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log)
    gain = a_pair(clicks, new, old).gain.estimate
    errors = [
        Errors(0.9 * gain),
        Errors(0.9 * gain * 0.6, 0.9 * gain * 0.8),
        Errors(0.9 * gain * 0.6, 0, 0.9 * gain * 0.8),
    ]
    ways = [settled(clicks, new, old, a_pair(clicks, new, old, errors=one))["more of this log"] for one in errors]
    assert [pages_of(way) for way in ways] == pytest.approx([pages_of(ways[0])] * 3, rel=1e-6)
    assert ["estimated again" in way.about for way in ways] == [False, True, False]
    quantiles = clicks.quantile + float(ndtri(0.8))
    assert pages_of(ways[0]) == pytest.approx(50_000_000 * ((0.9 * quantiles) ** 2 - 1), rel=1e-4)


# -- all of them --------------------------------------------------------------------------------------------------


def test_a_verdict_is_confirmed_online_and_by_the_unseen_it_rests_on() -> None:
    _, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).gain.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.1 * gain, 0.1 * gain))
    assert set(settled(clicks, new, old, pair)) == {"A/B test", "interleaving test", "trial of unseen results"}
    sure = ClickVerdict("better", 0.0, "", depends_on_unseen=False)
    ways = ways_to_settle(clicks, DCG, new, old, pair, look_at_unseen(clicks, DCG, new, old), sure)
    assert [way.name for way in ways] == ["interleaving test", "A/B test"]
    assert say_way(ways[0], "confirm").endswith("would confirm it.")


def test_measures_where_less_is_better_are_planned_alike() -> None:
    world = KnownWorld.draw(queries=300, candidates=3, seed=9)
    clicks, measure = world.estimator(), ClickMeasure("ARP")
    new, old = orders_of(world, clicks.log)
    gain = a_pair(clicks, new, old, measure).gain.estimate
    assert gain > 0
    pair = a_pair(clicks, new, old, measure, Errors(0.8 * gain))
    ways = settled(clicks, new, old, pair, measure=measure)
    by_dcg = settled(clicks, new, old, a_pair(clicks, new, old, errors=Errors(0.8)), measure=DCG)
    assert ways["A/B test"] == by_dcg["A/B test"]
    assert ways["more of this log"].pages is not None


def test_sentences_have_two_digits() -> None:
    about = "half of the pages with each ranker"
    assert say_way(WayToSettle("A/B test", 98_765, about)) == "An A/B test of about 99,000 pages would settle it."
    assert say_way(WayToSettle("more of this log", 1234, "")) == "About 1,200 more of these pages would settle it."
    assert say_way(WayToSettle("swap experiment", None, "why")) == "A swap experiment would not settle it: why."


def test_without_unseen_there_is_no_trial() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log)
    pair = a_pair(clicks, new, old)
    nothing = Unseen(0, 0.0, None, None)
    verdict = ClickVerdict("better", 0.0, "", depends_on_unseen=False)
    names = {way.name for way in ways_to_settle(clicks, DCG, new, old, pair, nothing, verdict)}
    assert names == {"A/B test", "interleaving test"}


def test_a_comparison_by_clicks_says_what_would_settle_it() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((200 * 8, 2))
    labels = np.where(features[:, 0] + random.standard_normal(1600) > 1, 4, 0)
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(200), 8), labels, synthetic=True)
    scores = features[:, 0] + random.standard_normal(1600)
    clicks = Simulation(data, scores=scores, model=PositionBased(eta=1, noise=0.1), depth=4).draw(300, seed=0)
    judge = ClickJudge.of(data, clicks, cr.Propensities.power(1, 4))
    found = judge.compare(features[:, 0] + 0.5 * scores, "production", quick=True, trust_propensity=True)
    assert found.settling
    assert (
        found.settling
        == judge.compare(features[:, 0] + 0.5 * scores, "production", quick=True, trust_propensity=True).settling
    )
    assert {"A/B test", "interleaving test"} <= {way.name for way in found.settling}
