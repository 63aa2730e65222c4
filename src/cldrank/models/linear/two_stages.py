"""Heckman's two stages: an ordered probit of where candidates were shown, then least squares corrected for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.design import Block, Design
from cldrank.models.linear.ordered_probit import OrderedProbit, PlaceRule, chosen_columns
from cldrank.models.linear.row_blocks import added, rows_of
from cldrank.models.linear.selection_fit import warn_unless_converged
from cldrank.models.targets import Observations
from cldrank.optimise import inverse, newton

if TYPE_CHECKING:
    from cldrank.models.linear.linear_model import Linear

Floats = NDArray[np.float64]


def second_stage(design: Design, places: PlaceRule, parameters: Floats, columns: IntArray, penalty: Floats) -> Floats:
    """Weighted ridge regression on features, ones and the correction E[ε | shown there], given the first stage.

    (G + W P) θ = Σ w d y,   G = Σ w d dᵀ,   W = Σ w,   P = diag(penalty)

    θ are the coefficients of the features, the intercept, and κ, that of the correction.
    """
    sums = design.fold(partial(_moments, places, parameters, columns), added)
    gram, cross, weight = (np.asarray(part) for part in sums)
    coefficients: Floats = inverse(gram / weight + np.diag(np.append(penalty, [0.0, 0.0]))) / weight @ cross
    return coefficients


def _moments(places: PlaceRule, parameters: Floats, columns: IntArray, block: Block) -> Sequence[Floats]:
    """G, Σ w d y and W of a block."""
    own, x = block.own, chosen_columns(block.wide, places.columns)
    owner, _, interval = places.seen(block, x, parameters)
    count = len(own.target)
    rows = np.hstack(
        [block.wide[np.ix_(owner[:count], columns)], np.ones((count, 1)), interval.correction[:count, None]]
    )
    weighted = rows * own.weight[:, None]
    return weighted.T @ rows, weighted.T @ own.target, np.asarray(own.weight.sum())


def fit_two_stages(model: Linear, observed: Observations, context: Context) -> Fit:
    """Fit both stages to targets, and to the places where candidates were shown; the log-likelihood is of the first."""
    data = context.data
    design = Design(rows_of(context, model.scaling, observed, rows=observed.rows))
    columns = np.flatnonzero(design.moving)
    if not len(columns):
        raise DataError(f"all features of {data!r} are constant; nothing distinguishes its rows.")
    penalty = float(model.l2) * design.factor[columns] ** 2
    probit = OrderedProbit(design, columns, penalty)
    solution = newton(probit.evaluate, probit.start(), max_steps=model.max_steps)
    here = probit.evaluate(solution.parameters)
    warn_unless_converged(solution, f"the first stage of {context.user}")
    coefficients = second_stage(design, probit.places, solution.parameters, columns, penalty)
    score, index = np.zeros((2, design.width))
    score[columns], score[-1] = coefficients[:-2], coefficients[-2]
    chosen = probit.places.columns
    index[chosen] = solution.parameters[: len(chosen)]
    thresholds = solution.parameters[len(chosen) :]
    (relevance_coefficients, intercept), (selection_coefficients, shift) = map(design.to_features, (score, index))
    return linear_fit(
        context,
        design.rows.view.scaling,
        relevance_coefficients,
        intercept,
        status=solution.status,
        steps=solution.n_steps,
        log_likelihood=design.observed.total * (here.value + float(probit.penalty @ solution.parameters**2)),
        observed=design.observed,
        constant=np.array(data.feature_names, dtype=object)[~design.moving[:-1]],
        selection_coef=selection_coefficients,
        thresholds=thresholds - shift,
        mills_coefficient=float(coefficients[-1]),
    )
