from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated_clicks import SimulatedClicks, simulated
from tiny_logs import TinyLog, dcg, relevance_of, reverse

from cldrank.evaluation import sensitivity
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.exposure import LoggedClicks, order_of
from cldrank.evaluation.intervals import ClickEstimator
from cldrank.evaluation.off_policy import off_policy_relevance
from cldrank.evaluation.sensitivity import check_curves, check_permuted
from cldrank.propensity import AffineClicks, Propensities

DCG = ClickMeasure("DCG", 3)
RHO = Propensities.power(1, 3)
TRUST = AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))


@pytest.fixture(scope="module")
def world() -> SimulatedClicks:
    return simulated()


def given(log: LoggedClicks, scores: Any) -> tuple[ClickEstimator, ClickMeasure, Any, Any, float]:
    return ClickEstimator(log), DCG, order_of(scores, log), order_of("production", log), 0.01


# -- curves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", [RHO, TRUST, Propensities.power(0.2, 3)])
def test_steeper_and_flatter_curves_are_those_of_the_formula(curve: Propensities | AffineClicks) -> None:
    tiny = TinyLog.drawn(seed=30)
    clicks, *others = given(tiny.log(curve), tiny.scores(reverse))
    found = {check.name: check for check in check_curves(clicks, *others)}
    affine = clicks.log.affine
    ranks = np.arange(1, 4)
    for name, slope in (
        ("η + 0.5", affine.slope * ranks**-0.5),
        ("η − 0.5", np.minimum(affine.slope * ranks**0.5, affine.slope[0])),
    ):
        relevance = relevance_of(tiny, slope.tolist(), affine.base.tolist())
        expected = dcg(tiny, reverse, relevance, 3) - dcg(tiny, None, relevance, 3)
        assert found[name].gain.estimate == pytest.approx(expected)
        assert found[name].decision == decide(found[name].gain, 0.01)


def test_curves_that_are_tried_count_as_certain_and_have_models_of_their_own(world: SimulatedClicks) -> None:
    replicates = world.rho.values ** np.random.default_rng(0).uniform(0.5, 1.5, (20, 1))
    estimated = Propensities(world.rho.values, method="Pivot", replicates=replicates)
    log = world.log.with_curve(estimated)
    new, old = order_of(world.good, log), order_of("production", log)
    clicks = ClickEstimator(log).learned()
    assert clicks.estimate(DCG, new, old).errors.propensities > 0
    steeper = log.with_curve(Propensities(world.rho.values * np.arange(1, 5) ** -0.5, method="steeper"))
    alone = ClickEstimator(steeper).learned(folds=2)
    expected = alone.estimate(DCG, new, order_of("production", steeper))
    assert expected.errors.propensities == 0
    assert check_curves(clicks, DCG, new, old, 0.01)[0].gain == expected.interval


# -- the permutation check ---------------------------------------------------------------------------------------


def test_permuting_keeps_the_clicks_of_each_position_and_deals_them_evenly() -> None:
    tiny = TinyLog.drawn(seed=31, queries=4, pages=200)
    log = tiny.log(RHO)
    random = np.random.default_rng(0)
    table, dealt = log.clicks, []
    for _ in range(150):
        permuted = sensitivity._permuted(log, random).clicks
        assert permuted.impressions.tolist() == table.impressions.tolist()
        assert (permuted.clicks <= permuted.impressions).all()
        for position in (1, 2, 3):
            at = table.position == position
            assert permuted.clicks[at].sum() == table.clicks[at].sum()
        dealt.append(permuted.clicks)
    for position in (1, 2, 3):
        at = table.position == position
        rate = table.clicks[at].sum() / table.impressions[at].sum()
        assert np.mean(dealt, axis=0)[at] == pytest.approx(table.impressions[at] * rate, rel=0.1)


@pytest.mark.parametrize(("eta", "passes"), [(1.0, True), (3.0, False)])
def test_a_curve_that_is_too_steep_is_found_out(world: SimulatedClicks, eta: float, passes: bool) -> None:
    log = world.log.with_curve(Propensities.power(eta, 4))
    upside_down = -np.arange(world.data.n_rows, dtype=float)
    upside_down[world.clicks.row] = world.clicks.position  # of what was shown, the lowest first
    clicks, measure, new, *_ = given(log, upside_down)
    found: Any = check_permuted(clicks, measure, new)
    assert found.passed == passes
    assert found.passed == (found.gain.low <= 0)


def test_which_queries_were_searched_adds_to_its_interval(
    world: SimulatedClicks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "_permuted", lambda log, _: log)  # so that permutations have no spread
    clicks, measure, new, *_ = given(world.log, world.good)
    found: Any = check_permuted(clicks, measure, new)
    assert found.gain.high - found.gain.low > 1e-6


def test_the_mean_over_permutations_is_that_of_all() -> None:
    tiny = TinyLog.drawn(seed=34, queries=5, pages=100)
    for curve in (RHO, TRUST):
        log, random = tiny.log(curve), np.random.default_rng(0)
        gained = np.where(log.seen, random.normal(size=log.data.n_rows), 0.0)
        dealt = [gained @ off_policy_relevance(sensitivity._permuted(log, random)) for _ in range(1000)]
        error = np.std(dealt) / np.sqrt(len(dealt))
        assert sensitivity._expected_gain(log, gained).value == pytest.approx(np.mean(dealt), abs=4 * error)


def test_an_order_that_agrees_with_production_gains_nothing_by_it(world: SimulatedClicks) -> None:
    """Compared with another ranker it would: so an order is held against production, whatever it is compared with."""
    clicks, measure, new, *_ = given(world.log, world.good)
    found: Any = check_permuted(clicks, measure, new)
    assert found.passed
    assert found.gain.estimate < 0
    assert found.order == "the ranker"
    assert found == check_permuted(clicks, measure, new)


def test_orders_like_production_s_need_no_permutation_check(world: SimulatedClicks) -> None:
    clicks, measure, _, production, _ = given(world.log, world.good)
    assert check_permuted(clicks, measure, production) is None
    as_shown = np.full(world.data.n_rows, 5.0)  # what was never shown comes first; what was shown stays in its order
    as_shown[world.clicks.row] = -world.clicks.position
    assert check_permuted(clicks, measure, order_of(as_shown, world.log)) is None
