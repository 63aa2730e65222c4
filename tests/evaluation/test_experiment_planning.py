from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from exact_log import KnownWorld
from numpy.typing import NDArray
from scipy.special import ndtri
from settled_cases import DCG, Z, a_pair, known_model, orders_of, pages_of, settled, unseen_world

import cldrank as cr
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import WayToSettle
from cldrank.evaluation.decision_rule import ClickVerdict, decide
from cldrank.evaluation.experiment_planning import (
    expected_credit,
    pages_to_show,
    say_way,
    team_draft,
    usual_pages,
    ways_to_settle,
)
from cldrank.evaluation.exposure import LoggedClicks, LoggedOrder, ScoreOrder
from cldrank.evaluation.intervals import ClickEstimate, ClickEstimator, Errors
from cldrank.evaluation.judge import ClickJudge
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
    margin = 3 * pair.interval.estimate
    plain, planned = (settled(clicks, new, old, pair, margin=one) for one in (0.0, margin))
    assert planned["A/B test"].about.endswith("until the smallest difference that matters would show")
    for name in ("A/B test", "interleaving test"):
        assert pages_of(planned[name]) < pages_of(plain[name])
    # the margin in units of credit is the difference there of rankers that differ so much in clicks
    assert 4 * pages_of(planned["interleaving test"]) < pages_of(planned["A/B test"])


def test_a_test_is_sized_for_the_estimate_and_for_the_smallest_difference_that_matters() -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.2)
    pair = a_pair(clicks, new, old)
    plain, planned = (settled(clicks, new, old, pair, margin=times * pair.interval.estimate) for times in (0.0, 0.1))
    for name in ("A/B test", "interleaving test"):
        assert planned[name].pages == plain[name].pages
        assert plain[name].pages_at_margin is None
        assert (planned[name].pages_at_margin or 0) > 20 * pages_of(planned[name])
        assert "if the difference is as estimated, of about" in say_way(planned[name])
        assert say_way(planned[name]).endswith("if it is the smallest that matters.")


def test_the_margin_in_credit_is_about_that_of_rankers_that_differ_by_it() -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.2)
    pair = a_pair(clicks, new, old, ClickMeasure("Clicks", 3))
    by = {"measure": ClickMeasure("Clicks", 3)}
    plain = settled(clicks, new, old, pair, **by)  # type: ignore[arg-type]
    planned = settled(clicks, new, old, pair, margin=pair.interval.estimate * 1.0001, **by)  # type: ignore[arg-type]
    for name in plain:
        assert pages_of(planned[name]) == pytest.approx(pages_of(plain[name]), rel=0.25), name


def test_where_clicks_point_the_other_way_it_says_so() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.0)
    pair = a_pair(clicks, new, old)
    turned = Interval(-pair.interval.estimate, -pair.interval.high, -pair.interval.low, 0.9, 50)
    pair = replace(pair, difference=replace(pair.difference, interval=turned))
    assert settled(clicks, new, old, pair)["A/B test"].about.endswith("until new shows to be ahead")


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
    truth, queries, each = exact.value(DCG, new, old).value, 200, 3
    margin, random = times * truth, np.random.default_rng(6)
    short = [_drawn(world, new.ranks, queries, each, random) for _ in range(20)]
    error = float(np.sqrt(np.mean([clicks.estimate(DCG, *both).errors.queries ** 2 for clicks, *both in short])))
    clicks, one, other = short[0]
    pair = a_pair(clicks, one, other)
    wide = Interval(truth, truth - 9, truth + 9, 0.9, queries)
    pair = replace(pair, difference=ClickEstimate(wide, wide, wide, Errors(error)))
    more = pages_of(settled(clicks, one, other, pair, margin=margin)["more of this log"])
    longer = queries + round(more / each)
    found = []
    for _ in range(300):
        clicks, one, other = _drawn(world, new.ranks, longer, each, random)
        found.append(clicks.estimate(DCG, one, other).interval)
    right = {"better", "no difference"} if margin else {"better"}
    share = np.mean([decide(gain, margin) in right for gain in found])
    assert 0.74 < share < (1.0 if margin else 0.86)


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
    gain = a_pair(clicks, new, old).interval.estimate
    errors = [
        Errors(0.9 * gain),
        Errors(0.9 * gain * 0.6, 0.9 * gain * 0.8),
        Errors(0.9 * gain * 0.6, 0, 0.9 * gain * 0.8),
    ]
    ways = [settled(clicks, new, old, a_pair(clicks, new, old, errors=one))["more of this log"] for one in errors]
    assert [pages_of(way) for way in ways] == pytest.approx([pages_of(ways[0])] * 3, rel=1e-6)
    assert ["estimated again" in way.about for way in ways] == [False, True, False]
    quantiles = clicks.quantile + float(ndtri(0.8))
    assert pages_of(ways[0]) == pytest.approx(50_000_000 * ((0.9 * quantiles) ** 2 - 1), rel=0.05)


# -- all of them --------------------------------------------------------------------------------------------------


def test_a_verdict_is_confirmed_online() -> None:
    _, clicks, new, old = unseen_world()
    pair = a_pair(clicks, new, old)
    sure = ClickVerdict("better", 0.0, "", depends_on_never_shown=False)
    ways = ways_to_settle(clicks, DCG, new, old, pair, sure)
    assert [way.name for way in ways] == ["interleaving test", "A/B test"]
    assert say_way(ways[0], "confirm").endswith("would confirm it.")


def test_sentences_have_two_digits() -> None:
    about = "half of the pages with each ranker"
    assert say_way(WayToSettle("A/B test", 98_765, about)) == "An A/B test of about 99,000 pages would settle it."
    assert say_way(WayToSettle("more of this log", 1234, "")) == "About 1,200 more of these pages would settle it."
    assert say_way(WayToSettle("swap experiment", None, "why")) == "A swap experiment would not settle it: why."


def test_a_comparison_by_clicks_says_what_would_settle_it() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((200 * 8, 2))
    labels = np.where(features[:, 0] + random.standard_normal(1600) > 1, 4, 0)
    data = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(200), 8), labels, synthetic=True)
    scores = features[:, 0] + random.standard_normal(1600)
    clicks = Simulation(data, scores=scores, model=PositionBased(eta=1, noise=0.1), depth=4).draw(300, seed=0)
    judge = ClickJudge.of(data, clicks, cr.Propensities.power(1, 4))
    found = judge.compare(features[:, 0] + 0.5 * scores, "production", trust_propensity=True)
    assert found.settling
    assert found.settling == judge.compare(features[:, 0] + 0.5 * scores, "production", trust_propensity=True).settling
    assert {"A/B test", "interleaving test"} <= {way.name for way in found.settling}


# -- the unseen ---------------------------------------------------------------------------------------------------


def test_the_unseen_stay_unseen_in_more_of_the_log() -> None:
    _, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).interval.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.01 * gain, extrapolation=1.1 * gain))
    more = settled(clicks, new, old, pair)["more of this log"]
    assert (more.pages, more.about) == (None, "what never-shown results are worth stays unknown")
    assert say_way(more) == "More of this log would not settle it: what never-shown results are worth stays unknown."
    pair = a_pair(clicks, new, old, errors=Errors(0.4 * gain, extrapolation=0.5 * gain))
    half = a_pair(clicks, new, old, errors=Errors(0.8 * gain))
    found = [pages_of(settled(clicks, new, old, one)["more of this log"]) for one in (pair, half)]
    assert found[0] == found[1]  # half of the gain is left, and the bias stays


def test_without_a_model_the_unseen_are_planned_as_results_at_the_lowest_position() -> None:
    _, clicks, new, old = unseen_world()
    guess = float(clicks.relevance.reshape(-1, 5)[:, 2].mean())
    assumed = np.where(clicks.log.seen, clicks.relevance, guess)
    model = known_model(assumed)
    found = [
        settled(one, new, old, a_pair(one, new, old), decision="cannot tell")
        for one in (replace(clicks, model=model), KnownWorld.draw(100, 5, seed=7).estimator())
    ]
    for name in ("A/B test", "interleaving test"):
        assert pages_of(found[0][name]) == pytest.approx(pages_of(found[1][name]), rel=1e-3)
    assert found[1]["more of this log"].about == "what never-shown results are worth stays unknown"


def drafted(new: list[int], old: list[int], new_first: bool, k: int) -> tuple[list[int], list[bool]]:
    """As the paper has it: who has fewer picks; on a draw, always the same."""
    page: list[int] = []
    teams: list[bool] = []
    while len(page) < min(k, len(new)):
        ours, theirs = teams.count(True), teams.count(False)
        new_picks = ours < theirs or (ours == theirs and new_first)
        page.append(next(row for row in (new if new_picks else old) if row not in page))
        teams.append(new_picks)
    return page, teams


def both_orders(world: KnownWorld, seed: int) -> tuple[LoggedClicks, ScoreOrder, ScoreOrder]:
    """A noisy order of relevance, and a noisier one."""
    random, log = np.random.default_rng(seed), world.log()
    noise = random.standard_normal((2, log.data.n_rows))
    scores = [world.relevance.ravel() + noise[0] * 0.15, world.relevance.ravel() + noise[1] * 0.3]
    return log, ScoreOrder.of("new", scores[0], log), ScoreOrder.of("old", scores[1], log)


@pytest.mark.parametrize("new_first", [True, False])
def test_a_draft_is_that_of_the_paper(new_first: bool) -> None:
    random = np.random.default_rng(0)
    for k, size in product((1, 2, 3, 4, 5), (1, 2, 3, 4, 6)):
        new, old = random.permutation(size), random.permutation(size)
        tables = [np.append(one, [-1] * k)[None, :k] for one in (new, old)]
        pages, ours = team_draft(tables[0], tables[1], new_first)
        page, teams = drafted(new.tolist(), old.tolist(), new_first, k)
        length = min(k, size)
        assert (pages[0, :length].tolist(), ours[:length].tolist()) == (page, teams)
        assert (pages[0, length:] == -1).all()


def test_queries_are_drafted_each_for_itself() -> None:
    new, old = np.array([[0, 1, 2], [3, 4, -1]]), np.array([[2, 1, 0], [4, 3, -1]])
    pages, ours = team_draft(new, old, new_first=True)
    assert pages.tolist() == [[0, 2, 1], [3, 4, -1]]
    assert ours.tolist() == [True, False, True]


def test_production_is_drafted_by_where_it_shows_results() -> None:
    log = KnownWorld.draw(queries=4, candidates=5, seed=0).log()
    pages = usual_pages(LoggedOrder(log), log)
    assert pages.tolist() == [[5 * query, 5 * query + 1, 5 * query + 2] for query in range(4)]


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_credit_is_that_of_both_drafts_and_all_clicks(depth: int) -> None:
    world = KnownWorld.draw(queries=6, candidates=5, seed=1, depth=depth)
    log, new, old = both_orders(world, seed=2)
    relevance = world.relevance.ravel()
    mean = square = 0.0
    for query, new_first in product(range(6), (True, False)):
        rows = np.arange(5 * query, 5 * query + 5)
        orders = [rows[np.argsort(order.ranks[rows])].tolist() for order in (new, old)]
        page, teams = drafted(orders[0], orders[1], new_first, depth)
        for clicks in product([0, 1], repeat=depth):
            chance, credit = 1 / 12, 0
            for place, (row, ours, click) in enumerate(zip(page, teams, clicks, strict=True), 1):
                p = relevance[row] / place
                chance *= p if click else 1 - p
                credit += click if ours else -click
            mean, square = mean + chance * credit, square + chance * credit**2
    found = expected_credit(log, new, old, relevance)
    assert found[:2] == pytest.approx((mean, square - mean**2), abs=1e-12)


def test_noise_of_relevance_averages_out() -> None:
    world = KnownWorld.draw(queries=20_000, candidates=3, seed=5)
    log, new, old = both_orders(world, seed=6)
    noisy = world.only(np.arange(20_000), pages=2).estimator(np.random.default_rng(7)).relevance
    exact, found = (expected_credit(log, new, old, one) for one in (world.relevance.ravel(), noisy))
    assert noisy.max() > 2  # far beyond what a chance can be
    assert found[0] == pytest.approx(exact[0], rel=0.15)
    assert found[1] == pytest.approx(exact[1], rel=0.03)


@pytest.mark.parametrize("candidates", [6, 12])
def test_the_pages_computed_show_the_preference_in_80_percent_of_tests(candidates: int) -> None:
    world = KnownWorld.draw(queries=200, candidates=candidates, seed=8, depth=4)
    log, new, old = both_orders(world, seed=9)
    mean, variance, _ = expected_credit(log, new, old, world.relevance.ravel())
    pages = pages_to_show(mean, variance, confidence=0.9)
    assert pages is not None
    random = np.random.default_rng(10)
    shown = [_interleave(world, log, new, old, pages, random) for _ in range(600)]
    z = float(ndtri(0.95))
    decided = np.mean([one.mean() > z * one.std() / np.sqrt(pages) for one in shown])
    assert decided == pytest.approx(0.8, abs=0.06)


def _interleave(
    world: KnownWorld, log: LoggedClicks, new: ScoreOrder, old: ScoreOrder, pages: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Run the test itself, with a coin for each round: the credit of each page."""
    tables = [usual_pages(order, log) for order in (new, old)]
    credit = []
    for query in random.integers(len(world.relevance), size=pages):
        orders = [table[query].tolist() for table in tables]
        page: list[int] = []
        teams: list[bool] = []
        while len(page) < world.depth:
            if len(page) % 2 == 0:
                first = bool(random.random() < 0.5)
            teams.append(first if len(page) % 2 == 0 else not first)
            page.append(next(row for row in orders[0 if teams[-1] else 1] if row not in page))
        clicked = random.random(len(page)) < world.relevance.ravel()[page] * world.curve.values
        credit.append(int((np.where(teams, 1, -1) * clicked).sum()))
    return np.array(credit)
