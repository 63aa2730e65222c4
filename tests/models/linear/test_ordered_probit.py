from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm

from cldrank import scaling
from cldrank.models.linear.design import Design
from cldrank.models.linear.ordered_probit import GaussianInterval, OrderedProbit, log_interval
from cldrank.models.linear.row_blocks import LocalRows, View
from cldrank.models.targets import Observations


def slope(function: Callable[[float], float], at: float) -> float:
    step = 1e-5
    return (function(at + step) - function(at - step)) / (2 * step)


def interval(a: float, b: float) -> GaussianInterval:
    return log_interval(np.array([a]), np.array([b]))


@given(st.floats(-6, 6), st.floats(0.05, 6))
def test_derivatives_are_those_of_the_value(a: float, width: float) -> None:
    b = a + width
    found = interval(a, b)
    np.testing.assert_allclose(found.a, slope(lambda x: interval(x, b).value[0], a), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.b, slope(lambda x: interval(a, x).value[0], b), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.aa, slope(lambda x: interval(x, b).a[0], a), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.ab, slope(lambda x: interval(a, x).a[0], b), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.bb, slope(lambda x: interval(a, x).b[0], b), rtol=1e-6, atol=1e-6)


@settings(max_examples=30)
@given(st.floats(-6, 6), st.floats(0.05, 6))
def test_correction_and_shrinkage_are_moments_of_the_truncated_gaussian(a: float, width: float) -> None:
    found, truth = interval(a, a + width), truncnorm(a, a + width)
    np.testing.assert_allclose(found.correction, truth.mean(), atol=1e-8)
    np.testing.assert_allclose(1 - found.shrinkage, truth.var(), atol=1e-7)


@pytest.mark.parametrize(("far", "sign"), [(1e2, 1), (1e6, -1)])
def test_far_away_everything_stays_finite(far: float, sign: int) -> None:
    places = sign * far + np.array([0.0, 0.5, 2.0])
    found = log_interval(np.array([-np.inf, *places]), np.array([*places, np.inf]))
    assert np.isfinite(found).all()
    assert ((found.shrinkage >= 0) & (found.shrinkage <= 1)).all()


def test_the_whole_line_says_nothing() -> None:
    found = interval(-np.inf, np.inf)
    np.testing.assert_array_equal(found, np.zeros((6, 1)))


def drawn(rows: int = 300, seed: int = 0, block_rows: int | None = None, all_shown: bool = False) -> OrderedProbit:
    """Candidates at three places or none, some of them at two."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 2)).astype(np.float32)
    index = features @ [1.0, -0.5] + random.normal(size=rows)
    place = np.searchsorted([-1.5, -1.0, 0.0], -index) + 1  # 4 is not shown
    if all_shown:
        place = np.minimum(place, 3)
    shown = np.flatnonzero(place < 4)
    owner = np.sort(np.concatenate([shown, shown[:5]]))
    level = place[owner].astype(np.int64)
    level[np.flatnonzero(np.diff(owner) == 0)] = 1
    weight = random.integers(1, 5, len(owner)).astype(np.float64)
    absent = np.where(place == 4, 2.0, 0.0)
    nothing = np.zeros(len(owner))
    unique, first = np.unique(owner, return_index=True)
    offsets, everything = np.append(first, len(owner)), np.arange(rows)
    entries = Observations(everything, everything // 10, absent, unique, offsets, nothing, weight, level=level)
    design = Design(LocalRows(features, entries, View(scaling.fit(None, features)), block_rows=block_rows))
    return OrderedProbit(design, np.array([0, 1]), np.array([0.01, 0.02]))


@pytest.mark.parametrize("all_shown", [False, True])
def test_gradient_and_hessian_are_those_of_the_value(all_shown: bool) -> None:
    probit = drawn(all_shown=all_shown)
    point = probit.start() + np.linspace(0.1, -0.1, len(probit.penalty))
    here = probit.evaluate(point)
    for index in range(len(probit.penalty)):
        aside = 1e-5 * np.eye(len(probit.penalty))[index]
        up, down = probit.evaluate(point + aside), probit.evaluate(point - aside)
        np.testing.assert_allclose(here.gradient[index], (up.value - down.value) / 2e-5, atol=1e-8)
        np.testing.assert_allclose(here.hessian[index], (up.gradient - down.gradient) / 2e-5, atol=1e-8)


def test_the_size_of_blocks_changes_nothing() -> None:
    whole, blocks = drawn(), drawn(block_rows=7)
    point = whole.start()
    np.testing.assert_allclose(blocks.evaluate(point).hessian, whole.evaluate(point).hessian, atol=1e-12)


def test_thresholds_out_of_order_are_not_finite() -> None:
    probit = drawn()
    assert not probit.evaluate(probit.start()[[0, 1, 3, 2, 4]]).finite
