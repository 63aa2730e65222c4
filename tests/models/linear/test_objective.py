"""The objective of CLD and its derivatives."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import objective, scene

from cldrank.models.linear import row_blocks as rows_module
from cldrank.optimise import newton

GAMMAS = [0.3, -0.5]
METHODS = ["standard", "minmax", "log", None]


@settings(max_examples=20)
@given(st.integers(0, 50), st.sampled_from(GAMMAS), st.sampled_from(METHODS), st.sampled_from(["ips", "clipped"]))
def test_derivatives_of_the_objective(seed: int, gamma: float, method: Any, target: str) -> None:
    options: Any = {"block_rows": 50}
    problem = objective(scene(seed, queries=10), gamma, 0.01, method=method, target=target, **options)
    point = np.random.default_rng(seed).normal(size=problem.penalties.size) * 0.3
    here = problem.evaluate(point)
    steps = np.eye(len(point)) * 1e-5
    first = [(problem.evaluate(point + step).value - problem.evaluate(point - step).value) / 2e-5 for step in steps]
    second = [
        (problem.evaluate(point + step).gradient - problem.evaluate(point - step).gradient) / 2e-5 for step in steps
    ]
    np.testing.assert_allclose(here.gradient, first, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(here.hessian, second, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(here.hessian, here.hessian.T)


@pytest.mark.parametrize(("gamma", "method"), [(0.3, "standard"), (-0.5, None)])
def test_torch_leads_to_the_same_optimum(gamma: float, method: Any) -> None:
    pytest.importorskip("torch")
    given = scene(3)
    exact = newton(objective(given, gamma, method=method).evaluate, np.zeros(objective(given, gamma).penalties.size))
    problem = objective(given, gamma, method=method, device="cpu")
    found = newton(problem.evaluate, np.zeros(problem.penalties.size))
    assert found.converged
    np.testing.assert_allclose(found.parameters, exact.parameters, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_compiled_sums_are_the_same(gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scene(4)
    point = np.random.default_rng(0).normal(size=objective(given, gamma).penalties.size) * 0.3
    plain = objective(given, gamma, block_rows=31).evaluate(point)
    monkeypatch.setattr(rows_module, "_WORTH_COMPILING", 0)
    problem = objective(given, gamma, block_rows=31)
    compiled = problem.evaluate(point)
    assert compiled.value == pytest.approx(plain.value, rel=1e-13)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(compiled.hessian, plain.hessian, rtol=1e-11, atol=1e-13)
