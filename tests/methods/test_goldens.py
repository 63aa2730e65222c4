"""The likelihood against R's sampleSelection and glm, on the Mroz labour-supply data (see tests/goldens)."""

from typing import Any

import numpy as np
import pytest
from mroz import Floats, Mroz, goldens

from cldrank.likelihood import Form, shown, shown_nuisance, unshown
from cldrank.models.linear.design import Design
from cldrank.models.linear.objective import SelectionObjective, Shared
from cldrank.models.linear.rows import LocalRows, View
from cldrank.models.linear.selection_fit import SelectionFit, fit_profile, fit_selection
from cldrank.models.targets import Observations
from cldrank.optimise import Derivatives, inverse, newton
from cldrank.scaling import fit as fit_scaling

MROZ = Mroz()
GOLDENS = goldens()
ML = GOLDENS["maximum_likelihood"]
HIGHEST = GOLDENS["maximum_likelihood_highest"]
BETA, OMEGA = np.array(ML["outcome"]["coefficients"]), np.array(ML["selection"]["coefficients"])


def tobit(parameters: Floats, form: Form) -> Derivatives:
    """The type-II Tobit log-likelihood by β and ω, assembled from its rows; σ and γ too where they are among them."""
    X, Z = MROZ.outcome[MROZ.works], MROZ.selection[MROZ.works]
    idle = MROZ.selection[~MROZ.works]
    split, end = X.shape[1], X.shape[1] + Z.shape[1]
    beta, omega = parameters[:split], parameters[split:end]
    if len(parameters) > end:
        form = Form(float(np.tanh(parameters[-1])), float(np.exp(parameters[-2])), gaussian=True)
    seen = shown(X @ beta, Z @ omega, MROZ.wage[MROZ.works], form)
    unseen = unshown(idle @ omega)
    gradient = np.concatenate([X.T @ seen.score, Z.T @ seen.selection + idle.T @ unseen.slope])
    index = np.hstack([X * form.direction[0], Z * form.direction[1]])
    hessian = -index.T @ (index * seen.curvature[:, None])
    hessian[:split, :split] -= form.squares * X.T @ X
    hessian[split:, split:] -= idle.T @ (idle * unseen.curvature[:, None])
    if len(parameters) > end:
        extra = shown_nuisance(X @ beta, Z @ omega, MROZ.wage[MROZ.works], form)
        mixed = np.vstack([X.T @ extra.score.T, Z.T @ extra.selection.T])
        hessian = np.block([[hessian, mixed], [mixed.T, extra.hessian.sum(axis=2)]])
        gradient = np.concatenate([gradient, extra.gradient.sum(axis=1)])
    return Derivatives(float(seen.value.sum() + unseen.value.sum()), gradient, hessian)


def probit(omega: Floats) -> Derivatives:
    """The weighted probit: who works has the likelihood of the unshown with the sign of the selection turned."""
    sign = np.where(MROZ.works, -1.0, 1.0)
    rows = unshown(sign * (MROZ.selection @ omega))
    return Derivatives(
        float(MROZ.weights @ rows.value),
        MROZ.selection.T @ (MROZ.weights * sign * rows.slope),
        -MROZ.selection.T @ (MROZ.selection * (MROZ.weights * rows.curvature)[:, None]),
    )


def errors(evaluation: Derivatives) -> Floats:
    found: Floats = np.sqrt(np.diag(inverse(-evaluation.hessian)))
    return found


def test_with_rs_sigma_and_rho_newton_ends_at_rs_coefficients() -> None:
    form = Form(ML["rho"], ML["sigma"], gaussian=True)
    start = np.zeros(len(BETA) + len(OMEGA))
    solution = newton(lambda point: tobit(point, form), start)
    assert solution.status == "converged"
    assert solution.flat == 0
    np.testing.assert_allclose(solution.parameters, np.concatenate([BETA, OMEGA]), rtol=1e-6)
    np.testing.assert_allclose(tobit(solution.parameters, form).value, ML["log_likelihood"], rtol=1e-12)


def test_sigma_and_rho_estimated_end_at_rs_maximum_with_its_standard_errors() -> None:
    two_step = GOLDENS["two_step"]  # R starts here too: with γ free the likelihood is not concave
    outcome, selection = two_step["outcome"]["coefficients"][:-1], two_step["selection"]["coefficients"]
    start = np.array([*outcome, *selection, np.log(two_step["sigma"]), np.arctanh(two_step["rho"])])
    form = Form(0.0, gaussian=True)
    solution = newton(lambda point: tobit(point, form), start)
    assert solution.status == "converged"
    sigma, rho = np.exp(solution.parameters[-2]), np.tanh(solution.parameters[-1])
    np.testing.assert_allclose(solution.parameters[:-2], np.concatenate([BETA, OMEGA]), rtol=1e-6)
    np.testing.assert_allclose([sigma, rho], [ML["sigma"], ML["rho"]], rtol=1e-7)
    np.testing.assert_allclose(solution.value, ML["log_likelihood"], rtol=1e-12)
    found = errors(tobit(solution.parameters, form))
    expected = ML["outcome"]["standard_errors"] + ML["selection"]["standard_errors"]
    np.testing.assert_allclose(found[:-2], expected, rtol=1e-5)
    np.testing.assert_allclose(found[-2:] * [sigma, 1 - rho**2], ML["sigma_rho_standard_errors"], rtol=1e-5)


def test_weighted_probit_is_that_of_glm() -> None:
    golden = GOLDENS["weighted_probit"]
    solution = newton(probit, np.zeros(len(OMEGA)))
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.parameters, golden["selection"]["coefficients"], rtol=1e-7)
    np.testing.assert_allclose(solution.value, golden["log_likelihood"], rtol=1e-12)
    np.testing.assert_allclose(errors(probit(solution.parameters)), golden["observed_standard_errors"], rtol=1e-7)


# -- the same through the machinery of the estimators ------------------------------------------------------------

NAMES = ("exper", "exper^2", "educ", "city", "age", "age^2", "faminc", "kids")
OUTCOME, SELECTION = np.arange(4), np.array([2, 4, 5, 6, 7])  # education is in both
R_OUTCOME, R_SELECTION = [1, 2, 3, 4, 0], [5, 1, 2, 3, 4, 0]  # R puts the intercept first and education last


def objective(form: Form, free: tuple[Shared, ...] = (), scaling: str | None = None) -> SelectionObjective:
    """The women as candidates: those who work are shown, once, with their wage for a target."""
    columns = [MROZ.outcome[:, 1:], MROZ.selection[:, 1:5]]
    features = np.column_stack(columns).astype(np.float32)  # small whole numbers: nothing is rounded
    shown = np.flatnonzero(MROZ.works)
    count = np.arange(len(shown) + 1)
    each, rows = np.ones(len(shown)), np.arange(len(features))
    absent = np.where(MROZ.works, 0.0, 1.0)
    observed = Observations(rows, rows, absent, shown, count, MROZ.wage[shown], each, 0 * each)
    design = Design(LocalRows(features, observed, View(fit_scaling(scaling, features)), block_rows=100))
    return SelectionObjective(design, form, 0.0, relevance=OUTCOME, selection=SELECTION, free=free)


def check(fit: SelectionFit, golden: dict[str, Any]) -> None:
    assert fit.solution.status == "converged"
    relevance, selection = fit.estimates.of("relevance"), fit.estimates.of("selection")
    assert relevance.names == ("exper", "exper^2", "educ", "city", "(intercept)")
    assert selection.names == ("educ", "age", "age^2", "faminc", "kids", "(intercept)")
    np.testing.assert_allclose(relevance.values, np.array(golden["outcome"]["coefficients"])[R_OUTCOME], rtol=1e-6)
    np.testing.assert_allclose(selection.values, np.array(golden["selection"]["coefficients"])[R_SELECTION], rtol=1e-6)
    np.testing.assert_allclose(fit.log_likelihood, golden["log_likelihood"], rtol=1e-10)


@pytest.mark.parametrize("golden", [ML, HIGHEST], ids=["unasked", "highest"])
def test_the_objective_with_rs_sigma_and_rho_ends_at_rs_coefficients(golden: dict[str, Any]) -> None:
    check(fit_selection(objective(Form(golden["rho"], golden["sigma"], gaussian=True)), NAMES), golden)


def test_the_profile_finds_the_higher_of_the_two_tops_with_its_standard_errors() -> None:
    model = objective(Form(0.0, gaussian=True), free=("log_sigma",))
    fit = fit_profile(model, NAMES, np.zeros(model.n_parameters))
    check(fit, HIGHEST)
    noise = fit.estimates.of("noise")
    assert noise.names == ("sigma", "gamma")
    np.testing.assert_allclose(noise.values, [HIGHEST["sigma"], HIGHEST["rho"]], rtol=1e-6)
    np.testing.assert_allclose(noise.standard_errors, HIGHEST["sigma_rho_standard_errors"], rtol=1e-5)
    expected = np.array(HIGHEST["outcome"]["standard_errors"])[R_OUTCOME]
    np.testing.assert_allclose(fit.estimates.of("relevance").standard_errors, expected, rtol=1e-5)
    expected = np.array(HIGHEST["selection"]["standard_errors"])[R_SELECTION]
    np.testing.assert_allclose(fit.estimates.of("selection").standard_errors, expected, rtol=1e-5)


def test_scaling_leaves_the_likelihood_as_it_is() -> None:
    fit = fit_selection(objective(Form(ML["rho"], ML["sigma"], gaussian=True), scaling="minmax"), NAMES)
    assert fit.solution.status == "converged"
    np.testing.assert_allclose(fit.log_likelihood, ML["log_likelihood"], rtol=1e-9)
