from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.optimise import Derivatives, Vector, ascent, inverse, newton


def quadratic(matrix: Any, top: Any) -> Any:
    """-(x - top)ᵀ matrix (x - top) / 2."""

    def evaluate(point: Vector) -> Derivatives:
        away = point - top
        return Derivatives(-float(away @ matrix @ away) / 2, -matrix @ away, -matrix)

    return evaluate


def log_cosh(point: Vector) -> Derivatives:
    """-Σ log cosh: Newton's undamped steps diverge from beyond 1.09."""
    value = float(np.sum(np.logaddexp(point, -point)))
    return Derivatives(-value, -np.tanh(point), -np.diag(1 - np.tanh(point) ** 2))


@given(st.integers(1, 6), st.integers(0, 1000))
def test_a_quadratic_takes_one_step(width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    root = random.normal(size=(width, width + 2))
    top = random.normal(size=width)
    found = newton(quadratic(root @ root.T + 0.1 * np.eye(width), top), np.zeros(width))
    assert (found.status, found.n_steps) == ("converged", 1)
    np.testing.assert_allclose(found.parameters, top, atol=1e-9)


@given(st.floats(-8, 8))
def test_damping_finds_the_top_from_far_away(start: float) -> None:
    found = newton(log_cosh, np.array([start]))
    assert found.converged
    assert found.parameters[0] == pytest.approx(0, abs=1e-12)


def test_a_flat_direction_is_left_alone_and_counted() -> None:
    found = newton(quadratic(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([3.0, 1.0])), np.zeros(2))
    assert found.status == "converged"
    np.testing.assert_allclose(found.parameters, [2, 2])


def test_a_direction_that_curves_upwards_is_still_climbed() -> None:
    def two_tops(point: Vector) -> Derivatives:
        x = point[0]
        return Derivatives(float(x**2 - x**4 / 4), np.array([2 * x - x**3]), np.array([[2 - 3 * x**2]]))

    found = newton(two_tops, np.array([0.1]))
    assert found.parameters[0] == pytest.approx(np.sqrt(2))


def test_it_says_how_it_ended() -> None:
    assert newton(log_cosh, np.array([5.0]), max_steps=1).status == "max_steps"
    nothing = Derivatives(np.nan, np.zeros(1), np.eye(1))
    assert newton(lambda _: nothing, np.zeros(1)).status == "non_finite"


def test_a_step_to_where_the_slope_is_lost_is_halved() -> None:
    def lost_beyond_1(point: Vector) -> Derivatives:
        x = float(point[0])
        return Derivatives(-((x - 0.9) ** 2), np.array([1.8 - 2 * x if x < 1 else np.nan]), np.array([[-1.5]]))

    found = newton(lost_beyond_1, np.zeros(1))
    assert found.converged
    assert found.parameters[0] == pytest.approx(0.9)


def test_a_line_search_that_fails_is_not_called_non_finite() -> None:
    def misleading(point: Vector) -> Derivatives:
        return Derivatives(-float(abs(point[0])), np.array([1.0]), np.array([[-1.0]]))  # the slope promises a gain

    found = newton(misleading, np.zeros(1))
    assert (found.status, found.n_steps) == ("line_search", 0)
    np.testing.assert_array_equal(found.parameters, [0.0])

    def alone(point: Vector) -> Derivatives:
        return Derivatives(0.0 if point[0] == 0 else np.nan, np.array([1.0]), np.array([[-1.0]]))

    assert newton(alone, np.zeros(1)).status == "non_finite"


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_size_of_parameters_does_not_matter(scale: float) -> None:
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    turn = np.diag([scale, 1.0])
    step = ascent(Derivatives(0.0, turn @ np.ones(2), -turn @ matrix @ turn))
    np.testing.assert_allclose(turn @ step, np.linalg.solve(matrix, np.ones(2)), rtol=1e-12)
    np.testing.assert_allclose(turn @ inverse(turn @ matrix @ turn) @ turn, np.linalg.inv(matrix), rtol=1e-12)


def test_inverse_of_a_singular_matrix_is_that_of_what_is_not() -> None:
    root = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    matrix = root @ root.T
    found = inverse(matrix)
    np.testing.assert_allclose(matrix @ found @ matrix, matrix, atol=1e-12)


def test_inverse_of_what_curves_both_ways_is_that_of_what_curves_downwards() -> None:
    """Where a fit ends short of its optimum: no variance is negative."""
    np.testing.assert_allclose(inverse(np.diag([4.0, -1.0])), np.diag([0.25, 0.0]), atol=1e-12)
    np.testing.assert_allclose(inverse(np.array([[1.0, 2.0], [2.0, 1.0]])), np.full((2, 2), 1 / 6), rtol=1e-12)
