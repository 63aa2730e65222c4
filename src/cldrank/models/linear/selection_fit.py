"""CLD with linear relevance and linear selection: from observations to the optimum, and all that is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cldrank.errors import ConvergenceWarning, DataError, warn
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.design import Design
from cldrank.models.linear.inference import INTERCEPT, Estimates
from cldrank.models.linear.objective import SelectionObjective
from cldrank.models.linear.rows import rows_of
from cldrank.models.targets import PointSelection
from cldrank.optimise import Solution, inverse, newton

if TYPE_CHECKING:
    from cldrank.models.linear.model import Linear


def fit_points(model: Linear, problem: PointSelection, context: Context) -> Fit:
    """Maximise the likelihood, less the penalty."""
    data, columns = context.data, np.union1d(problem.relevance, problem.selection)
    objective = selection_objective(model, problem, context)
    design = objective.design
    if not design.moving[:-1][np.searchsorted(columns, problem.relevance)].any():
        raise DataError(f"all relevance features of {data!r} are constant; there is nothing to rank its rows by.")
    names = np.array(data.feature_names, dtype=object)
    with design.rows.solving():
        begin = np.zeros(len(objective.penalties))
        solution = newton(objective.evaluate, begin, max_steps=model.max_steps, tolerance=model.tolerance)
        separated = objective.separated(solution.parameters)
    selects = bool(len(objective.selection))
    if not selects and solution.converged:
        solution = replace(solution, status="boundary")  # the selection intercept is at infinity
    advice = (
        "" if selects else "every candidate was shown, so there is no selection to learn and the fit is that of IPS"
    )
    if separated:
        advice = "the features tell shown from not shown without error; raise l2"
    warn_unless_converged(solution, context.user, advice)
    score, chosen = (design.to_features(part) for part in objective.unpacked(solution.parameters))
    relevance, selection = np.zeros((2, data.n_features))
    relevance[columns], selection[columns] = score[0], chosen[0]
    estimates = _estimates(objective, (*names[columns], INTERCEPT), solution)
    return linear_fit(
        context,
        design.rows.view.scaling,
        relevance,
        score[1],
        status=solution.status,
        steps=solution.n_steps,
        log_likelihood=objective.log_likelihood(solution.parameters, solution.evaluation.value),
        observed=objective.observed,
        constant=names[columns[~design.moving[:-1]]],
        estimates=estimates,
        selection_coef=selection,
        selection_intercept=chosen[1] if selects else np.inf,
        selection_standard_errors=estimates.error_of("selection", data.feature_names),
        separated=separated,
    )


def selection_objective(model: Linear, problem: PointSelection, context: Context) -> SelectionObjective:
    """The objective of a problem, over a design of the columns that relevance or selection sees."""
    observed, columns = problem.observed, np.union1d(problem.relevance, problem.selection)
    device = context.run.device
    rows = rows_of(context, model.scaling, observed, columns=columns, rows=observed.rows, device=device)
    return SelectionObjective(
        Design(rows),
        problem.gamma,
        float(model.l2),
        relevance=np.searchsorted(columns, problem.relevance),
        selection=np.searchsorted(columns, problem.selection),
    )


def _estimates(objective: SelectionObjective, names: tuple[str, ...], solution: Solution) -> Estimates:
    """The parameters for the scaled features, with the inverse of the observed information as their covariance."""
    from scipy.linalg import block_diag

    parts = {"relevance": objective.relevance, "selection": objective.selection}
    turn = block_diag(*(objective.design.turn(columns) for columns in parts.values() if len(columns)))
    information = -solution.evaluation.hessian * objective.total  # of the whole log-likelihood, penalty included
    variance = np.full_like(information, np.nan)
    if np.isfinite(information).all():
        variance = inverse(information)
    return Estimates(
        tuple(part for part, columns in parts.items() for _ in columns),
        tuple(names[column] for columns in parts.values() for column in columns),
        turn @ solution.parameters,
        turn @ variance @ turn.T,
    )


def warn_unless_converged(solution: Solution, user: str, advice: str = "") -> None:
    """Warn of a fit that did not end well, and say what to check."""
    if solution.converged:
        return
    reasons = {
        "max_steps": f"{user} has not converged after {solution.n_steps} steps; raise `max_steps` or `l2`",
        "line_search": f"{user} stopped after {solution.n_steps} steps, where no step of any length came closer to the "
        "optimum; check the features for values of very different size or nearly equal columns, use a scaling, or "
        "raise l2",
        "non_finite": f"{user} met numbers that are not finite after {solution.n_steps} steps; check the features and "
        "the propensities for extreme values, or use a scaling",
        "boundary": f"{user} ended on the boundary of its parameters",
    }
    message = reasons[solution.status] + (f"; {advice}" if advice else "")
    warn(ConvergenceWarning(f"{message}."))
