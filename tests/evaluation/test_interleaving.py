from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from exact_log import KnownWorld
from numpy.typing import NDArray
from scipy.special import ndtri

from cldrank.evaluation.interleaving import expected_credit, sampled_queries, team_draft, usual_pages
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.orders import LoggedOrder, ScoreOrder
from cldrank.evaluation.power import pages_to_show


def drafted(new: list[int], old: list[int], coins: list[bool], k: int) -> tuple[list[int], list[bool]]:
    """As the paper has it: who has fewer picks; on a draw, a coin."""
    page: list[int] = []
    teams: list[bool] = []
    tosses = iter(coins)
    while len(page) < min(k, len(new)):
        ours, theirs = teams.count(True), teams.count(False)
        new_picks = ours < theirs or (ours == theirs and next(tosses))
        page.append(next(row for row in (new if new_picks else old) if row not in page))
        teams.append(new_picks)
    return page, teams


def both_orders(world: KnownWorld, seed: int) -> tuple[LoggedClicks, ScoreOrder, ScoreOrder]:
    """A noisy order of relevance, and a noisier one."""
    random, log = np.random.default_rng(seed), world.log()
    noise = random.standard_normal((2, log.data.n_rows))
    scores = [world.relevance.ravel() + noise[0] * 0.15, world.relevance.ravel() + noise[1] * 0.3]
    return log, ScoreOrder.of("new", scores[0], log), ScoreOrder.of("old", scores[1], log)


def test_a_team_draft_is_that_of_the_paper() -> None:
    random = np.random.default_rng(0)
    for k, size in product((1, 2, 3, 4, 5), (1, 2, 3, 4, 6)):
        coins = np.array(list(product([False, True], repeat=(k + 1) // 2)))
        new, old = random.permutation(size), random.permutation(size)
        tables = [np.tile(np.append(one, [-1] * k)[:k], (len(coins), 1)) for one in (new, old)]
        pages, ours = team_draft(tables[0], tables[1], coins)
        for page, teams, tosses in zip(pages, ours, coins, strict=True):
            expected = drafted(new.tolist(), old.tolist(), tosses.tolist(), k)
            length = min(k, size)
            assert (page[:length].tolist(), teams[:length].tolist()) == expected
            assert (page[length:] == -1).all()


def test_queries_are_drafted_each_for_itself() -> None:
    new, old = np.array([[0, 1, 2], [3, 4, -1]]), np.array([[2, 1, 0], [4, 3, -1]])
    pages, ours = team_draft(new, old, np.array([[True, False], [False, True]]))
    assert pages.tolist() == [[0, 2, 1], [4, 3, -1]]
    assert ours[:, :2].tolist() == [[True, False], [False, True]]


def test_production_is_drafted_by_mean_position() -> None:
    log = KnownWorld.draw(queries=4, candidates=5, seed=0).log()
    pages = usual_pages(LoggedOrder(log), log, np.arange(4))
    assert pages.tolist() == [[5 * query, 5 * query + 1, 5 * query + 2] for query in range(4)]


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_credit_is_that_of_all_pages_and_all_clicks(depth: int) -> None:
    world = KnownWorld.draw(queries=6, candidates=5, seed=1, depth=depth)
    log, new, old = both_orders(world, seed=2)
    relevance = world.relevance.ravel()
    mean = square = 0.0
    coins = list(product([False, True], repeat=(depth + 1) // 2))
    for query, tosses in product(range(6), coins):
        rows = np.arange(5 * query, 5 * query + 5)
        orders = [rows[np.argsort(order.ranks[rows])].tolist() for order in (new, old)]
        page, teams = drafted(orders[0], orders[1], list(tosses), depth)
        for clicks in product([0, 1], repeat=depth):
            chance, credit = 1 / 6 / len(coins), 0
            for place, (row, ours, click) in enumerate(zip(page, teams, clicks, strict=True), 1):
                p = relevance[row] / place
                chance *= p if click else 1 - p
                credit += click if ours else -click
            mean, square = mean + chance * credit, square + chance * credit**2
    found = expected_credit(log, new, old, relevance, seed=0)
    assert found is not None
    assert (found.mean, found.variance) == pytest.approx((mean, square - mean**2), abs=1e-12)


def test_pages_too_long_for_all_coins_are_drafted_with_some() -> None:
    world = KnownWorld.draw(queries=300, candidates=16, seed=3, depth=12)
    log, new, old = both_orders(world, seed=4)
    coins = np.array(list(product([False, True], repeat=6)))
    tables = [np.repeat(usual_pages(order, log, np.arange(300)), len(coins), axis=0) for order in (new, old)]
    pages, ours = team_draft(tables[0], tables[1], np.tile(coins, (300, 1)))
    chances = world.relevance.ravel()[pages] * world.curve.values
    mean = (np.where(ours, 1, -1) * chances).sum(axis=1).mean()
    found = expected_credit(log, new, old, world.relevance.ravel(), seed=0)
    assert found is not None
    assert found.mean == pytest.approx(mean, rel=0.03)
    assert found == expected_credit(log, new, old, world.relevance.ravel(), seed=0)


def test_noise_of_relevance_averages_out() -> None:
    world = KnownWorld.draw(queries=20_000, candidates=3, seed=5)
    log, new, old = both_orders(world, seed=6)
    noisy = world.only(np.arange(20_000), pages=2).estimator(np.random.default_rng(7)).relevance
    exact, found = (expected_credit(log, new, old, one, seed=0) for one in (world.relevance.ravel(), noisy))
    assert exact is not None
    assert found is not None
    assert noisy.max() > 2  # far beyond what a chance can be
    assert found.mean == pytest.approx(exact.mean, rel=0.15)
    assert found.variance == pytest.approx(exact.variance, rel=0.03)


def test_equal_orders_need_no_test() -> None:
    log, new, _ = both_orders(KnownWorld.draw(5, 4, seed=0), seed=0)
    assert expected_credit(log, new, new, np.full(20, 0.5), seed=0) is None


def test_the_pages_computed_show_the_preference_in_80_percent_of_tests() -> None:
    world = KnownWorld.draw(queries=200, candidates=6, seed=8, depth=4)
    log, new, old = both_orders(world, seed=9)
    credit = expected_credit(log, new, old, world.relevance.ravel(), seed=0)
    assert credit is not None
    pages = pages_to_show(credit.mean, credit.variance, confidence=0.9)
    assert pages is not None
    random = np.random.default_rng(10)
    shown = [_interleave(world, log, new, old, pages, random) for _ in range(600)]
    z = float(ndtri(0.95))
    decided = np.mean([one.mean() > z * one.std() / np.sqrt(pages) for one in shown])
    assert decided == pytest.approx(0.8, abs=0.05)


def _interleave(
    world: KnownWorld, log: LoggedClicks, new: ScoreOrder, old: ScoreOrder, pages: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Run the test itself: the credit of each page."""
    queries = random.integers(len(world.relevance), size=pages)
    tables = [usual_pages(order, log, np.arange(len(world.relevance)))[queries] for order in (new, old)]
    rows, ours = team_draft(tables[0], tables[1], random.random((pages, 2)) < 0.5)
    clicked = random.random(rows.shape) < world.relevance.ravel()[rows] * world.curve.values
    credit: NDArray[np.int64] = (np.where(ours, 1, -1) * clicked).sum(axis=1)
    return credit


def test_of_many_queries_pages_are_drawn() -> None:
    world = KnownWorld.draw(queries=40, candidates=3, seed=0)
    log = world.log()
    queries, share = sampled_queries(log, seed=0)
    assert queries.tolist() == list(range(40))
    assert share == pytest.approx(np.full(40, 1 / 40))
    queries, share = sampled_queries(log, seed=0, most=30)
    assert len(queries) == 30
    assert share == pytest.approx(np.full(30, 1 / 30))
