"""Standard errors, and the estimates that carry them."""

from typing import Any

import numpy as np
import pytest
import recovery
from scenes import by_session, objective, scene

from cldrank import scaling
from cldrank.likelihood import Form
from cldrank.methods.observing import observe
from cldrank.models.linear.inference import Estimates, covariance, determined
from cldrank.models.linear.least_squares import regress
from cldrank.models.linear.rows import LocalRows, View
from cldrank.models.linear.selection_fit import fit_selection
from cldrank.models.targets import Targets
from cldrank.optimise import Derivatives

METHODS = ["standard", "minmax", "log", None]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cluster", [False, True])
def test_regression_equals_ordinary_least_squares_over_impressions(method: Any, cluster: bool) -> None:
    given = scene(5)
    rows, targets = by_session(given)
    scaled = scaling.fit(method, given.data.features)
    observed = observe(given.data, given.clicks, given.propensities)
    mean, weight, spread = observed.by_row()
    own = Targets(observed.rows[observed.shown], mean, weight, spread, observed.queries[observed.shown])
    own_rows = LocalRows(given.data.features, own, View(scaled), rows=own.rows, block_rows=11)
    found = regress(own_rows, given.data.feature_names, 0.0, cluster=cluster)
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
