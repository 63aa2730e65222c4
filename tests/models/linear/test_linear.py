"""The machinery of linear methods: rows from clicks, designs, the objective, inference."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recovery
from hypothesis import given, settings
from hypothesis import strategies as st
from scenes import by_session, nearly_collinear, objective, scene

from cldrank import likelihood, scaling
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.likelihood import Form
from cldrank.models.linear import design as designs
from cldrank.models.linear.design import Design, in_order
from cldrank.models.linear.fitting import fit_selection
from cldrank.models.linear.inference import Estimates, covariance, determined
from cldrank.models.linear.least_squares import Rows, regress
from cldrank.models.linear.rows import observe
from cldrank.optimise import Derivatives, newton
from cldrank.propensity import Propensities

FORMS = [Form(0.3), Form(-0.5, 0.7, gaussian=True), None]
METHODS = ["standard", "minmax", "quantile", None]


# -- rows ------------------------------------------------------------------------------------------------------------


def test_rows_of_clicks_weigh_what_they_stand_for() -> None:
    data = RankingDataset.from_arrays(np.eye(7), [1, 1, 1, 2, 2, 3, 3])
    table = ClickTable.from_arrays(
        data, row=[0, 1, 0, 5], position=[1, 2, 2, 1], impressions=[6, 6, 4, 5], clicks=[3, 3, 1, 5]
    )
    found = observe(data, table, Propensities.power(1, 2))
    np.testing.assert_array_equal(found.rows, [0, 1, 2, 5, 6])  # query 2 was never displayed
    np.testing.assert_array_equal(found.absent, [0, 0, 10, 0, 5])  # ten pages: six and four impressions at position 2
    np.testing.assert_allclose(found.target, [0.5, 0.5, 1, 1])
    np.testing.assert_array_equal(found.weight, [6, 4, 6, 5])
    assert (found.total, found.n_rows) == (36, 6)
    pairs = observe(data, table, Propensities.power(1, 2), "clicks")
    np.testing.assert_allclose(pairs.target, [1, 0, 2, 0, 2, 0, 1])
    np.testing.assert_array_equal(pairs.weight, [3, 3, 1, 3, 3, 3, 5])
    np.testing.assert_array_equal(pairs.offsets, [0, 4, 6, 7])
    assert pairs.total == 36


def test_rows_of_regression_keep_mean_and_spread_of_single_impressions() -> None:
    given = scene()
    rows, targets = by_session(given)
    for target in ("expected", "clicks"):
        observed = observe(given.data, given.clicks, given.propensities, target)
        mean, weight, spread = observed.by_row()
        for place, row in enumerate(observed.rows[observed.shown]):
            own = targets[rows == row]
            assert weight[place] == len(own)
            assert mean[place] == pytest.approx(own.mean())
            assert spread[place] == pytest.approx(own.var(), abs=1e-12)


# -- the objective ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["expected", "clicks"])
def test_the_objective_is_the_written_out_likelihood(form: Form | None, target: str) -> None:
    given = scene()
    problem = objective(given, form, 0.01, target=target)
    point = np.random.default_rng(1).normal(size=problem.n_parameters) * 0.3
    scaled = scaling.fit("standard", given.data.features).transform(given.data.features).astype(np.float64)
    extended = np.hstack([scaled, np.ones((len(scaled), 1))])
    beta, omega = (np.zeros(4), point) if form is None else (point[:4], point[4:])
    observed = problem.observed
    rows = np.repeat(observed.rows[observed.shown], np.diff(observed.offsets))
    if form is None:
        seen = likelihood.log_cdf(extended[rows] @ omega).value
    else:
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
    st.sampled_from(["expected", "clicks"]),
    st.booleans(),
)
def test_derivatives_of_the_objective(seed: int, form: Form | None, method: Any, target: str, intercept: bool) -> None:
    free: Any = ("log_sigma", "atanh_gamma") if form and form.gaussian else ()
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
def test_float32_sums_and_torch_lead_to_the_same_optimum(form: Form | None, method: Any) -> None:
    pytest.importorskip("torch")
    given = scene(3)
    exact = newton(objective(given, form, method=method).evaluate, np.zeros(objective(given, form).n_parameters))
    for options in ({"narrow": True}, {"device": "cpu"}, {"device": "cpu", "narrow": True}):
        problem = objective(given, form, method=method, **options)
        found = newton(problem.evaluate, np.zeros(problem.n_parameters))
        assert found.converged
        np.testing.assert_allclose(found.parameters, exact.parameters, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("free", [(), ("log_sigma",)])
def test_standard_errors_of_float32_sums_are_those_of_float64(free: Any) -> None:
    given = nearly_collinear(scene(queries=100, width=2), 1e-3)
    form = Form(0.1, 0.7, gaussian=True) if free else Form(0.1)
    fits = {}
    for narrow in (True, False):
        problem = objective(given, form, 1e-6, narrow=narrow, free=free)
        fits[narrow] = fit_selection(problem, given.data.feature_names)
        assert fits[narrow].solution.converged
    reference = fits[False].estimates
    np.testing.assert_allclose(fits[True].estimates.standard_errors, reference.standard_errors, rtol=1e-7)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("narrow", [True, False])
def test_compiled_sums_are_the_same(form: Form | None, narrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scene(4)
    free: Any = {"free": ("log_sigma",)} if form and form.gaussian else {}
    point = np.random.default_rng(0).normal(size=objective(given, form, **free).n_parameters) * 0.3
    plain = objective(given, form, narrow=narrow, block_rows=31, **free).evaluate(point)
    monkeypatch.setattr(designs, "_WORTH_COMPILING", 0)
    problem = objective(given, form, narrow=narrow, block_rows=31, **free)
    compiled = problem.evaluate(point)
    assert compiled.value == pytest.approx(plain.value, rel=1e-13)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        compiled.hessian, plain.hessian, rtol=1e-5 if narrow else 1e-11, atol=1e-6 if narrow else 1e-13
    )
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
        alone = problem.varied(form, problem.free)
        alone._absent = problem.observed.absent * kept
        alone._weight = problem.observed.weight * entries
        alone._fixed = {}
        gradient = alone.evaluate(point).gradient * problem.observed.total
        expected += np.outer(gradient, gradient)
    np.testing.assert_allclose(problem.clustered(point), expected, rtol=1e-9, atol=1e-9)


# -- designs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kept", [0, 1 << 30])
def test_a_design_gives_all_rows_whether_kept_or_made_anew(
    method: Any, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(designs, "_KEPT_BYTES", kept)
    data = scene().data
    np.save(tmp_path / "features.npy", data.features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    rows = np.r_[3:40, 50, 60:90]
    columns = np.array([0, 2])
    scaled = scaling.fit(method, data.features)
    design = Design(mapped, scaled, rows=rows, columns=columns, block_rows=7)
    wide = np.vstack([block.wide for block in design.blocks()])
    expected = scaled.transform(data.features)[np.ix_(rows, columns)].astype(np.float64)
    np.testing.assert_allclose(wide[:, :-1], (expected - design.center[:-1]) * design.factor[:-1], rtol=1e-12)
    np.testing.assert_array_equal(wide[:, -1], 1)
    np.testing.assert_allclose(np.vstack([block.narrow for block in design.blocks()]), wide, rtol=1e-6, atol=1e-6)


def test_work_in_threads_comes_back_in_order_and_errors_come_through() -> None:
    assert list(in_order(lambda number: number * 2, range(100))) == list(range(0, 200, 2))
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda number: 1 // number, [1, 1, 0, 1]))


def test_devices_and_blocks_that_cannot_be_are_refused() -> None:
    data = scene().data
    scaled = scaling.fit(None, data.features)
    with pytest.raises(UsageError, match="block_rows must be a whole number"):
        Design(data.features, scaled, block_rows=0)
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="device 'nowhere' cannot be used here"):
        Design(data.features, scaled, device="nowhere")


# -- inference -------------------------------------------------------------------------------------------------------


def test_probit_equals_textbook_newton() -> None:
    given = scene(4)
    problem = objective(given, None, 0.0)
    found = fit_selection(problem, given.data.feature_names)
    scaled = scaling.fit("standard", given.data.features).transform(given.data.features).astype(np.float64)
    X = np.hstack([scaled, np.ones((len(scaled), 1))])[problem.observed.rows]
    shown = np.zeros(len(X), dtype=bool)
    shown[problem.observed.shown] = True
    weight = problem.observed.absent.copy()
    weight[shown] = problem.observed.by_row()[1]
    sign = np.where(shown, 1.0, -1.0)
    omega = np.zeros(4)
    for _ in range(50):
        terms = likelihood.log_cdf(sign * (X @ omega))
        information = (X.T * (weight * terms.curvature)) @ X
        omega = omega + np.linalg.solve(information, X.T @ (weight * sign * terms.slope))
    own = np.append(found.selection, found.selection_intercept)
    np.testing.assert_allclose(own, omega, rtol=1e-9)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(found.estimates.standard_errors, errors, rtol=1e-8)
    assert found.log_likelihood == pytest.approx(float(weight @ likelihood.log_cdf(sign * (X @ omega)).value))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cluster", [False, True])
def test_regression_equals_ordinary_least_squares_over_impressions(method: Any, cluster: bool) -> None:
    given = scene(5)
    rows, targets = by_session(given)
    scaled = scaling.fit(method, given.data.features)
    observed = observe(given.data, given.clicks, given.propensities)
    mean, weight, spread = observed.by_row()
    own = Rows(observed.rows[observed.shown], mean, weight, spread, observed.queries[observed.shown])
    found = regress(scaled, given.data.features, own, given.data.feature_names, 0.0, cluster=cluster, block_rows=11)
    X = np.hstack([scaled.transform(given.data.features), np.ones((given.data.n_rows, 1))])[rows].astype(np.float64)
    beta = np.linalg.lstsq(X, targets, rcond=None)[0]
    residual = targets - X @ beta
    inverse = np.linalg.inv(X.T @ X)
    expected = residual @ residual / len(residual) * inverse
    if cluster:
        queries = given.data.row_queries[rows]
        sums = np.array([X[queries == query].T @ residual[queries == query] for query in np.unique(queries)])
        expected = len(sums) / (len(sums) - 1) * inverse @ sums.T @ sums @ inverse
    np.testing.assert_allclose(found.estimates.values, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.estimates.covariance, expected, rtol=1e-5, atol=1e-12)
    gaussian = -0.5 * (len(residual) * np.log(2 * np.pi * found.sigma**2) + residual @ residual / found.sigma**2)
    assert found.log_likelihood == pytest.approx(gaussian)


def test_standard_errors_do_not_depend_on_how_the_design_is_centred() -> None:
    given = scene(6)
    names = given.data.feature_names
    wide = scaling.Standard(clip=100)
    plain = fit_selection(objective(given, Form(0.2), 0.0, method=wide), names).estimates
    raw = fit_selection(objective(given, Form(0.2), 0.0, method=None), names).estimates
    factor = scaling.fit(wide, given.data.features).parameters["factor"]
    for part in ("relevance", "selection"):
        np.testing.assert_allclose(raw.error_of(part, names), plain.error_of(part, names) * factor, rtol=1e-5)


def test_estimates_print_and_give_errors_by_name() -> None:
    table = Estimates(("relevance", "selection"), ("a", "a"), np.array([1.0, -2.0]), np.diag([0.25, 0.0]))
    assert repr(table).splitlines()[0].split() == ["relevance", "estimate", "std.", "error", "z", "p"]
    np.testing.assert_array_equal(table.error_of("relevance", ["b", "a"]), [np.nan, 0.5])
    assert table.of("selection").values[0] == -2
    assert np.isnan(table.z[1])
    assert table.p[0] == pytest.approx(0.0455, abs=1e-4)


def test_clusters_of_one_row_and_columns_that_are_zero() -> None:
    assert np.isnan(covariance(np.eye(1), np.eye(1), clusters=1)).all()
    np.testing.assert_array_equal(determined(np.diag([0.0, 1.0])), [True, False])


def test_standard_errors_of_sigma_and_gamma_are_those_of_the_likelihood_by_sigma_and_gamma() -> None:
    """The fit runs over log σ and atanh γ; here the curvature is measured over σ and γ themselves."""
    problem = recovery.draw(0, rows=1000)
    fit = recovery.refit(problem)
    assert fit.solution.converged
    linear, noise = fit.solution.parameters[:-2], fit.estimates.of("noise")
    assert noise.names == ("sigma", "gamma")

    def at(sigma: float, gamma: float) -> Derivatives:
        return problem.varied(Form(gamma, sigma, gaussian=True), ()).evaluate(linear)

    step = 1e-4
    near = {(i, j): at(*(noise.values + step * np.array([i, j]))) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    mixed = [
        (near[1, 0].gradient - near[-1, 0].gradient) / (2 * step),
        (near[0, 1].gradient - near[0, -1].gradient) / (2 * step),
    ]
    values = {key: here.value for key, here in near.items()}
    cross = (values[1, 1] - values[1, -1] - values[-1, 1] + values[-1, -1]) / (4 * step**2)
    own = [values[1, 0] + values[-1, 0] - 2 * values[0, 0], values[0, 1] + values[0, -1] - 2 * values[0, 0]]
    noise_block = np.diag(own) / step**2 + np.array([[0, cross], [cross, 0]])
    hessian = np.block([[near[0, 0].hessian, np.transpose(mixed)], [np.array(mixed), noise_block]])
    expected = covariance(-hessian * problem.observed.total)[-2:, -2:]
    np.testing.assert_allclose(noise.covariance, expected, rtol=1e-3)
