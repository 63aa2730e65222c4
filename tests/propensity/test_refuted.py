"""A curve that the clicks refute is told of; a true one is left alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import cldrank as cr
from cldrank.clicks.simulate import NeighbourSwaps, TrustBiased
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning
from cldrank.propensity import AllPairs, Propensities
from cldrank.propensity.curve_checks import held_to_clicks, least_unrefuted, proven_bound


def table(clicks: Any, impressions: int = 1000, every_click: bool = False) -> ClickTable:
    """Clicks of candidates in rows, at the position of their column."""
    clicks = np.asarray(clicks)
    data = cr.RankingDataset.from_arrays(
        np.arange(clicks.size)[:, None], np.repeat(np.arange(len(clicks)), clicks.shape[1])
    )
    position = np.tile(np.arange(1, clicks.shape[1] + 1), len(clicks))
    shown = np.full(clicks.size, impressions)
    return ClickTable.from_arrays(
        data, position=position, impressions=shown, clicks=clicks.ravel(), every_click=every_click
    )


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
    text = str(caught[0].message)
    assert "power law, eta 2" in text
    assert "positions 2, 3, 4 and 2 more" in text
    assert "Assume a flatter curve. Or estimate them from this log" in text


def test_chance_does_not_refute_a_true_curve_even_where_everything_is_relevant() -> None:
    random = np.random.default_rng(0)
    rho = Propensities.power(1, 5)
    for _ in range(200):
        assert not refuted(rho, table(random.binomial(20, np.tile(rho.values, (50, 1))), impressions=20))


def test_the_bound_is_one_on_the_exact_chance() -> None:
    rho = Propensities.power(1, 2)
    for clicks in range(500, 700, 5):
        exact = binom.sf(clicks - 1, 1000, 0.5) * 4  # four tests: two cells, two positions
        if refuted(rho, table([[900, clicks]])):
            assert exact < 1e-4
        else:
            assert exact > 1e-7


def test_few_impressions_refute_nothing() -> None:
    assert not refuted(Propensities.power(1, 5), table([[1, 1, 1, 1, 1]], impressions=1))


def test_several_clicks_of_an_impression_refute_nothing() -> None:
    assert not refuted(Propensities.power(1, 2), table([[2000, 1900]], every_click=True))


def test_an_estimate_is_held_to_its_interval() -> None:
    rho = Propensities(np.array([1, 0.3]), method="AllPairs")
    clicks = table([[900, 400]])
    assert refuted(rho, clicks)
    assert not refuted(replace(rho, low=np.array([1, 0.2]), high=np.array([1, 0.45]), confidence=0.9), clicks)


@pytest.mark.parametrize(
    "model",
    [cr.IPS(), cr.CLD(), cr.HeckmanRank(position_correction=True), cr.AffineIPS()],
    ids=lambda m: type(m).__name__,
)
def test_a_fit_warns_and_goes_on(logistic: Any, model: Any) -> None:
    data, clicks = logistic(follows=1.0)
    with pytest.warns(CldrankWarning, match="the clicks refute these propensities .power law, eta 3."):
        model.fit(data, clicks, Propensities.power(3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(data, clicks, Propensities.power(1, 5))  # the true one


def test_trust_bias_refutes_a_curve_of_examination_alone(world: Any) -> None:
    log = world.log(NeighbourSwaps(0.5), sessions=1e6, model=TrustBiased(eta=1))
    with pytest.warns(CldrankWarning, match="Trust in high positions may be behind it"):
        held_to_clicks(AllPairs().fit(log), log, "off")


def test_estimates_of_a_log_are_not_refuted_by_it(world: Any) -> None:
    log = world.two_rankers()
    assert not refuted(AllPairs().fit(log), log)
