"""Methods hold a curve to the clicks: an assumed one is raised, an estimated one warned of, and it is said once."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import CldrankWarning, UsageError
from cldrank.propensity import AllPairs, Envelope, Propensities
from cldrank.propensity.curve_checks import held_to_clicks, least_unrefuted, proven_bound
from tests.propensity.conftest import logistic_log

STEEP = Propensities.power(3, 5)


def refuted(rho: Propensities, clicks: Any) -> tuple[int, ...]:
    """The positions that single results, or positions as a whole, refute."""
    return rho.refuted_by(proven_bound(clicks, len(rho), envelope=False))


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
    assert "the clicks refute these propensities (power law, eta 3)" in refute[0]
    assert "positions 2, 3, 4 and 5" in refute[0]
    assert "instead of 0.125" in refute[0]
    assert len(texts) == 1
    assert "envelope=off" in refute[0]
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


def test_a_position_is_not_refuted_twice(log: Any) -> None:
    """By candidates clicked too often for the curve, and by those clicked again: one message, unless one says more."""
    texts = said(lambda: held_to_clicks(Propensities.power(2, 5), log, "warn"))
    assert len(texts) == 1


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


def test_few_clicks_and_every_click_prove_nothing() -> None:
    _, few = logistic_log(follows=1.0, queries=1)
    assert not said(lambda: held_to_clicks(STEEP, few.first(2)))
    _, rich = logistic_log(follows=1.0)
    parts = {name: getattr(rich, name) for name in ("candidates", "row", "position", "impressions", "clicks")}
    assert not said(lambda: held_to_clicks(STEEP, cr.ClickTable(**parts, every_click=True)))


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


@pytest.mark.parametrize(
    "method",
    [cr.IPS(), cr.CLD(), cr.CLDPair(model=cr.Linear()), cr.HeckmanRank(position_correction=True)],
    ids=lambda m: type(m).__name__,
)
def test_methods_keep_the_raised_curve(method: Any) -> None:
    data, log = logistic_log(follows=1.0)
    with pytest.warns(CldrankWarning, match="clicked too often"):
        method.fit(data, log, STEEP)
    assert method.propensities_.raised == (2, 3, 4, 5)
    with pytest.warns(CldrankWarning):
        method.set_params(envelope="warn").fit(data, log, STEEP)
    assert method.propensities_ is STEEP
    with pytest.raises(UsageError, match="`envelope` must be 'raise', 'warn' or 'off'"):
        method.set_params(envelope="no").fit(data, log, STEEP)


def test_the_parts_of_rankagg_learn_from_the_raised_curve() -> None:
    data, log = logistic_log(follows=1.0)
    with pytest.warns(CldrankWarning, match="clicked too often"):
        method = cr.RankAgg(model=cr.Linear()).fit(data, log, STEEP)
    assert method.propensities_ is method.ips_.propensities_
    assert method.propensities_.raised == (2, 3, 4, 5)


def test_without_a_curve_there_is_nothing_to_raise() -> None:
    data, log = logistic_log(follows=1.0)
    with pytest.raises(UsageError, match="position_correction=True"):
        cr.HeckmanRank(envelope="off").fit(data, log)


def test_an_estimate_of_the_same_log_lies_above_the_bound(world: Any) -> None:
    log = world.two_rankers()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = AllPairs().fit(log)
        assert held_to_clicks(estimate, log) is estimate


def test_a_wide_bound_raises_to_its_lower_end() -> None:
    interval: Any = {"low": [1, 0.5, 0.3], "high": [1, 0.9, 0.9], "confidence": 0.99}
    bound = Propensities(np.array([1, 0.7, 0.6]), method="Envelope", bound=True, **interval)
    assert Propensities.power(2, 3).raised_to(bound).values.tolist() == [1, 0.7, 0.3]


def test_a_bound_is_not_a_curve(log: Any) -> None:
    data = logistic_log(follows=1.0)[0]
    with pytest.raises(UsageError, match="these propensities are a lower bound; assume a curve"):
        cr.IPS().fit(data, log, Envelope().fit(log))
