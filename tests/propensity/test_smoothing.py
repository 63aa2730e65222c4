from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.errors import CldrankError
from cldrank.propensity import Propensities, Randomised

curves = st.lists(st.floats(0.05, 3), min_size=2, max_size=12)


@given(curves)
def test_monotone_never_rises_and_is_a_projection(values: list[float]) -> None:
    rho = Propensities(np.array([1.0, *values]), method="Randomised")
    smooth = rho.smoothed("monotone")
    assert smooth.values[0] == 1
    assert (np.diff(smooth.values) <= 1e-12).all()
    np.testing.assert_allclose(smooth.smoothed("monotone").values, smooth.values)


@given(st.floats(0, 3), st.integers(2, 20))
def test_a_power_law_is_found_again(eta: float, k: int) -> None:
    rho = Propensities.power(eta, k)
    np.testing.assert_allclose(rho.smoothed("power").values, rho.values, rtol=1e-9)
    np.testing.assert_allclose(rho.smoothed("monotone").values, rho.values, rtol=1e-9)


def test_noisy_positions_count_less() -> None:
    rho = Propensities(np.array([1, 0.5, 0.9]), method="Pivot", covariance=np.diag([0, 1e-4, 1.0]))
    np.testing.assert_allclose(rho.smoothed("monotone").values[1:], 0.5, rtol=1e-3)
    assert rho.smoothed("power").values[1] == pytest.approx(0.5, rel=0.01)


def test_intervals_follow(world: Any) -> None:
    rho = Randomised().fit(world.shuffled())
    for shape in ("monotone", "power"):
        smooth = rho.smoothed(shape)
        assert smooth.low is not None
        assert smooth.high is not None
        assert (smooth.low <= smooth.values + 1e-12).all()
        assert (smooth.values <= smooth.high + 1e-12).all()
    power = rho.smoothed("power")
    assert rho.errors is not None
    assert power.errors is not None
    assert power.errors[1] < rho.errors[1]
    assert "a power law fits" in power.notes[-1]
    assert power.origin.startswith("power law, eta 1.0") or power.origin.startswith("power law, eta 0.9")


def test_replicates_are_smoothed_along_or_left_out() -> None:
    replicates = np.array([[1, 0.5, 0.4], [1, 0.4, 0.5], [1, 0.3, 0.2], [1, 1.2, 0.6]])
    covariance = np.cov(np.log(replicates), rowvar=False)
    rho = Propensities(np.array([1, 0.45, 0.42]), method="Pivot", replicates=replicates, covariance=covariance)
    falling = rho.smoothed("monotone").replicates
    assert falling is not None
    np.testing.assert_allclose(falling[[0, 2, 3]], [[1, 0.5, 0.4], [1, 0.3, 0.2], [1, 1, 0.6]])
    assert 0.4 < falling[1, 1] == falling[1, 2] < 0.5
    power = rho.smoothed("power")
    assert power.replicates is None
    draws = power.draws(5, seed=0)  # all of them are power laws
    np.testing.assert_allclose(np.log(draws[:, 2]) / np.log(draws[:, 1]), np.log(3) / np.log(2), rtol=1e-6)


def test_a_curve_that_is_no_power_law_is_said() -> None:
    rho = Propensities(
        np.array([1, 0.9, 0.2, 0.9]), method="Pivot", covariance=np.diag([0, 1e-3, 1e-3, 1e-3]), confidence=0.9
    )
    assert "does not fit" in rho.smoothed("power").notes[-1]


def test_intervals_from_a_file_are_smoothed_at_their_ends() -> None:
    rho = Propensities(
        np.array([1, 0.4, 0.6]),
        method="Pivot",
        low=np.array([1, 0.3, 0.5]),
        high=np.array([1, 0.5, 0.7]),
        confidence=0.9,
    )
    smooth = rho.smoothed("monotone")
    np.testing.assert_allclose(smooth.low, [1, np.sqrt(0.15), np.sqrt(0.15)])  # type: ignore[arg-type]


def test_refusals() -> None:
    with pytest.raises(CldrankError, match="'monotone' or 'power'"):
        Propensities.power(1, 3).smoothed("linear")  # type: ignore[arg-type]
    with pytest.raises(CldrankError, match="at least two"):
        Propensities.power(1, 1).smoothed("power")
