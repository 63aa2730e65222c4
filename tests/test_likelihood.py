from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from cldrank import likelihood
from cldrank.errors import UsageError
from cldrank.likelihood import Form, log_cdf, shown, shown_nuisance, unshown

finite = st.floats(-20, 20)
correlations = st.floats(-0.95, 0.95)
forms = st.one_of(st.builds(Form, correlations), st.builds(Form, correlations, st.floats(0.1, 5.0), st.just(True)))


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


@pytest.mark.parametrize(
    "z", [-1e6, -1e5, -1e3, -101.0, -60.1, -59.9, -37.5, -10.0, -5.0, -1.0, -1e-9, 0.0, 1.0, 5.0, 8.0, 30.0, 1e3, 1e6]
)
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


@given(finite, finite, finite, forms)
def test_derivatives_of_shown_are_those_of_its_value(score: float, selection: float, target: float, form: Form) -> None:
    found = shown(at(score), at(selection), at(target), form)
    step = 1e-5

    def slopes(part: str) -> tuple[float, float]:
        def difference(s: float, v: float) -> float:
            up = getattr(shown(at(score + s), at(selection + v), at(target), form), part)
            down = getattr(shown(at(score - s), at(selection - v), at(target), form), part)
            return float((up - down)[0]) / (2 * step)

        return difference(step, 0), difference(0, step)

    size = 1 + abs(found.value[0]) + abs(found.score[0]) + abs(found.selection[0])
    assert slopes("value") == pytest.approx((found.score[0], found.selection[0]), rel=1e-6, abs=1e-8 * size)
    across, along = form.direction
    curvature = float(found.curvature[0])
    mixed = -curvature * across * along
    second = (-form.squares - curvature * across**2, mixed)
    assert slopes("score") == pytest.approx(second, rel=1e-5, abs=1e-8 * size)
    assert slopes("selection") == pytest.approx((mixed, -curvature * along**2), rel=1e-5, abs=1e-8 * size)


@given(finite)
def test_derivatives_of_unshown_are_those_of_its_value(selection: float) -> None:
    found, step = unshown(at(selection)), 1e-5
    up, down = unshown(at(selection + step)), unshown(at(selection - step))
    assert (up.value - down.value) / (2 * step) == pytest.approx(found.slope, rel=1e-6, abs=1e-8)
    assert (up.slope - down.slope) / (2 * step) == pytest.approx(-found.curvature, rel=1e-5, abs=1e-8)


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-5, 5), st.floats(-0.9, 0.9), st.floats(0.3, 3.0))
def test_derivatives_by_the_shared_parameters(s: float, v: float, t: float, gamma: float, sigma: float) -> None:
    start = np.array([np.log(sigma), np.arctanh(gamma), s, v])

    def form_at(x: Any) -> Form:
        return Form(float(np.tanh(x[1])), float(np.exp(x[0])), gaussian=True)

    def value(x: Any) -> float:
        return float(shown(at(x[2]), at(x[3]), at(t), form_at(x)).value[0])

    def gradient(x: Any) -> Any:
        return shown_nuisance(at(x[2]), at(x[3]), at(t), form_at(x)).gradient[:, 0]

    found = shown_nuisance(at(s), at(v), at(t), form_at(start))
    steps = np.eye(4) * 1e-5
    first = np.array([value(start + step) - value(start - step) for step in steps]) / 2e-5
    second = np.array([gradient(start + step) - gradient(start - step) for step in steps]) / 2e-5
    size = 1 + np.abs(second).max() + abs(value(start))
    np.testing.assert_allclose(found.gradient[:, 0], first[:2], rtol=1e-5, atol=1e-7 * size)
    np.testing.assert_allclose(found.hessian[..., 0], second[:2], rtol=1e-5, atol=1e-7 * size)
    np.testing.assert_allclose(found.score[:, 0], second[2], rtol=1e-5, atol=1e-7 * size)
    np.testing.assert_allclose(found.selection[:, 0], second[3], rtol=1e-5, atol=1e-7 * size)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-0.9, 0.9), st.floats(0.3, 3.0))
def test_tobit_likelihood_integrates_to_one(score: float, selection: float, gamma: float, sigma: float) -> None:
    form = Form(gamma, sigma, gaussian=True)
    density = lambda target: np.exp(shown(at(score), at(selection), at(target), form).value[0])  # noqa: E731
    seen = quad(density, score - 12 * sigma, score + 12 * sigma, limit=200, epsabs=1e-11)[0]
    assert seen + np.exp(unshown(at(selection)).value[0]) == pytest.approx(1, abs=1e-8)


@given(finite, finite, finite)
def test_without_correlation_it_splits_into_square_and_probit(score: float, selection: float, target: float) -> None:
    found = shown(at(score), at(selection), at(target), Form(0.0))
    assert found.value[0] == pytest.approx(-((target - score) ** 2) + norm.logcdf(selection), rel=1e-10)
    assert found.score[0] == pytest.approx(2 * (target - score))
    assert found.selection[0] == pytest.approx(log_cdf(at(selection)).slope[0])


def test_torch_gives_the_same() -> None:
    torch: Any = pytest.importorskip("torch")
    z = np.concatenate([-np.logspace(6, -3, 50), np.logspace(-3, 6, 50)])
    for mine, theirs in zip(log_cdf(z), log_cdf(torch.from_numpy(z)), strict=True):
        np.testing.assert_allclose(theirs.numpy(), mine, rtol=1e-11, atol=1e-300)
    rows: Any = [np.linspace(-3, 3, 7), np.linspace(2, -2, 7), np.linspace(0, 1, 7)]
    form = Form(-0.4, 0.7, gaussian=True)
    functions: Any = (shown, shown_nuisance)
    for function in functions:
        for mine, theirs in zip(function(*rows, form), function(*map(torch.from_numpy, rows), form), strict=True):
            np.testing.assert_allclose(theirs.numpy(), mine, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0,), "`gamma` must be a number above -1 and below 1"),
        ((float("nan"),), "`gamma` must be"),
        ((0.1, 0.0, True), "`sigma` must be a number above 1e-100"),
        ((0.1, 2.0), "the paper's form has no sigma"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        likelihood.Form(*arguments)
