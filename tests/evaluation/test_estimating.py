from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t
from tiny_estimates import MEASURES, RHO, TRUST, model_of, order, parts, plain
from tiny_logs import (
    Ranking,
    TinyLog,
    dcg,
    expected_clicks,
    forward,
    jackknife_error,
    relevance_of,
    reverse,
)

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.estimating import ClickEstimator, Valued
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.off_policy import Affine, DoublyRobust, SelfNormalised
from cldrank.evaluation.orders import order_of
from cldrank.propensity import Propensities

# -- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", [RHO, TRUST])
@pytest.mark.parametrize("measure", MEASURES, ids=str)
@pytest.mark.parametrize("ranking", [reverse, forward, None])
def test_values_and_errors_are_those_of_loops_over_pages(
    ranking: Ranking | None, measure: ClickMeasure, curve: Any
) -> None:
    tiny = TinyLog.drawn(seed=10)
    log = tiny.log(curve)

    def value(some: TinyLog) -> float:
        return plain(some, measure, ranking, relevance_of(some, *parts(curve)), curve)

    found = ClickEstimator(log, Affine()).value(measure, order(log, tiny, ranking))
    assert found.value == pytest.approx(value(tiny))
    assert found.error(5) == pytest.approx(jackknife_error(tiny, value))


@pytest.mark.parametrize("measure", MEASURES[:3], ids=str)
def test_pages_that_end_early_count_as_long_as_they_are(measure: ClickMeasure) -> None:
    tiny = TinyLog.drawn(seed=11, ragged=True)
    log, relevance = tiny.log(RHO), relevance_of(tiny, *parts(RHO))
    for ranking in (reverse, None):
        found = ClickEstimator(log, Affine()).value(measure, order(log, tiny, ranking))
        assert found.value == pytest.approx(plain(tiny, measure, ranking, relevance))


def test_an_order_like_production_s_is_level_with_it_on_pages_of_any_length() -> None:
    pages = TinyLog.drawn(seed=12, ragged=True).pages
    tiny = TinyLog((5,) * 5, tuple(replace(page, shown=tuple(range(len(page.shown)))) for page in pages))
    log = tiny.log(RHO)
    clicks = ClickEstimator(log, Affine())
    for measure in MEASURES[:3]:
        found = clicks.compare(measure, order(log, tiny, forward), order(log, tiny, None))
        assert found.interval.estimate == pytest.approx(0, abs=1e-12)
        assert found.interval.high == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 10_000), st.floats(0, 2), st.booleans(), st.booleans())
def test_production_is_expected_to_have_the_clicks_it_had(seed: int, eta: float, trust: bool, ragged: bool) -> None:
    tiny = TinyLog.drawn(seed, queries=3, pages=15, ragged=ragged)
    log = tiny.log(TRUST if trust else Propensities.power(eta, 3))
    observed = sum(len(page.clicked) for page in tiny.pages) / len(tiny.pages)
    model = model_of(np.random.default_rng(seed).random(15))
    for estimator in (Affine(), DoublyRobust()):
        found = ClickEstimator(log, estimator, model).value(ClickMeasure("Clicks", 3), order_of("production", log))
        assert found.value == pytest.approx(observed)


def test_self_normalised_fills_the_unseen_with_the_mean_of_the_seen() -> None:
    tiny = TinyLog.drawn(seed=13)
    log, relevance = tiny.log(RHO), relevance_of(tiny, *parts(RHO))
    measure, ours = ClickMeasure("DCG", 3), order(log, tiny, reverse)
    clicks = ClickEstimator(log, SelfNormalised())
    seen = dcg(tiny, reverse, {one: float(one in tiny.seen) for one in tiny.candidates}, 3)
    whole = dcg(tiny, reverse, dict.fromkeys(tiny.candidates, 1.0), 3)
    mean = dcg(tiny, reverse, relevance, 3) / seen
    assert seen < whole
    assert clicks.value(measure, ours).value == pytest.approx(mean * whole)
    filled = {one: relevance[one] if one in tiny.seen else mean for one in tiny.candidates}
    assert clicks.value(measure, ours).value == pytest.approx(dcg(tiny, reverse, filled, 3))
    given_all = clicks.value(measure, ours, tiny.array(relevance)).value  # nothing is left to be filled in
    assert given_all == pytest.approx(dcg(tiny, reverse, relevance, 3))


def test_base_clicks_are_not_filled_in() -> None:
    tiny = TinyLog.drawn(seed=13)
    log, measure = tiny.log(TRUST), ClickMeasure("Clicks", 3)
    relevance = relevance_of(tiny, *parts(TRUST))
    found = ClickEstimator(log, SelfNormalised()).value(measure, order(log, tiny, reverse))
    slope, base = parts(TRUST)
    ours, none = expected_clicks(tiny, reverse, relevance, slope, [0] * 3, 3), [0.0] * 3
    seen, whole = (
        expected_clicks(tiny, reverse, {one: float(one in some) for one in tiny.candidates}, slope, none, 3)
        for some in (tiny.seen, set(tiny.candidates))
    )
    bases = expected_clicks(tiny, reverse, dict.fromkeys(tiny.candidates, 0.0), slope, base, 3)
    assert found.value == pytest.approx(ours / seen * whole + bases)


@given(st.integers(0, 10_000))
def test_the_order_of_rows_and_queries_does_not_matter(seed: int) -> None:
    tiny = TinyLog.drawn(seed, queries=4, pages=25, ragged=True)
    log = tiny.log(RHO)
    random = np.random.default_rng(seed)
    rows = np.concatenate([5 * query + random.permutation(5) for query in random.permutation(4)])
    place = np.argsort(rows)
    data = RankingDataset.from_arrays(log.data.features[rows], log.queries[rows])
    cells = {name: getattr(log.clicks, name) for name in ("position", "impressions", "clicks")}
    moved = LoggedClicks(data, ClickTable.from_arrays(data, row=place[log.clicks.row], **cells), RHO)
    scores = random.random(20)
    for measure in MEASURES:
        for one, other in ((scores, scores[rows]), ("production", "production")):
            values = [
                ClickEstimator(some, Affine()).estimate(measure, order_of(by, some)).interval
                for some, by in ((log, one), (moved, other))
            ]
            assert [values[0].estimate, values[0].low, values[0].high] == pytest.approx(
                [values[1].estimate, values[1].low, values[1].high]
            )


# -- errors ------------------------------------------------------------------------------------------------------


def test_repeated_pages_leave_errors_and_repeated_queries_shrink_them() -> None:
    tiny = TinyLog.drawn(seed=14)
    doubled = LoggedClicks(tiny.data(), tiny.table(2), RHO)
    twice = TinyLog(tiny.sizes * 2, (*tiny.pages, *(replace(page, query=page.query + 5) for page in tiny.pages)))
    for measure in MEASURES:
        logs = ((tiny, tiny.log(RHO)), (tiny, doubled), (twice, twice.log(RHO)))
        once, same, more = (
            ClickEstimator(log, Affine()).compare(
                measure, order(log, some, lambda query: reverse(query % 5)), order(log, some, None)
            )
            for some, log in logs
        )
        assert same.interval.estimate == pytest.approx(once.interval.estimate)
        assert same.errors.queries == pytest.approx(once.errors.queries)
        assert more.interval.estimate == pytest.approx(once.interval.estimate)
        assert 0.5 < more.errors.queries / once.errors.queries < 0.75  # about 1 / sqrt(2)


@pytest.mark.parametrize("measure", MEASURES[1:], ids=str)
def test_errors_agree_with_a_bootstrap_over_queries(measure: ClickMeasure) -> None:
    tiny = TinyLog.drawn(seed=15, queries=60, pages=700)
    log = tiny.log(RHO)
    clicks = ClickEstimator(log, Affine())
    ours, theirs = order(log, tiny, reverse), order(log, tiny, None)
    found = clicks.compare(measure, ours, theirs)
    random, drawn = np.random.default_rng(0), []
    above = [log.by_query(clicks.weights(measure, one) * clicks.relevance) for one in (ours, theirs)]
    below = log.pages / log.pages.sum()
    if measure.kind == "ARP":
        below = log.by_query(np.where(log.seen, log.row_pages * clicks.relevance, 0.0)) / log.pages.sum()
    for _ in range(4000):
        some = random.integers(60, size=60)
        drawn.append((above[0] - above[1])[some].sum() / below[some].sum())
    assert found.errors.queries == pytest.approx(np.std(drawn), rel=0.1)


def test_a_query_with_nearly_all_pages_leaves_little_certain() -> None:
    tiny = TinyLog.drawn(seed=16, queries=30, pages=400)
    log = tiny.log(RHO)
    clicks = log.clicks
    first = log.queries[clicks.row] == 0
    factor = np.where(first, 1000, 1)
    lopsided = replace(clicks, impressions=clicks.impressions * factor, clicks=clicks.clicks * factor)
    measure = ClickMeasure("DCG", 3)
    errors = [
        ClickEstimator(some, Affine()).value(measure, order(some, tiny, reverse)).error(30)
        for some in (log, LoggedClicks(log.data, lopsided, RHO))
    ]
    without = ClickEstimator(log, Affine()).value(measure, order(log, tiny, reverse)).value
    alone = ClickEstimator(LoggedClicks(log.data[:1], clicks[:1], RHO), Affine())
    only = alone.value(measure, order_of(tiny.scores(reverse)[:5], alone.log)).value
    assert errors[1] > 0.8 * abs(only - without) > errors[0]


def test_ratios_are_left_out_query_by_query() -> None:
    random = np.random.default_rng(3)
    above, below = random.random(6), random.random(6) + 0.5
    found = Valued.ratio(above, below)
    for query in range(6):
        rest = np.arange(6) != query
        assert found.value - found.influence[query] == pytest.approx(above[rest].sum() / below[rest].sum())
    assert Valued.ratio(np.zeros(3), np.zeros(3)).value == 0
    whole = found * Valued(2.0, np.zeros(6)) + found - found
    assert whole.value == pytest.approx(2 * found.value)
    assert whole.influence == pytest.approx(2 * found.influence)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_intervals_are_those_of_student(confidence: float) -> None:
    tiny = TinyLog.drawn(seed=14)
    clicks = ClickEstimator(tiny.log(RHO), Affine(), confidence=confidence)
    found = clicks.interval(0.3, 0.1)
    low, high = t.interval(confidence, df=4, loc=0.3, scale=0.1)
    assert (found.low, found.high, found.confidence, found.n) == pytest.approx((low, high, confidence, 5))
