from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t
from tiny_estimates import MEASURES, RHO, TRUST, model_of, order, parts, plain
from tiny_logs import Candidate, Ranking, Relevance, TinyLog, dcg, forward, jackknife_error, relevance_of, reverse

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import LoggedClicks, order_of
from cldrank.evaluation.intervals import ClickEstimator
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

    found = ClickEstimator(log).value(measure, order(log, tiny, ranking))
    assert found.value == pytest.approx(value(tiny))
    assert found.error(5) == pytest.approx(jackknife_error(tiny, value))


@settings(max_examples=15)
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
                ClickEstimator(some).estimate(measure, order_of(by, some)).interval
                for some, by in ((log, one), (moved, other))
            ]
            assert [values[0].estimate, values[0].low, values[0].high] == pytest.approx(
                [values[1].estimate, values[1].low, values[1].high]
            )


# -- errors ------------------------------------------------------------------------------------------------------


def test_intervals_are_those_of_student() -> None:
    found = ClickEstimator(TinyLog.drawn(seed=14).log(RHO), confidence=0.8).interval(0.3, 0.1)
    low, high = t.interval(0.8, df=4, loc=0.3, scale=0.1)
    assert (found.low, found.high, found.confidence, found.n) == pytest.approx((low, high, 0.8, 5))


# -- intervals and bounds ----------------------------------------------------------------------------------------


def assignments(tiny: TinyLog, known: Relevance) -> list[dict[Candidate, float]]:
    """The known relevance, with every choice of none and all for each of the unseen."""
    unseen = [one for one in tiny.candidates if one not in tiny.seen]
    choices = product((0.0, 1.0), repeat=len(unseen))
    return [{**known, **dict(zip(unseen, choice, strict=True))} for choice in choices]


@pytest.mark.parametrize("measure", MEASURES, ids=str)
@pytest.mark.parametrize("old", [forward, None])
def test_bounds_are_the_extremes_over_all_the_unseen_may_be(measure: ClickMeasure, old: Ranking | None) -> None:
    tiny = TinyLog.drawn(seed=17)
    log, known = tiny.log(RHO), relevance_of(tiny, *parts(RHO))
    values = [
        plain(tiny, measure, reverse, some) - plain(tiny, measure, old, some) for some in assignments(tiny, known)
    ]
    for model in (None, model_of(np.full(25, 0.3))):
        found = ClickEstimator(log, model).estimate(measure, order(log, tiny, reverse), order(log, tiny, old))
        assert found.lowest.estimate == pytest.approx(min(values)), model
        assert found.highest.estimate == pytest.approx(max(values)), model
        assert found.lowest.low <= found.interval.low <= found.interval.high <= found.highest.high
        if model is None and min(values) < max(values):
            assert (found.interval.low, found.interval.high) == (found.lowest.low, found.highest.high)


def dcg_weights(tiny: TinyLog) -> dict[Candidate, float]:
    """What the relevance of each candidate counts in the DCG of the reverse order."""
    return {
        one: dcg(tiny, reverse, {other: float(other == one) for other in tiny.candidates}, 3) for one in tiny.candidates
    }


def test_the_model_adds_the_errors_of_its_fit_and_of_what_was_never_shown() -> None:
    tiny = TinyLog.drawn(seed=19)
    log = tiny.log(RHO)
    groups = np.random.default_rng(1).random((5, 25))
    clicks = ClickEstimator(log, model_of(groups.mean(axis=0), groups, spread=0.2))
    ours = order(log, tiny, reverse)
    found = clicks.estimate(MEASURES[0], ours)
    values = []
    for group in groups:
        known = relevance_of(tiny, *parts(RHO))
        some = {one: known[one] if one in tiny.seen else group[at] for at, one in enumerate(tiny.candidates)}
        values.append(dcg(tiny, reverse, some, 3))
    error = np.sqrt(sum((value - np.mean(values)) ** 2 for value in values))
    assert found.errors.model == pytest.approx(error)
    place = {one: at for at, one in enumerate(tiny.candidates)}
    never = {one: weight for one, weight in dcg_weights(tiny).items() if one not in tiny.seen}
    unsure = 0.2 * sum(weight * groups.mean(axis=0)[place[one]] for one, weight in never.items())
    off = np.hypot(unsure, unsure / 2)  # in common, and of its own
    assert found.errors.extrapolation == pytest.approx(off)
    wide = clicks.quantile * np.linalg.norm([found.errors.queries, error, off])
    assert found.interval.low == pytest.approx(max(found.interval.estimate - wide, found.lowest.low))


def drawn_error(value: Callable[[list[float]], float], curve: Propensities) -> float:
    return float(np.std([value(one.tolist()) for one in curve.draws(200, 0)], ddof=1))


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_an_estimated_curve_adds_its_own_error(measure: ClickMeasure) -> None:
    tiny = TinyLog.drawn(seed=20)
    replicates: Any = np.cumprod(np.random.default_rng(2).uniform(0.4, 0.9, (50, 3)), axis=1)
    curve = Propensities(np.array([1, 0.5, 0.3]), method="Pivot", replicates=replicates)
    certain = replace(curve, replicates=None)
    found, usual = (
        ClickEstimator(log).estimate(measure, order(log, tiny, reverse)) for log in (tiny.log(curve), tiny.log(certain))
    )

    def value(rho: list[float]) -> float:
        drawn = Propensities(np.array(rho), method="drawn")
        return plain(tiny, measure, reverse, relevance_of(tiny, rho, [0] * 3), drawn)

    assert found.errors.propensities == pytest.approx(drawn_error(value, curve), rel=1e-6)
    assert found.errors.propensities > usual.errors.propensities == 0
    assert found.interval.high - found.interval.low > usual.interval.high - usual.interval.low
    assert found.errors.queries == pytest.approx(usual.errors.queries)
