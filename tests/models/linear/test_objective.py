"""The objective of CLD and its derivatives."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import objective, scene

from cldrank import likelihood, scaling
from cldrank.likelihood import Form
from cldrank.models.linear import rows as rows_module
from cldrank.optimise import newton

FORMS = [Form(0.3), Form(-0.5, 0.7, gaussian=True)]
METHODS = ["standard", "minmax", "log", None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["ips", "clicks"])
def test_the_objective_is_the_written_out_likelihood(form: Form, target: str) -> None:
    given = scene()
    problem = objective(given, form, 0.01, target=target)
    point = np.random.default_rng(1).normal(size=problem.n_parameters) * 0.3
    scaled = scaling.fit("standard", given.data.features).transform(given.data.features).astype(np.float64)
    extended = np.hstack([scaled, np.ones((len(scaled), 1))])
    beta, omega = point[:4], point[4:]
    observed = problem.observed
    rows = np.repeat(observed.rows[observed.shown], np.diff(observed.offsets))
    seen = likelihood.shown(extended[rows] @ beta, extended[rows] @ omega, observed.target, form).value
    away = likelihood.log_cdf(-extended[observed.rows] @ omega).value
    mean = (observed.weight @ seen + observed.absent @ away) / (observed.weight.sum() + observed.absent.sum())
    penalty = 0.01 * (beta[:3] @ beta[:3] + omega[:3] @ omega[:3])
    assert problem.evaluate(point).value == pytest.approx(mean - penalty, rel=1e-12)


@settings(max_examples=20)
@given(
    st.integers(0, 50),
    st.sampled_from(FORMS),
    st.sampled_from(METHODS),
    st.sampled_from(["ips", "clicks"]),
    st.booleans(),
)
def test_derivatives_of_the_objective(seed: int, form: Form, method: Any, target: str, intercept: bool) -> None:
    free: Any = ("log_sigma", "atanh_gamma") if form.gaussian else ()
    columns = {"relevance": np.array([0, 2]), "selection": np.array([0, 1])}
    options: Any = {"fit_intercept": intercept, "free": free, "block_rows": 50, **columns}
    problem = objective(scene(seed, queries=10), form, 0.01, method=method, target=target, **options)
    point = np.random.default_rng(seed).normal(size=problem.n_parameters) * 0.3
    here = problem.evaluate(point)
    steps = np.eye(len(point)) * 1e-5
    first = [(problem.evaluate(point + step).value - problem.evaluate(point - step).value) / 2e-5 for step in steps]
    second = [
        (problem.evaluate(point + step).gradient - problem.evaluate(point - step).gradient) / 2e-5 for step in steps
    ]
    np.testing.assert_allclose(here.gradient, first, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(here.hessian, second, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(here.hessian, here.hessian.T)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", METHODS)
def test_torch_leads_to_the_same_optimum(form: Form, method: Any) -> None:
    pytest.importorskip("torch")
    given = scene(3)
    exact = newton(objective(given, form, method=method).evaluate, np.zeros(objective(given, form).n_parameters))
    problem = objective(given, form, method=method, device="cpu")
    found = newton(problem.evaluate, np.zeros(problem.n_parameters))
    assert found.converged
    np.testing.assert_allclose(found.parameters, exact.parameters, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_compiled_sums_are_the_same(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scene(4)
    free: Any = {"free": ("log_sigma",)} if form.gaussian else {}
    point = np.random.default_rng(0).normal(size=objective(given, form, **free).n_parameters) * 0.3
    plain = objective(given, form, block_rows=31, **free).evaluate(point)
    monkeypatch.setattr(rows_module, "_WORTH_COMPILING", 0)
    problem = objective(given, form, block_rows=31, **free)
    compiled = problem.evaluate(point)
    assert compiled.value == pytest.approx(plain.value, rel=1e-13)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(compiled.hessian, plain.hessian, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(problem.clustered(point), objective(given, form, **free).clustered(point), rtol=1e-9)


def test_clustered_sum_is_that_of_the_gradients_of_single_queries() -> None:
    given = scene(2)
    form = Form(0.4, 0.8, gaussian=True)
    options: Any = {"free": ("log_sigma", "atanh_gamma")}
    problem = objective(given, form, 0.0, method=None, block_rows=5, **options)
    point = np.random.default_rng(0).normal(size=problem.n_parameters) * 0.2
    expected = np.zeros((len(point), len(point)))
    for query in np.unique(problem.observed.queries):
        kept = problem.observed.queries == query
        chosen = kept[problem.observed.shown]
        entries = np.repeat(chosen, np.diff(problem.observed.offsets))
        alone = objective(given, form, 0.0, method=None, block_rows=5, **options)
        weights = {"absent": problem.observed.absent * kept, "weight": problem.observed.weight * entries}
        alone.design.rows.observed = replace(problem.observed, **weights)
        gradient = alone.evaluate(point).gradient * problem.total
        expected += np.outer(gradient, gradient)
    np.testing.assert_allclose(problem.clustered(point), expected, rtol=1e-9, atol=1e-9)
