from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.evaluation.deciding import decide
from cldrank.evaluation.power import chance_to_decide, largest_error, pages_to_show
from cldrank.measures import Interval

Q = 1.645


@pytest.mark.parametrize(
    ("low", "high", "margin", "error"),
    [
        (0.05, 0.05, 0.0, 0.02),
        (-0.05, -0.05, 0.0, 0.02),
        (0.03, 0.07, 0.01, 0.015),  # with a bias
        (0.0, 0.0, 0.05, 0.02),  # within the margin
        (0.03, 0.03, 0.05, 0.01),  # there, and better as well
        (-0.01, 0.03, 0.05, 0.01),
        (0.04, 0.04, 0.05, 0.005),
    ],
)
def test_the_chance_is_that_of_drawn_intervals(low: float, high: float, margin: float, error: float) -> None:
    middle, half = (low + high) / 2, (high - low) / 2 + Q * error
    drawn = np.random.default_rng(0).normal(middle, error, 20_000)
    right = {"better" if middle >= 0 else "worse"} | ({"no difference"} if abs(middle) <= margin else set())
    found = [decide(Interval(one, one - half, one + half, 0.9, 9), margin) in right for one in drawn]
    assert chance_to_decide(error, low, high, margin, Q) == pytest.approx(np.mean(found), abs=0.012)


def test_without_margin_the_largest_error_has_a_formula() -> None:
    assert largest_error(0.05, 0.05, 0.0, Q) == pytest.approx(0.05 / (Q + 0.8416), rel=1e-4)
    assert largest_error(-0.09, -0.05, 0.01, Q) == pytest.approx(0.05 / (Q + 0.8416), rel=1e-4)


def test_no_error_is_small_enough_for_a_bias_that_reaches_over_0() -> None:
    assert largest_error(-0.01, 0.05, 0.0, Q) is None
    assert largest_error(-0.01, 0.05, 0.02, Q) is None
    assert largest_error(-0.01, 0.015, 0.02, Q) is not None  # but within the margin
    assert largest_error(0.0, 0.0, 0.0, Q) is None


@given(st.integers(-99, 99), st.integers(0, 99), st.integers(0, 99), st.sampled_from([0.3, 1.645, 2.6]))
def test_with_the_largest_error_the_chance_is_at_least_80_percent(
    middle: float, bias: float, margin: float, quantile: float
) -> None:
    low, high = middle - bias, middle + bias
    error = largest_error(low, high, margin, quantile)
    if error is not None:
        assert chance_to_decide(error, low, high, margin, quantile) >= 0.8
        half = bias + quantile * 0.999 * error
        assert decide(Interval(middle, middle - half, middle + half, 0.9, 9), margin) != "cannot tell"
        larger = 1.01 * error
        half = bias + quantile * larger
        undecided = decide(Interval(middle, middle - half, middle + half, 0.9, 9), margin) == "cannot tell"
        assert undecided or chance_to_decide(larger, low, high, margin, quantile) < 0.8


def test_half_the_difference_takes_four_times_the_pages() -> None:
    assert pages_to_show(0.05, 1.0, 0.9) == pytest.approx(4 * (pages_to_show(0.1, 1.0, 0.9) or 0), rel=0.01)
    assert pages_to_show(-0.1, 1.0, 0.9) == pages_to_show(0.1, 1.0, 0.9)
    assert (pages_to_show(0.1, 1.0, 0.99) or 0) > (pages_to_show(0.1, 1.0, 0.9) or 0)
    assert pages_to_show(0.0, 1.0, 0.9) is None
    assert pages_to_show(100.0, 1.0, 0.9) == 30
