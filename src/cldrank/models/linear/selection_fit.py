"""CLD with linear relevance and linear selection: from observations to the optimum, and all that is said about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cldrank.errors import ConvergenceWarning, DataError, warn
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.design import Design
from cldrank.models.linear.objective import SelectionObjective
from cldrank.models.linear.row_blocks import rows_of
from cldrank.models.targets import Observations
from cldrank.optimise import Solution, newton

if TYPE_CHECKING:
    from cldrank.models.linear.linear_model import Linear


def fit_points(
    model: Linear, observed: Observations, context: Context, *, gamma: float, unshown_ratio: float = 1.0
) -> Fit:
    """Maximise the likelihood, less the penalty."""
    del unshown_ratio  # all count
    data = context.data
    objective = selection_objective(model, observed, context, gamma)
    design = objective.design
    if not design.moving.any():
        raise DataError(f"all features of {data!r} are constant; there is nothing to rank its rows by.")
    with design.rows.solving():
        begin = np.zeros(len(objective.penalties))
        solution = newton(objective.evaluate, begin, max_steps=model.max_steps)
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
    return linear_fit(
        context,
        design.rows.view.scaling,
        *score,
        status=solution.status,
        steps=solution.n_steps,
        log_likelihood=objective.log_likelihood(solution.parameters, solution.evaluation.value),
        observed=objective.observed,
        constant=np.array(data.feature_names, dtype=object)[~design.moving[:-1]],
        selection_coef=chosen[0],
        selection_intercept=chosen[1] if selects else np.inf,
        separated=separated,
    )


def selection_objective(model: Linear, observed: Observations, context: Context, gamma: float) -> SelectionObjective:
    """The objective over the candidates of the queries displayed."""
    rows = rows_of(context, model.scaling, observed, rows=observed.rows, device=context.run.device)
    return SelectionObjective(Design(rows), gamma, float(model.l2))


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
