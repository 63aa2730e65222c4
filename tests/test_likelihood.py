from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from cldrank import likelihood
from cldrank.likelihood import log_cdf, shown

finite = st.floats(-20, 20)
correlations = st.floats(-0.95, 0.95)


def at(value: float) -> Any:
    return np.array([value])


def exact(z: float) -> tuple[float, float, float]:
    """log Φ, m and m (z + m) with 300 digits, as many as cancel."""
    mpmath: Any = pytest.importorskip("mpmath")
    with mpmath.workdps(300):
        x = mpmath.mpf(z)
        mills = mpmath.erfc(-x / mpmath.sqrt(2)) if abs(z) < 1e3 else None
        if mills is None and z < 0:  # the continued fraction, far out
            tail = x * 0
            for k in range(60, 0, -1):
                tail = k / (-x + tail)
            m = -x + tail
            value = -x * x / 2 - mpmath.log(m * mpmath.sqrt(2 * mpmath.pi))
        elif mills is None:
            return 0.0, 0.0, 0.0
        else:
            value = mpmath.log(mills / 2)
            m = mpmath.npdf(x) / (mills / 2)
        return float(value), float(m), float(m * (x + m))


@pytest.mark.parametrize("z", [-1e6, -1e3, -101.0, -60.1, -59.9, -37.5, -5.0, -1e-9, 0.0, 1.0, 8.0, 30.0, 1e6])
def test_log_cdf_equals_many_digits(z: float) -> None:
    found = log_cdf(at(z))
    value, slope, curvature = exact(z)
    assert found.value[0] == pytest.approx(value, rel=1e-13, abs=1e-300)
    assert found.slope[0] == pytest.approx(slope, rel=1e-13, abs=1e-300)
    assert found.curvature[0] == pytest.approx(curvature, rel=2e-12, abs=1e-300)


@given(st.floats(-1e6, 1e6))
def test_everything_is_finite_and_a_curvature_lies_between_0_and_1(z: float) -> None:
    found = log_cdf(at(z))
    assert all(np.isfinite(part).all() for part in found)
    assert found.value[0] <= 0
    assert found.slope[0] >= 0
    assert 0 <= found.curvature[0] <= 1


@given(finite, finite, finite, correlations)
def test_derivatives_of_shown_are_those_of_its_value(
    score: float, selection: float, target: float, gamma: float
) -> None:
    found = shown(at(score), at(selection), at(target), gamma)
    step = 1e-5

    def slopes(part: str) -> tuple[float, float]:
        def difference(s: float, v: float) -> float:
            up = getattr(shown(at(score + s), at(selection + v), at(target), gamma), part)
            down = getattr(shown(at(score - s), at(selection - v), at(target), gamma), part)
            return float((up - down)[0]) / (2 * step)

        return difference(step, 0), difference(0, step)

    size = 1 + abs(found.value[0]) + abs(found.score[0]) + abs(found.selection[0])
    assert slopes("value") == pytest.approx((found.score[0], found.selection[0]), rel=1e-6, abs=1e-8 * size)
    along, sinh = likelihood.tilt(gamma)
    across = -sinh
    curvature = float(found.curvature[0])
    mixed = -curvature * across * along
    second = (-likelihood.SQUARES - curvature * across**2, mixed)
    assert slopes("score") == pytest.approx(second, rel=1e-5, abs=1e-8 * size)
    assert slopes("selection") == pytest.approx((mixed, -curvature * along**2), rel=1e-5, abs=1e-8 * size)


@given(finite, finite, finite)
def test_without_correlation_it_splits_into_square_and_probit(score: float, selection: float, target: float) -> None:
    found = shown(at(score), at(selection), at(target), 0.0)
    assert found.value[0] == pytest.approx(-((target - score) ** 2) + norm.logcdf(selection), rel=1e-10)
    assert found.score[0] == pytest.approx(2 * (target - score))
    assert found.selection[0] == pytest.approx(log_cdf(at(selection)).slope[0])
