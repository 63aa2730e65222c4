from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from simulated_clicks import SimulatedClicks, simulated

import cldrank as cr
from cldrank.clicks.simulate import ShuffledShare
from cldrank.clicks.table import ClickTable
from cldrank.errors import UsageError
from cldrank.evaluation.click_measures import ClickMeasure, IdealOrder, default_measures, parse_click_measures
from cldrank.evaluation.exposure import LoggedClicks, order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.off_policy import Affine
from cldrank.measures import parse
from cldrank.propensity import AffineClicks, Propensities

CURVE = AffineClicks(np.array([0.9, 0.6, 0.3]), np.array([0.2, 0.1, 0.05]))


def test_discounts_by_formula() -> None:
    assert ClickMeasure("DCG", 2).discounts(4, CURVE) == pytest.approx([1, 1 / math.log2(3), 0, 0])
    assert ClickMeasure("nDCG", 9).discounts(3, CURVE) == pytest.approx([1 / math.log2(rank + 1) for rank in (1, 2, 3)])
    assert ClickMeasure("DCG").discounts(3, CURVE)[2] == pytest.approx(0.5)
    assert ClickMeasure("ARP").discounts(4, CURVE).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("cutoff", "longest", "slope", "base"),
    [
        (2, 4, [0.9, 0.6, 0, 0], [0.2, 0.1, 0, 0]),
        (3, 2, [0.9, 0.6], [0.2, 0.1]),
        (None, 5, [0.9, 0.6, 0.3, 0, 0], [0.2, 0.1, 0.05, 0, 0]),
        (5, 5, [0.9, 0.6, 0.3, 0, 0], [0.2, 0.1, 0.05, 0, 0]),
    ],
)
def test_clicks_have_the_slopes_and_bases_of_the_curve(
    cutoff: int | None, longest: int, slope: list[float], base: list[float]
) -> None:
    measure = ClickMeasure("Clicks", cutoff)
    assert measure.discounts(longest, CURVE).tolist() == slope
    assert measure.bases(longest, CURVE).tolist() == base


def test_only_clicks_have_bases_and_only_ranks_are_better_when_low() -> None:
    for measure in default_measures(3):
        assert measure.bases(3, CURVE).any() == (measure.kind == "Clicks")
        assert measure.higher_is_better == (measure.kind != "ARP")
    assert [str(one) for one in default_measures(3)] == ["DCG@3", "nDCG@3", "ARP", "Clicks@3"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("ndcg@3, clicks", ["nDCG@3", "Clicks@5"]),
        ("DCG nDCG;ARP", ["DCG@5", "nDCG@5", "ARP"]),
        (["dcg@2 CLICKS@1", "DCG@2"], ["DCG@2", "Clicks@1"]),
        (parse("nDCG@3"), ["nDCG@3"]),
        (ClickMeasure("Clicks", 4), ["Clicks@4"]),
        (iter(["ARP", ClickMeasure("ARP")]), ["ARP"]),
    ],
)
def test_names(given: Any, names: list[str]) -> None:
    assert [str(one) for one in parse_click_measures(given, 5)] == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("AP", "AP cannot be estimated from clicks; DCG@k, nDCG@k, ARP and Clicks@k can. For AP, labels are needed"),
        ("nDCG(gain=linear)@3", r"nDCG\(gain=linear\)@3 cannot be estimated"),
        ("Clicks@6", "Clicks@6: the log says nothing of positions beyond 5; choose a cutoff from 1 to 5"),
        ("nDCG@10", "nDCG@10: the log says nothing of positions beyond 5"),
        ("Clicks@0", "`cutoff` must be a whole number of at least 1, not 0"),
        ("nDGC@3", "no measure"),
        ("", "no measure is named"),
        ([], "no measure is named"),
        (5, "5 is not a measure"),
        ([None], "None is not a measure"),
    ],
)
def test_refusals(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_click_measures(given, 5)


def test_a_measure_is_one_of_four() -> None:
    with pytest.raises(UsageError, match="`kind` must be"):
        ClickMeasure("dcg", 3)
    with pytest.raises(UsageError, match="`cutoff` must be"):
        ClickMeasure("DCG", 0)


Floats = np.ndarray[Any, np.dtype[np.float64]]
QUERIES = 40


def sure_log(curve: Propensities | AffineClicks, ragged: bool = False) -> tuple[LoggedClicks, Floats]:
    """Three results on every page, seen so often that their relevance, 0.2 or 0.8, is certain; a fourth never was."""
    affine = curve if isinstance(curve, AffineClicks) else AffineClicks.from_propensities(curve)
    random = np.random.default_rng(0)
    relevance = random.choice([0.2, 0.8], size=4 * QUERIES)
    data = cr.RankingDataset.from_arrays(np.zeros((4 * QUERIES, 1)), np.repeat(np.arange(QUERIES), 4))
    place = np.tile(np.arange(4), QUERIES)
    shown = np.array([10**6, 10**6, 5 * 10**5 if ragged else 10**6, 0])[place]
    chance = np.append(affine.slope, 1)[place] * relevance + np.append(affine.base, 0)[place]
    clicks = np.rint(shown * chance).astype(int)
    table = ClickTable.from_arrays(data, position=np.where(place < 3, place + 1, 0), impressions=shown, clicks=clicks)
    return LoggedClicks(data, table, curve), relevance


def best(relevance: Floats, k: int, reach: tuple[float, ...] = (1, 1, 1, 0)) -> list[float]:
    """The DCG of the best of all orders of each query."""
    found = []
    for query in relevance.reshape(-1, 4):
        values = [
            sum(
                one * part / math.log2(at + 2)
                for at, (one, part) in enumerate(zip(order, reach, strict=True))
                if at < k
            )
            for order in permutations(query)
        ]
        found.append(max(values))
    return found


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(
    "curve", [Propensities.power(1, 3), AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))]
)
def test_where_relevance_is_certain_it_is_the_best_of_all_orders(curve: Any, k: int) -> None:
    log, relevance = sure_log(curve)
    known = np.where(log.seen, relevance, 0.0)
    ideal = IdealOrder(log, np.zeros(len(relevance)), k)
    assert ideal.expected == pytest.approx(best(np.where(log.seen, known, 0.2), k), abs=0.05)
    assert ideal.correction(np.ones(len(relevance))) == pytest.approx(1, abs=0.01)


def test_what_was_not_shown_counts_as_the_model_says() -> None:
    log, relevance = sure_log(Propensities.power(1, 3))
    none, low, high = (
        IdealOrder(log, None if level is None else np.full(len(relevance), level), 3).expected
        for level in (None, 0.2, 0.8)
    )
    assert none == pytest.approx(low, abs=0.05)
    assert low == pytest.approx(best(np.where(log.seen, relevance, 0.2), 3), abs=0.05)
    assert high == pytest.approx(best(np.where(log.seen, relevance, 0.8), 3), abs=0.05)
    middle = IdealOrder(log, np.full(len(relevance), 0.5), 3).expected
    assert middle.mean() == pytest.approx((low.mean() + high.mean()) / 2, rel=0.03)


def test_few_relevant_results_among_many_unseen_make_the_ideal() -> None:
    random = np.random.default_rng(0)
    queries, size, shown, few = (
        300,
        60,
        3,
        0.04,
    )  # one in 25 is relevant: less than the tenth that a quantile leaves out
    relevance = np.where(random.random(queries * size) < few, 1.0, 0.1)
    data = cr.RankingDataset.from_arrays(np.zeros((len(relevance), 1)), np.repeat(np.arange(queries), size))
    place, rho = np.tile(np.arange(size), queries), Propensities.power(1, shown)
    impressions = np.where(place < shown, 500, 0)
    clicks = random.binomial(impressions, np.append(rho.values, np.zeros(size - shown))[place] * relevance)
    table = ClickTable.from_arrays(
        data, position=np.where(place < shown, place + 1, 0), impressions=impressions, clicks=clicks
    )
    log = LoggedClicks(data, table, rho)
    found = IdealOrder(log, np.full(len(relevance), few + (1 - few) * 0.1), 3).expected.mean()
    discounts = 1 / np.log2(np.arange(2, 5))
    truth = (np.sort(relevance.reshape(queries, size), axis=1)[:, ::-1][:, :3] @ discounts).mean()
    assert found == pytest.approx(truth, rel=0.1)


def test_pages_that_end_early_have_a_smaller_ideal() -> None:
    log, relevance = sure_log(Propensities.power(1, 3), ragged=True)
    found = IdealOrder(log, np.full(len(relevance), 0.2), 3).expected
    assert found == pytest.approx(best(np.where(log.seen, relevance, 0.2), 3, (1, 1, 0.5, 0)), abs=0.05)


def test_the_best_of_draws_is_better_than_the_best_of_means() -> None:
    world = simulated(queries=200, sessions=2000)  # ten pages a query: nothing is certain
    log = world.log
    found = IdealOrder(log, None, 4).expected.mean()
    means = np.where(log.seen, log.excess_clicks / np.maximum(log.exposure, 1e-9), 0.0)
    shrunk = 0.5 * means + 0.5 * means[log.seen].mean()
    best_of_means = np.sort(shrunk.reshape(-1, 8), axis=1)[:, ::-1][:, :4] @ (1 / np.log2(np.arange(2, 6)))
    assert found > best_of_means.mean()
    assert found < 1 / np.log2(np.arange(2, 6)) @ np.ones(4)


def test_the_correction_is_the_mean_of_ratios_over_that_with_the_expected_ideal() -> None:
    world = simulated(queries=200, sessions=2000)
    ideal = IdealOrder(world.log, None, 4)
    weights = world.log.row_pages * (np.arange(1600) % 8 < 2)
    found = ideal.correction(weights)
    assert abs(found - 1) > 0.001
    above, below = [], []
    for relevance, best_dcg in ideal._draws():
        sums = (weights * relevance).reshape(-1, 8).sum(axis=1)
        above.append(sums / np.maximum(best_dcg, 0.05 * best_dcg.mean()))
        below.append(sums / ideal.expected)
    assert found == pytest.approx(np.sum(above) / np.sum(below))


def test_the_same_seed_draws_the_same() -> None:
    world = simulated(queries=30, sessions=300)
    one, again, other = (IdealOrder(world.log, None, 4, seed).expected for seed in (0, 0, 1))
    assert one.tolist() == again.tolist()
    assert one.tolist() != other.tolist()


def test_queries_in_which_nothing_is_clicked_have_an_ideal_above_zero() -> None:
    log, _ = sure_log(Propensities.power(1, 3))
    clicks = np.where(log.queries[log.clicks.row] < 10, 0, log.clicks.clicks)
    table = ClickTable.from_arrays(
        log.data,
        row=log.clicks.row,
        position=log.clicks.position,
        impressions=log.clicks.impressions,
        clicks=clicks,
    )
    found = IdealOrder(LoggedClicks(log.data, table, log.curve), None, 3).expected
    draws = found[10:].sum() / QUERIES  # the mean of all, before any is raised
    assert found[:10] == pytest.approx(0.05 * draws)
    assert found[10:].min() > found[0]


def true_ndcg(world: SimulatedClicks, scores: Floats, k: int) -> float:
    """With relevance as it is, over queries by their pages."""
    discounts = 1 / np.log2(np.arange(2, k + 2))
    relevance, pages = world.relevance.reshape(-1, 8), world.clicks.query_impressions
    order = np.argsort(-scores.reshape(-1, 8), axis=1)
    ranked = np.take_along_axis(relevance, order, axis=1)[:, :k] @ discounts
    ideal = np.sort(relevance, axis=1)[:, ::-1][:, :k] @ discounts
    return float(pages @ (ranked / ideal) / pages.sum())


@pytest.mark.parametrize("sessions", [4000, 100_000])
def test_ndcg_of_a_log_that_shows_everything_is_near_the_truth(sessions: float) -> None:
    world = simulated(queries=150, sessions=sessions, depth=8, policy=ShuffledShare(1.0, "candidates"))
    clicks = ClickEstimator(world.log, Affine())
    for scores in (world.good, world.bad):
        found = clicks.value(ClickMeasure("nDCG", 4), order_of(scores, world.log)).value
        assert found == pytest.approx(true_ndcg(world, scores, 4), abs=0.05)
