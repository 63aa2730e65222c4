"""Curves are held against a log's own pages and against its clicks: refused, raised, warned of, or left alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import cldrank as cr
from cldrank.clicks.simulate import FirstSwaps, NeighbourSwaps, ShuffledShare, TrustBiased
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.propensity import AllPairs, Envelope, Pivot, Propensities, Randomised, SegmentPropensities
from cldrank.propensity.curve_checks import check_own_pages, held_to_clicks, least_unrefuted, own_curve, proven_bound
from tests.propensity.conftest import logistic_log, on_candidates


def test_a_foreign_curve_is_refused_by_methods_and_comparisons_with_both_numbers(world: Any) -> None:
    log, foreign = world.two_rankers(), Propensities.power(0.4, 5)  # the log has 1 / position
    data = cr.RankingDataset.from_arrays(world.scores[:, None], world.data.row_queries)
    clicks = on_candidates(data, log)
    with pytest.raises(DataError, match=r"position 2: 0\.76 supplied, 0\.\d\d ± 0\.0\d"):
        cr.IPS().fit(data, clicks, foreign)
    with pytest.raises(DataError, match=r"position 2: 0\.76 supplied"):
        cr.compare(world.scores, "production", data, clicks=clicks, propensities=foreign)
    cr.IPS().fit(data, clicks, foreign.trusted())
    cr.compare(world.scores, "production", data, clicks=clicks, propensities=foreign, trust_propensity=True)


@pytest.mark.parametrize("seed", range(3))
def test_the_truth_is_never_refused(world: Any, seed: int) -> None:
    for log in (world.two_rankers(3e4, seed), world.log(ShuffledShare(0.3), 2e4, seed), world.shuffled(1e4, seed)):
        check_own_pages(Propensities.power(1, 5), log)


@pytest.mark.parametrize("estimator", [AllPairs(), Pivot(depth=3)], ids=repr)
def test_a_curve_of_this_very_log_is_not_refused(world: Any, estimator: Any) -> None:
    log = world.two_rankers()
    check_own_pages(estimator.fit(log), log)
    check_own_pages(Randomised().fit(world.shuffled()), world.shuffled())


def test_positions_that_can_be_compared_are_enough(world: Any) -> None:
    """Swaps of the first three positions say nothing of the others, and enough of the second."""
    log = world.log(FirstSwaps(0.5, positions=(2, 3)))
    own: Any = own_curve(log, 5)
    assert (own[0], len(own[1])) == ("all-pairs", 3)
    with pytest.raises(DataError, match="position 2"):
        check_own_pages(Propensities.power(0, 5), log)


def test_an_uncertain_curve_is_not_refused_for_its_errors(world: Any) -> None:
    rho = Propensities(np.array([1, 0.8, 0.5, 0.4, 0.3]), method="elsewhere", covariance=np.diag([0, 1, 1, 1, 1]))
    check_own_pages(rho, world.two_rankers())


def test_six_standard_errors_are_beyond_chance(world: Any) -> None:
    with pytest.raises(DataError, match="position 2"):
        check_own_pages(Propensities.power(0.4, 5), world.two_rankers(1e3, seed=3))


def test_where_the_position_based_model_does_not_fit_it_is_a_warning(world: Any) -> None:
    log = world.two_rankers(1e6, model=TrustBiased(eta=1))
    with pytest.warns(CldrankWarning, match="this log refutes"):
        check_own_pages(Propensities.power(0, 5), log)


def test_segments_are_held_against_their_own_pages(world: Any) -> None:
    log = world.two_rankers()
    names = np.array(["phone", "desktop"])[world.data.row_queries[log.row] % 2]
    table = on_candidates(world.data, log, segment=names)
    true = Propensities.power(1, 5)
    check_own_pages(SegmentPropensities.of({"phone": true, "desktop": true}), table)
    with pytest.raises(DataError, match="segment phone"):
        check_own_pages(SegmentPropensities.of({"phone": Propensities.power(0.3, 5), "desktop": true}), table)


def test_a_curve_of_the_whole_log_is_not_refused_on_some_of_its_queries(world: Any) -> None:
    """Not even if small propensities were clipped on purpose."""
    log = world.two_rankers(2e4)
    part = log[np.arange(60)]
    rho = AllPairs().fit(log)
    for curve in (rho, rho.clip(0.4)):
        check_own_pages(curve, part)
    assert rho.clip(0.4).clipped


# -- clicked too often ------------------------------------------------------------------------------------------------


def table(clicks: Any, impressions: int = 1000) -> ClickTable:
    """Clicks of candidates in rows, at the position of their column."""
    clicks = np.asarray(clicks)
    data = cr.RankingDataset.from_arrays(
        np.arange(clicks.size)[:, None], np.repeat(np.arange(len(clicks)), clicks.shape[1])
    )
    position = np.tile(np.arange(1, clicks.shape[1] + 1), len(clicks))
    shown = np.full(clicks.size, impressions)
    return ClickTable.from_arrays(data, position=position, impressions=shown, clicks=clicks.ravel())


def refuted(rho: Propensities, clicks: ClickTable) -> tuple[int, ...]:
    """The positions that single results, or positions as a whole, refute."""
    return rho.refuted_by(proven_bound(clicks, len(rho), envelope=False))


def test_a_position_clicked_more_often_than_it_is_examined() -> None:
    clicks = table([[300, 200, 400], [300, 100, 420]])
    assert refuted(Propensities.power(1, 3), clicks) == (3,)
    assert 1 / 3 < least_unrefuted(clicks, 3)[2] < 0.41  # the rate of the position


def test_a_single_candidate_is_enough() -> None:
    clicks = np.full((30, 3), 50)
    clicks[:2, 2] = [700, 600]
    assert refuted(Propensities.power(1, 3), table(clicks)) == (3,)
    assert 0.6 < least_unrefuted(table(clicks), 3)[2] < 0.7


def test_the_warning_names_positions_values_and_what_to_do() -> None:
    with pytest.warns(CldrankWarning, match="instead of 0.111") as caught:
        held_to_clicks(Propensities.power(2, 6), table([[400] * 6] * 5), "off")
    assert "power law, eta 2" in str(caught[0].message)
    assert "positions 2, 3, 4 and 2 more" in str(caught[0].message)


def test_chance_does_not_refute_a_true_curve_even_where_everything_is_relevant() -> None:
    random = np.random.default_rng(0)
    rho = Propensities.power(1, 5)
    for _ in range(200):
        assert not refuted(rho, table(random.binomial(20, np.tile(rho.values, (50, 1))), impressions=20))


def test_the_bound_is_one_on_the_exact_chance() -> None:
    rho = Propensities.power(1, 2)
    exact: dict[bool, list[float]] = {True: [], False: []}
    for clicks in range(500, 700, 5):  # four tests: two cells, two positions
        exact[bool(refuted(rho, table([[900, clicks]])))].append(binom.sf(clicks - 1, 1000, 0.5) * 4)
    assert max(exact[True]) < 1e-4
    assert min(exact[False]) > 1e-7


def test_trust_bias_refutes_a_curve_of_examination_alone(world: Any) -> None:
    log = world.log(NeighbourSwaps(0.5), sessions=1e6, model=TrustBiased(eta=1))
    with pytest.warns(CldrankWarning, match="Trust in high positions may be behind it"):
        held_to_clicks(AllPairs().fit(log), log, "off")


# -- raised to what clicks prove --------------------------------------------------------------------------------------


STEEP = Propensities.power(3, 5)


@pytest.fixture(scope="module")
def log() -> Any:
    return logistic_log(follows=1.0)[1]


def said(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(entry.message) for entry in caught]


def test_an_assumed_curve_is_raised_and_told_of_once(log: Any) -> None:
    texts = said(lambda: held_to_clicks(STEEP, log))
    refute = [text for text in texts if "clicked too often" in text]
    assert len(refute) == 1
    assert "instead of 0.125" in refute[0]
    assert len(texts) == 1
    with pytest.warns(CldrankWarning):
        found = held_to_clicks(STEEP, log)
    bound = Envelope(confidence=0.99).fit(log).values
    np.testing.assert_allclose(found.values, np.maximum(bound, [1, *least_unrefuted(log, 5)[1:]]))
    assert not refuted(found, log)
    assert found.raised == (2, 3, 4, 5)


def test_warn_and_off_leave_the_curve(log: Any) -> None:
    with pytest.warns(CldrankWarning, match="clicked too often"):
        assert held_to_clicks(STEEP, log, "warn") is STEEP
    with pytest.warns(CldrankWarning, match="Assume a flatter curve"):  # single results refute it as well
        assert held_to_clicks(STEEP, log, "off") is STEEP
    assert held_to_clicks(Propensities.power(1, 5), log, "off").values[1] == 0.5


def test_true_and_flat_curves_are_left_alone(log: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for eta in (0, 0.5, 1):
            rho = Propensities.power(eta, 5)
            assert held_to_clicks(rho, log) is rho


def test_an_estimate_is_only_warned_of_and_held_to_its_interval(log: Any) -> None:
    steep = Propensities(STEEP.values, method="AllPairs")
    with pytest.warns(CldrankWarning, match="clicked too often"):
        assert held_to_clicks(steep, log) is steep
    wide = replace(steep, low=steep.values, high=np.ones(5), confidence=0.9)
    assert not said(lambda: held_to_clicks(wide, log))


def test_positions_above_one_that_is_too_thin_are_still_raised() -> None:
    _, log = logistic_log(follows=1.0)
    thin = log.position == 4
    parts = {name: getattr(log, name) for name in ("candidates", "row", "position", "impressions")}
    with pytest.warns(CldrankWarning):
        found = held_to_clicks(STEEP, cr.ClickTable(**parts, clicks=np.where(thin, 0, log.clicks)))
    assert found.raised == (2, 3, 5)  # the last by single results, which need no comparison
    assert not refuted(found, cr.ClickTable(**parts, clicks=np.where(thin, 0, log.clicks)))


def test_what_single_results_prove_is_the_least_that_they_do_not_refute(log: Any) -> None:
    least = least_unrefuted(log, 5)
    rho = np.concatenate([[1.0], least[1:]])
    assert not refuted(Propensities(rho), log)
    for place in range(1, 5):
        lower = rho.copy()
        lower[place] *= 0.999
        assert refuted(Propensities(lower), log) == (place + 1,)


def test_a_bound_as_the_curve_is_not_held_to_itself(log: Any) -> None:
    bound = Envelope().fit(log)
    assert not said(lambda: held_to_clicks(bound, log))


@pytest.mark.parametrize("method", [cr.CLD(), cr.IPS()], ids=repr)
def test_methods_keep_the_raised_curve(method: Any) -> None:
    data, log = logistic_log(follows=1.0)
    with pytest.warns(CldrankWarning, match="clicked too often"):
        method.fit(data, log, STEEP)
    assert method.propensities_.raised == (2, 3, 4, 5)
    with pytest.warns(CldrankWarning):
        method.set_params(envelope="warn").fit(data, log, STEEP)
    assert method.propensities_ is STEEP
    with pytest.raises(UsageError, match="`envelope`"):
        method.set_params(envelope="no").fit(data, log, STEEP)
