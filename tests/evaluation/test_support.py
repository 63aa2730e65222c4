from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from tiny_logs import Ranking, TinyLog, dcg, expected_clicks, forward, page_list, relevance_of, reverse

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import Support
from cldrank.evaluation.exposure import order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.relevance_model import HiddenCheck, RelevanceModel
from cldrank.evaluation.support import look_at_never_shown, look_at_support
from cldrank.propensity import Propensities

RHO = Propensities.power(1, 3)
DCG = ClickMeasure("DCG", 3)


def support(tiny: TinyLog, ranking: Ranking | None, k: int = 3) -> Support:
    log = tiny.log(RHO)
    new = order_of("production" if ranking is None else tiny.scores(ranking), log)
    return look_at_support(ClickEstimator(log), ClickMeasure("DCG", k), new, order_of("production", log))


def impression_weights(tiny: TinyLog, ranking: Ranking, k: int) -> list[float]:
    """One for each impression of a result that counts: the weight of the result over its exposure."""
    weights, exposure = dict.fromkeys(tiny.candidates, 0.0), dict.fromkeys(tiny.candidates, 0.0)
    for page in tiny.pages:
        for rank, one in enumerate(page_list(page, ranking)[:k], 1):
            weights[page.query, one] += 1 / math.log2(rank + 1) / len(tiny.pages)
        for place, one in enumerate(page.shown):
            exposure[page.query, one] += RHO.values[place]
    each = [weights[page.query, one] / exposure[page.query, one] for page in tiny.pages for one in page.shown]
    return [weight for weight in each if weight]


@pytest.mark.parametrize(("k", "ragged"), [(1, False), (2, True), (3, True)])
def test_effective_sample_size_impression_by_impression(k: int, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=24, queries=8, pages=150, ragged=ragged)
    each = impression_weights(tiny, reverse, k)
    found = support(tiny, reverse, k)
    assert found.effective == pytest.approx(sum(each) ** 2 / sum(weight**2 for weight in each))
    assert found.effective <= len(each)


@pytest.mark.parametrize(("k", "ragged"), [(1, False), (2, True), (3, True)])
def test_the_share_of_the_top_that_was_ever_shown(k: int, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed=24, ragged=ragged)
    places = [(page.query, one) for page in tiny.pages for one in page_list(page, reverse)[:k]]
    found = support(tiny, reverse, k)
    assert found.k == k
    assert found.shown == pytest.approx(sum(one in tiny.seen for one in places) / len(places))
    assert found.shown < 1
    assert found.shown_old == pytest.approx(1)


def test_counts_are_those_of_the_log() -> None:
    tiny = TinyLog.drawn(seed=25, ragged=True)
    found = support(tiny, reverse)
    assert (found.queries, found.pages) == (5, len(tiny.pages))
    assert found.impressions == sum(len(page.shown) for page in tiny.pages)
    assert found.clicks == sum(len(page.clicked) for page in tiny.pages)


def test_a_log_that_saw_nothing_of_the_top_says_so() -> None:
    tiny = TinyLog.drawn(seed=27)
    never = [one for one in range(5) if all((query, one) not in tiny.seen for query in range(5))]
    assert never == [4]
    found = support(tiny, lambda _: [4, 0, 1, 2, 3], k=1)
    assert (found.shown, found.effective) == (0, 0)


TINY = TinyLog.drawn(seed=22, queries=12, pages=90)
LOG = TINY.log(RHO)
GUESS = np.random.default_rng(5).random(60)
GROUPS = np.clip(GUESS + np.random.default_rng(6).normal(0, 0.05, (5, 60)), 0, 1)
APART = np.random.default_rng(7).normal(0, 0.05, 60)
MODEL = RelevanceModel(GUESS, 0.1 * GUESS, GROUPS, APART, HiddenCheck(0.2, 0.3, 0.02))
NEW, PRODUCTION = order_of(TINY.scores(reverse), LOG), order_of("production", LOG)


def lifted(old: Ranking | None) -> set[tuple[int, int]]:
    """Unseen results in the first three of the new order that the old one ranks lower, or not on the page."""
    found = set()
    for query, one in TINY.candidates:
        rank = list(reverse(query)).index(one)
        below = 99 if old is None else list(old(query)).index(one)
        if (query, one) not in TINY.seen and rank < 3 and rank < below:
            found.add((query, one))
    return found


@pytest.mark.parametrize("old", [None, forward])
def test_the_lifted_are_counted(old: Ranking | None) -> None:
    theirs = PRODUCTION if old is None else order_of(TINY.scores(old), LOG)
    found = look_at_never_shown(ClickEstimator(LOG, MODEL), DCG, NEW, theirs)
    expected = lifted(old)
    assert found.results == len(expected) > 5
    on_pages = sum(page.query == query for page in TINY.pages for query, _ in expected)
    assert found.per_page == pytest.approx(on_pages / len(TINY.pages))


def test_what_both_orders_show_alike_is_not_lifted() -> None:
    clicks = ClickEstimator(LOG, MODEL)
    found = look_at_never_shown(clicks, DCG, NEW, order_of(TINY.scores(reverse), LOG))
    assert (found.results, found.per_page, found.break_even, found.model) == (0, 0, None, None)
    alone: Any = look_at_never_shown(clicks, DCG, NEW, None)
    assert alone.results == len(lifted(None))
    assert alone.break_even is None
    assert alone.model is not None
    production = look_at_never_shown(clicks, DCG, PRODUCTION, NEW)
    assert (production.results, production.break_even) == (0, None)


@pytest.mark.parametrize("model", [None, MODEL])
@pytest.mark.parametrize(("kind", "cutoff"), [("DCG", 3), ("DCG", 2), ("Clicks", 3)])
def test_break_even_is_where_the_difference_is_zero(model: Any, kind: str, cutoff: int) -> None:
    found: Any = look_at_never_shown(ClickEstimator(LOG, model), ClickMeasure(kind, cutoff), NEW, PRODUCTION).break_even
    known = relevance_of(TINY, RHO.values.tolist(), [0] * 3)

    def difference(level: float) -> float:
        some = {one: known[one] if one in TINY.seen else level for one in TINY.candidates}
        if kind == "Clicks":
            values = [expected_clicks(TINY, by, some, RHO.values.tolist(), [0] * 3, 3) for by in (reverse, None)]
        else:
            values = [dcg(TINY, by, some, cutoff) for by in (reverse, None)]
        return values[0] - values[1]

    assert found.estimate == pytest.approx(brentq(difference, -50, 50))
    assert found.low < found.estimate < found.high


def test_break_even_has_the_error_of_what_is_known() -> None:
    clicks = ClickEstimator(LOG)
    found: Any = look_at_never_shown(clicks, DCG, NEW, PRODUCTION).break_even
    ones = {one: float(one not in TINY.seen) for one in TINY.candidates}
    total = dcg(TINY, reverse, ones, 3)
    known = clicks.estimate(DCG, NEW, PRODUCTION)
    assert (found.high - found.low) / 2 == pytest.approx(clicks.quantile * known.errors.queries / total)


def test_the_model_speaks_of_the_lifted_by_weight() -> None:
    clicks = ClickEstimator(LOG, MODEL)
    found: Any = look_at_never_shown(clicks, DCG, NEW, PRODUCTION)
    place = {one: at for at, one in enumerate(TINY.candidates)}
    pages = [sum(page.query == query for page in TINY.pages) for query in range(12)]
    weights = {
        (query, one): pages[query] / math.log2(list(reverse(query)).index(one) + 2) for query, one in lifted(None)
    }
    means = [
        sum(weight * some[place[one]] for one, weight in weights.items()) / sum(weights.values())
        for some in (GUESS, *GROUPS)
    ]
    assert found.model.estimate == pytest.approx(means[0])
    fit = math.sqrt(sum((mean - np.mean(means[1:])) ** 2 for mean in means[1:]))
    share = {one: weight / sum(weights.values()) for one, weight in weights.items()}
    queries = {one[0] for one in weights}
    without = []
    for query in queries:
        rest = {one: weight for one, weight in share.items() if one[0] != query}
        without.append(sum(weight * GUESS[place[one]] for one, weight in rest.items()) / sum(rest.values()))
    sampled = math.sqrt(11 / 12 * sum((mean - means[0]) ** 2 for mean in without))
    apart = sum(weight * APART[place[one]] for one, weight in share.items())
    half = clicks.quantile * math.hypot(sampled, fit, 0.1 * means[0], 0.1 * means[0] / 2, apart)
    assert found.model.low == pytest.approx(max(means[0] - half, 0))
    assert found.model.high == pytest.approx(min(means[0] + half, 1))


def test_the_check_of_the_model_is_told() -> None:
    clicks = ClickEstimator(LOG, MODEL)
    told = look_at_never_shown(clicks, DCG, NEW, PRODUCTION)
    assert (told.hidden_predicted, told.hidden_observed) == (0.2, clicks.interval(0.3, 0.02))
    blind = look_at_never_shown(ClickEstimator(LOG, replace(MODEL, hidden=None)), DCG, NEW, PRODUCTION)
    assert (blind.hidden_predicted, blind.hidden_observed) == (None, None)
