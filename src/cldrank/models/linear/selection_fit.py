"""CLD with linear relevance and linear selection: from observations to the optimum, and all that is said about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import CldrankWarning, ConvergenceWarning, DataError, UsageError, warn
from cldrank.likelihood import Form
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.design import Design
from cldrank.models.linear.inference import INTERCEPT, Estimates, block_diagonal, covariance, determined
from cldrank.models.linear.objective import SelectionObjective, Shared
from cldrank.models.linear.rows import rows_of
from cldrank.models.targets import PointSelection
from cldrank.optimise import Matrix, Solution, Vector, newton

if TYPE_CHECKING:
    from cldrank.models.linear.model import Linear

EDGE = 5.0  # |atanh γ|, at which γ is 0.9999
SEPARATION = ("separation", "selection is predicted without error; only the penalty holds its size")
_GRID = (0.0, 0.3, 0.6, 0.9)  # of γ, on either side


def fit_likelihood(model: Linear, problem: PointSelection, context: Context) -> Fit:
    """Maximise the likelihood, less the penalty."""
    data, columns = context.data, np.union1d(problem.relevance, problem.selection)
    objective = selection_objective(model, problem, context)
    design, scaling = objective.design, objective.design.rows.view.scaling
    if not design.moving[:-1][np.searchsorted(columns, problem.relevance)].any():
        raise DataError(f"all relevance features of {data!r} are constant; there is nothing to rank its rows by.")
    if problem.gamma == "profile":
        _warn_of_weak_identification(problem)
    names = np.array(data.feature_names, dtype=object)
    with design.rows.solving():
        fit = (fit_profile if problem.gamma == "profile" else fit_selection)(
            objective,
            tuple(names[columns]),
            start=_start(objective),
            max_steps=model.max_steps,
            tolerance=model.tolerance,
            cluster=model.cluster is not None,
        )
    intercept = fit.selection_intercept if len(objective.selection) else np.inf
    warn_unless_converged(fit.solution, context.user, _advice(problem, fit, intercept))
    relevance, selection = np.zeros((2, data.n_features))
    relevance[columns], selection[columns] = fit.coefficients, fit.selection
    facts = [("noise", f"gamma {fit.form.gamma:.4g}, sigma {fit.form.sigma:.4g}")]
    if np.isinf(intercept):
        facts.append(("selection", "every candidate was shown: there is no selection to learn"))
    return linear_fit(
        context,
        scaling,
        relevance,
        fit.intercept,
        fit.estimates,
        status=fit.solution.status,
        steps=fit.solution.n_steps,
        log_likelihood=fit.log_likelihood,
        observed=objective.observed,
        errors=model.errors,
        constant=names[columns[~design.moving[:-1]]],
        collinear=names[columns[fit.collinear]],
        facts=[*facts, SEPARATION] if fit.separated else facts,
        selection_coef=selection,
        selection_intercept=intercept,
        selection_standard_errors=fit.estimates.error_of("selection", data.feature_names),
        gamma=fit.form.gamma,
        sigma=fit.form.sigma,
        separated=fit.separated,
    )


def selection_objective(model: Linear, problem: PointSelection, context: Context) -> SelectionObjective:
    """The objective of a problem, over a design of the columns that relevance or selection sees."""
    observed, columns = problem.observed, np.union1d(problem.relevance, problem.selection)
    device = context.run.device
    rows = rows_of(context, model.scaling, observed, columns=columns, rows=observed.rows, device=device)
    gamma = 0.0 if problem.gamma == "profile" else float(problem.gamma)
    if problem.sigma == "estimate" and not problem.tobit:
        raise UsageError("sigma can be estimated only with likelihood='tobit'; the paper's form has none.")
    sigma = 1.0 if problem.sigma == "estimate" else float(problem.sigma)
    free: tuple[Shared, ...] = ("log_sigma",) if problem.sigma == "estimate" else ()
    return SelectionObjective(
        Design(rows, centred=model.fit_intercept),
        Form(gamma, sigma, problem.tobit),
        float(model.l2),
        relevance=np.searchsorted(columns, problem.relevance),
        selection=np.searchsorted(columns, problem.selection),
        fit_intercept=model.fit_intercept,
        free=free,
    )


def _start(objective: SelectionObjective) -> Vector:
    """No coefficients, and a σ that fits the targets."""
    design, relevance = objective.design, objective.relevance
    start = np.zeros(objective.n_parameters)
    if objective.free:
        mean, variance = objective.observed.target_moments
        start[-1] = 0.5 * np.log(variance + 1e-300)
        if relevance[-1] == design.width - 1:
            start[len(relevance) - 1] = mean
    return start


def _advice(problem: PointSelection, fit: SelectionFit, intercept: float) -> str:
    if np.isinf(intercept):
        return "every candidate was shown, so there is no selection to learn and the fit is that of IPS"
    if fit.separated:
        return "the features tell shown from not shown without error; raise l2"
    if problem.gamma == "profile":
        return f"gamma came to {fit.form.gamma:.4f}; let selection see features that relevance does not, or fix gamma"
    return ""


def _warn_of_weak_identification(problem: PointSelection) -> None:
    if len(np.setdiff1d(problem.selection, problem.relevance)):
        return
    warn(
        CldrankWarning(
            "`gamma='profile'` without a feature that only selection sees: gamma rests on the shape of the noise "
            "alone and may end anywhere. Give `selection_features` and `relevance_features` that differ, or fix "
            "gamma."
        )
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


# -- the optimum ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SelectionFit:
    """A selection model at its optimum, for the scaled features of the design.

    coefficients, intercept        of the relevance score; (columns,) of the design without the ones
    selection, selection_intercept of the selection
    form                           the noise: γ and σ, given or estimated
    estimates                      all parameters by name, with their covariance
    log_likelihood                 of all rows, without the penalty
    solution                       how the optimiser ended
    collinear                      (columns,) whether the columns before determine one, among rows shown or all rows
    separated                      whether the selection tells rows shown and not shown apart without an error
    """

    coefficients: NDArray[np.float64]
    intercept: float
    selection: NDArray[np.float64]
    selection_intercept: float
    form: Form
    estimates: Estimates
    log_likelihood: float
    solution: Solution
    collinear: NDArray[np.bool_]
    separated: bool


def fit_selection(
    objective: SelectionObjective,
    names: tuple[str, ...],
    *,
    start: Vector | None = None,
    max_steps: int = 50,
    tolerance: float = 1e-9,
    cluster: bool = False,
) -> SelectionFit:
    """Maximise the objective by Newton's method and look at the optimum; `names` are those of the design's columns."""
    begin = np.zeros(objective.n_parameters) if start is None else start
    solution = newton(objective.evaluate, begin, **_limits(objective, max_steps, tolerance))
    if objective.observed.all_shown and solution.converged:
        solution = replace(solution, status="boundary")  # the selection intercept is at infinity
    return _described(objective, names, solution, cluster)


def fit_profile(
    objective: SelectionObjective,
    names: tuple[str, ...],
    start: Vector,
    *,
    max_steps: int = 50,
    tolerance: float = 1e-9,
    cluster: bool = False,
) -> SelectionFit:
    """Maximise over γ as well: from the best γ of a coarse grid, as the likelihood may have several tops.

    A fit that ends, or would end, next to γ = ±1 has status `boundary`.
    """
    form = objective.form
    best: tuple[float, float, Vector] | None = None
    passes = 0
    for side in (1.0, -1.0):
        point = start
        for gamma in _GRID if side > 0 else _GRID[1:]:
            fixed = objective.varied(replace(form, gamma=side * gamma), objective.free)
            solution = newton(fixed.evaluate, point, max_steps=max_steps, tolerance=1e-3)
            passes += solution.n_passes
            if solution.status == "non_finite":
                break
            point = solution.parameters
            if best is None or solution.value > best[0]:
                best = (solution.value, side * gamma, point)
    free = objective.varied(form, (*objective.free, "atanh_gamma"))
    begin = np.append(start, 0.0) if best is None else np.append(best[2], np.arctanh(best[1]))
    solution = newton(free.evaluate, begin, **_limits(free, max_steps, tolerance))
    if abs(solution.parameters[-1]) > 0.8 * EDGE:
        solution = replace(solution, status="boundary")
    return _described(free, names, replace(solution, n_passes=solution.n_passes + passes), cluster)


def _limits(objective: SelectionObjective, max_steps: int, tolerance: float) -> dict[str, Any]:
    """How long `newton` is to try; a free γ, which is last, stays inside its bounds."""
    inside = (lambda point: bool(abs(point[-1]) < EDGE)) if "atanh_gamma" in objective.free else None
    return {"max_steps": max_steps, "tolerance": tolerance, "inside": inside}


def _described(
    objective: SelectionObjective, names: tuple[str, ...], solution: Solution, cluster: bool
) -> SelectionFit:
    """All that is to be said about a solution."""
    here = solution.evaluation or objective.evaluate(solution.parameters)
    score, selection, form = objective.unpacked(solution.parameters)
    design, relevance, chosen = objective.design, objective.relevance, objective.selection
    information = -here.hessian * objective.total  # of the whole log-likelihood, penalty included
    plain = information - np.diag(2 * objective.total * objective.penalties)
    noise = {"log_sigma": ("sigma", form.sigma, form.sigma), "atanh_gamma": ("gamma", form.gamma, 1 - form.gamma**2)}
    free = [noise[name] for name in objective.free]  # each with its value, and how it changes with the parameter
    turn = block_diagonal([design.turn(relevance), design.turn(chosen), np.diag([change for _, _, change in free])])
    values = turn @ solution.parameters
    values[len(values) - len(free) :] = [value for _, value, _ in free]
    labels = [names[column] if column < len(names) else INTERCEPT for column in (*relevance, *chosen)]
    owners = ["relevance"] * len(relevance) + ["selection"] * len(chosen) + ["noise"] * len(free)
    variance = np.full_like(information, np.nan)
    if np.isfinite(information).all():
        clustered = objective.clustered(solution.parameters) if cluster else None
        variance = covariance(information, clustered, objective.observed.n_queries if cluster else 0)
    end = len(relevance) + len(chosen)
    return SelectionFit(
        *design.to_features(score),
        *design.to_features(selection),
        form,
        Estimates(tuple(owners), (*labels, *(name for name, _, _ in free)), values, turn @ variance @ turn.T),
        objective.log_likelihood(solution.parameters, here.value),
        solution,
        _collinear(plain[: len(relevance), : len(relevance)], relevance, design.width)
        | _collinear(plain[len(relevance) : end, len(relevance) : end], chosen, design.width),
        bool(len(chosen)) and objective.separated(solution.parameters),
    )


def _collinear(gram: Matrix, columns: IntArray, width: int) -> NDArray[np.bool_]:
    """Which columns of the design others determine, by the information on their coefficients."""
    collinear = np.zeros(width, dtype=bool)
    if len(columns) and np.isfinite(gram).all():
        first = int(columns[-1] == width - 1)  # an intercept goes first, and is never named
        order = np.roll(np.arange(len(columns)), first)
        collinear[columns[order[first:]]] = determined(gram[np.ix_(order, order)])[first:]
    return collinear[:-1]
