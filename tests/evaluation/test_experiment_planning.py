from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from exact_log import KnownWorld
from numpy.typing import NDArray
from scipy.special import ndtri
from settled_cases import DCG, a_pair, known_model, orders_of, pages_of, settled, unseen_world

from cldrank import Propensities, RankingDataset
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation, TopK
from cldrank.evaluation.decision_rule import ClickVerdict, decide
from cldrank.evaluation.experiment_planning import (
    ONLINE_CONFIDENCE,
    expected_credit,
    say_way,
    team_draft,
    usual_pages,
    ways_to_settle,
)
from cldrank.evaluation.exposure import LoggedClicks, LoggedOrder, ScoreOrder
from cldrank.evaluation.intervals import ClickEstimate, ClickEstimator, Errors
from cldrank.measures import Interval
from cldrank.measures.confidence_sequences import every_look_quantile

# -- tests with people --------------------------------------------------------------------------------------------


def test_an_a_b_test_of_the_planned_pages_shows_the_difference_in_80_percent() -> None:
    world = KnownWorld.draw(queries=200, candidates=3, seed=0)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log)
    pages = pages_of(settled(clicks, new, old, a_pair(clicks, new, old))["A/B test"])
    random, n = np.random.default_rng(2), pages // 2
    looks = np.arange(1, 21) * n // 20
    reach = np.array([every_look_quantile(float(look), n, ONLINE_CONFIDENCE) for look in looks])
    decided = []
    for _ in range(600):
        counts = [_clicks_on(world, ranks, n, random) for ranks in (new.ranks, np.tile([1, 2, 3], 200))]
        means = [one.cumsum()[looks - 1] / looks for one in counts]
        error = np.sqrt(sum(one.var() for one in counts) / looks)
        decided.append((means[0] - means[1] > reach * error).any())
    assert np.mean(decided) == pytest.approx(0.8, abs=0.05)


def _clicks_on(world: KnownWorld, ranks: NDArray[np.int64], n: int, random: np.random.Generator) -> NDArray[np.int64]:
    chances = world.relevance * world.curve.values[ranks.reshape(world.relevance.shape) - 1]
    drawn = chances[random.integers(len(chances), size=n)]
    counts: NDArray[np.int64] = (random.random(drawn.shape) < drawn).sum(axis=1)
    return counts


def test_below_the_margin_tests_are_planned_for_the_margin() -> None:
    world = KnownWorld.draw(queries=500, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.8)
    pair = a_pair(clicks, new, old)
    assert settled(clicks, new, new, a_pair(clicks, new, new)) == {}
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


def test_where_clicks_point_the_other_way_it_says_so() -> None:
    world = KnownWorld.draw(queries=50, candidates=3, seed=4)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.0)
    pair = a_pair(clicks, new, old)
    turned = Interval(-pair.interval.estimate, -pair.interval.high, -pair.interval.low, 0.9, 50)
    pair = replace(pair, difference=replace(pair.difference, interval=turned))
    assert settled(clicks, new, old, pair)["A/B test"].about.endswith("until new shows to be ahead")


def test_a_log_without_clicks_plans_nothing() -> None:
    world = replace(KnownWorld.draw(queries=50, candidates=3, seed=4), relevance=np.zeros((50, 3)))
    clicks = world.estimator()
    new = ScoreOrder.of("new", np.random.default_rng(0).random(150), clicks.log)
    ways = settled(
        clicks, new, LoggedOrder(clicks.log), a_pair(clicks, new, LoggedOrder(clicks.log)), decision="cannot tell"
    )
    assert {way.pages for way in ways.values()} == {None}


# -- more of the log ----------------------------------------------------------------------------------------------


def test_a_log_longer_by_the_planned_pages_decides_in_80_percent() -> None:
    world = KnownWorld.draw(queries=20_000, candidates=3, seed=5)
    exact = world.estimator()
    new, old = orders_of(world, exact.log, noise=1.5)
    truth, queries, each = exact.value(DCG, new, old).value, 200, 3
    random = np.random.default_rng(6)
    short = [_drawn(world, new.ranks, queries, each, random) for _ in range(20)]
    error = float(np.sqrt(np.mean([clicks.estimate(DCG, *both).errors.queries ** 2 for clicks, *both in short])))
    clicks, one, other = short[0]
    pair = a_pair(clicks, one, other)
    wide = Interval(truth, truth - 9, truth + 9, 0.9, queries)
    pair = replace(pair, difference=ClickEstimate(wide, wide, wide, Errors(error)))
    more = pages_of(settled(clicks, one, other, pair)["more of this log"])
    longer = queries + round(more / each)
    found = []
    for _ in range(300):
        clicks, one, other = _drawn(world, new.ranks, longer, each, random)
        found.append(clicks.estimate(DCG, one, other).interval)
    assert np.mean([decide(gain, 0.0) == "better" for gain in found]) == pytest.approx(0.8, abs=0.06)


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


# -- the unseen ---------------------------------------------------------------------------------------------------


def test_the_unseen_stay_unseen_in_more_of_the_log() -> None:
    _, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).interval.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.01 * gain, extrapolation=1.1 * gain))
    more = settled(clicks, new, old, pair)["more of this log"]
    assert (more.pages, more.about) == (None, "what never-shown results are worth stays unknown")
    assert say_way(more) == f"More of this log would not settle it: {more.about}."
    allowed = 1 / (clicks.quantile + float(ndtri(0.8)))  # of the gain, for all errors together
    pair = a_pair(clicks, new, old, errors=Errors(0.6 * gain, extrapolation=0.6 * allowed * gain))
    without = a_pair(clicks, new, old, errors=Errors(0.6 / 0.8 * gain))
    found = [pages_of(settled(clicks, new, old, each)["more of this log"]) for each in (pair, without)]
    assert found[0] == found[1]  # 0.8² of what is allowed is left for the errors that shrink


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


def test_what_never_shown_results_are_worth_leaves_a_range_of_pages() -> None:
    _, clicks, new, old = unseen_world()
    assert clicks.model is not None
    pair, seen = a_pair(clicks, new, old), clicks.log.seen
    sure = settled(clicks, new, old, pair, decision="cannot tell")
    assert not any("never-shown" in sure[name].about for name in ("A/B test", "interleaving test"))
    for share, words in ((0.2, " to "), (5.0, " or more")):
        model = replace(clicks.model, spread=np.where(seen, 0.0, share * clicks.model.predicted))
        doubtful = settled(replace(clicks, model=model), new, old, pair, decision="cannot tell")
        plans = [
            settled(replace(clicks, model=known_model(np.where(seen, 1, 1 + sign * share) * clicks.model.predicted)),
                    new, old, pair, decision="cannot tell")
            for sign in (1, -1)
        ]  # fmt: skip
        for name in ("A/B test", "interleaving test"):
            way = doubtful[name]
            assert way.pages == sure[name].pages
            assert words in way.about
            fewest, *_ = way.about.rpartition("; ")[2].split(words)
            assert int(fewest.replace(",", "")) == pytest.approx(pages_of(plans[0][name]), rel=0.25)


def test_pages_that_vary_are_planned_as_they_usually_are() -> None:
    random, queries = np.random.default_rng(3), np.arange(300) // 6
    labels, scores, better = random.integers(0, 2, 300), random.random(300), random.random(300)
    data = RankingDataset.from_arrays(scores[:, None], queries, labels=labels)
    better += labels * 0.2
    plans = []
    for policy in (TopK(), NeighbourSwaps(1.0)):
        cells = Simulation(data, scores, PositionBased(1.0, 0.1), policy, depth=3, relevant_from=1).draw(1e6, seed=1)
        log = LoggedClicks(data, cells, Propensities.power(1.0, 3))
        clicks = ClickEstimator(log, known_model(np.where(labels == 1, 1.0, 0.1)))
        orders = ScoreOrder.of("new", better, log), LoggedOrder(log)
        plans.append(settled(clicks, *orders, a_pair(clicks, *orders), decision="cannot tell"))
    for name in ("A/B test", "interleaving test"):
        assert pages_of(plans[0][name]) == pytest.approx(pages_of(plans[1][name]), rel=0.1)


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


def test_production_is_drafted_by_where_it_shows_results() -> None:
    log = KnownWorld.draw(queries=4, candidates=5, seed=0).log()
    pages = usual_pages(LoggedOrder(log), log)
    assert pages.tolist() == [[5 * query, 5 * query + 1, 5 * query + 2] for query in range(4)]


@pytest.mark.parametrize("depth", [2, 4])
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
                agreed = page[:place] == orders[0][:place] == orders[1][:place]
                credit += 0 if agreed else click if ours else -click
            mean, square = mean + chance * credit, square + chance * credit**2
    found = expected_credit(log, (usual_pages(new, log), usual_pages(old, log)), relevance)
    assert found[:2] == pytest.approx((mean, square - mean**2), abs=1e-12)
