"""Fitting a linear selection model: the optimum of its objective, and all that is to be said about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import ConvergenceWarning, warn
from cldrank.likelihood import Form
from cldrank.models.linear.inference import (
    INTERCEPT,
    Estimates,
    covariance,
    determined,
    determined_beside_intercept,
    linear_map,
)
from cldrank.models.linear.objective import SelectionObjective
from cldrank.optimise import Derivatives, Matrix, Solution, Vector, newton

EDGE = 5.0  # |atanh γ|, at which γ is 0.9999
_GRID = (0.0, 0.3, 0.6, 0.9)  # of γ, on either side


@dataclass(frozen=True, eq=False)
class SelectionFit:
    """A selection model at its optimum, for the scaled features of the design.

    coefficients, intercept        of the relevance score; (columns,) of the design without the ones
    selection, selection_intercept of the selection
    form                           the noise: γ and σ, given or estimated; None for a probit
    estimates                      all parameters by name, with their covariance
    log_likelihood                 of all rows, without the penalty
    solution                       how the optimiser ended
    collinear                      (columns,) whether the columns before determine a column, among the rows shown
    selection_collinear            (columns,) the same among all rows
    separated                      whether the selection tells rows shown and not shown apart without an error
    """

    coefficients: NDArray[np.float64]
    intercept: float
    selection: NDArray[np.float64]
    selection_intercept: float
    form: Form | None
    estimates: Estimates
    log_likelihood: float
    solution: Solution
    collinear: NDArray[np.bool_]
    selection_collinear: NDArray[np.bool_]
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
    solution = newton(objective.evaluate, begin, **limits(objective, max_steps, tolerance))
    if objective.observed.all_shown and objective.form is not None and solution.converged:
        solution = replace(solution, status="boundary")  # the selection intercept is at infinity
    return selection_fit(objective, names, solution, cluster=cluster)


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
    if form is None:
        raise AssertionError("a probit has no γ")
    best: tuple[float, float, Vector] | None = None
    passes = 0
    for side in (1.0, -1.0):
        point = start
        for gamma in _GRID if side > 0 else _GRID[1:]:
            fixed = objective.varied(replace(form, gamma=side * gamma), objective.free)
            found = newton(fixed.evaluate, point, max_steps=max_steps, tolerance=1e-3)
            passes += found.n_passes
            if found.status == "non_finite":
                break
            point = found.parameters
            if best is None or found.value > best[0]:
                best = (found.value, side * gamma, point)
    free = objective.varied(form, (*objective.free, "atanh_gamma"))
    begin = np.append(start, 0.0) if best is None else np.append(best[2], np.arctanh(best[1]))
    solution = newton(free.evaluate, begin, **limits(free, max_steps, tolerance))
    if abs(solution.parameters[-1]) > 0.8 * EDGE:
        solution = replace(solution, status="boundary")
    solution = replace(solution, n_passes=solution.n_passes + passes)
    return selection_fit(free, names, solution, cluster=cluster)


def selection_fit(
    objective: SelectionObjective, names: tuple[str, ...], solution: Solution, *, cluster: bool = False
) -> SelectionFit:
    """All that is to be said about a solution; takes a pass over the rows only where the optimiser left none to use."""
    near = solution.evaluation if solution.converged or not objective.narrow else None
    here = near or objective.evaluate(solution.parameters, precise=True)
    score, selection, form = objective.unpacked(solution.parameters)
    design, relevance, chosen = objective.design, objective.relevance, objective.selection
    information = _information(objective, here)
    plain = information - np.diag(2 * objective.total * objective.penalties)
    shared = _shared_scales(objective, form)
    parts = [linear_map(design.factor, design.center, relevance), linear_map(design.factor, design.center, chosen)]
    turn = block_diagonal([*parts, np.diag(shared)])
    found = _covariance(objective, solution, information, cluster)
    values = turn @ solution.parameters
    values[len(values) - len(shared) :] = _shared_values(objective, form)
    labels = [names[column] if column < len(names) else INTERCEPT for column in (*relevance, *chosen)]
    owners = ["relevance"] * len(relevance) + ["selection"] * len(chosen) + ["noise"] * len(shared)
    labels += ["sigma" if name == "log_sigma" else "gamma" for name in objective.free]
    split = len(relevance)
    return SelectionFit(
        *_natural(objective, score),
        *_natural(objective, selection),
        form,
        Estimates(tuple(owners), tuple(labels), values, turn @ found @ turn.T),
        objective.log_likelihood(solution.parameters, here.value),
        solution,
        _collinear(plain[:split, :split], relevance, design.width),
        _collinear(plain[split : split + len(chosen), split : split + len(chosen)], chosen, design.width),
        bool(len(chosen)) and objective.separated(solution.parameters),
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


def limits(objective: SelectionObjective, max_steps: int, tolerance: float) -> dict[str, Any]:
    """How `newton` is to treat this objective: sums in float64 for the last steps, γ inside its bounds."""
    exact = partial(objective.evaluate, precise=True) if objective.narrow else None
    return {"exact": exact, "max_steps": max_steps, "tolerance": tolerance, "inside": within(objective)}


def within(objective: SelectionObjective) -> Callable[[Vector], bool] | None:
    """What tells whether a free γ is still away from ±1; None where γ is not free."""
    if "atanh_gamma" not in objective.free:
        return None
    place = objective.n_parameters - len(objective.free) + objective.free.index("atanh_gamma")
    return lambda parameters: bool(abs(parameters[place]) < EDGE)


def _information(objective: SelectionObjective, here: Derivatives) -> Matrix:
    """Minus the Hessian of the whole log-likelihood, penalty included."""
    found: Matrix = -here.hessian * objective.total
    return found


def _covariance(objective: SelectionObjective, solution: Solution, information: Matrix, cluster: bool) -> Matrix:
    if not np.isfinite(information).all():
        return np.full_like(information, np.nan)
    if not cluster:
        return covariance(information)
    return covariance(information, objective.clustered(solution.parameters), objective.observed.n_queries)


def _natural(objective: SelectionObjective, parameters: Vector) -> tuple[Vector, float]:
    """Coefficients of the scaled features, and the intercept, from those of the design's columns."""
    design = objective.design
    scaled = (parameters * design.factor)[:-1]
    return scaled, float(parameters[-1] - scaled @ design.center[:-1])


def _shared_scales(objective: SelectionObjective, form: Form | None) -> list[float]:
    """How σ and γ change with log σ and atanh γ."""
    if form is None:
        return []
    return [form.sigma if name == "log_sigma" else 1 - form.gamma**2 for name in objective.free]


def _shared_values(objective: SelectionObjective, form: Form | None) -> list[float]:
    if form is None:
        return []
    return [form.sigma if name == "log_sigma" else form.gamma for name in objective.free]


def _collinear(gram: Matrix, columns: IntArray, width: int) -> NDArray[np.bool_]:
    """Which columns of the design others determine, by the information on their coefficients."""
    found = np.zeros(width, dtype=bool)
    if len(columns) and np.isfinite(gram).all():
        if columns[-1] == width - 1:
            found[columns[:-1]] = determined_beside_intercept(gram)
        else:
            found[columns] = determined(gram)
    return found[:-1]


def block_diagonal(parts: list[Matrix]) -> Matrix:
    """Matrices along a diagonal; empty ones take no place."""
    from scipy.linalg import block_diag

    found: Matrix = block_diag(*(part for part in parts if part.size))
    return found
