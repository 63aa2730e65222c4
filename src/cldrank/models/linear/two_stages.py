"""Heckman's two stages: an ordered probit of where candidates were shown, then least squares corrected for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.models.fit import Context, Fit, linear_fit
from cldrank.models.linear.design import Block, Design
from cldrank.models.linear.inference import INTERCEPT, Estimates, QuerySquares, block_diagonal, determined
from cldrank.models.linear.ordered_probit import GaussianInterval, OrderedProbit, PlaceRule, chosen_columns
from cldrank.models.linear.rows import added, rows_of
from cldrank.models.linear.selection_fit import SEPARATION, warn_unless_converged
from cldrank.models.targets import Observations
from cldrank.optimise import Solution, inverse, newton

if TYPE_CHECKING:
    from cldrank.models.linear.model import Linear

CORRECTION = "(inverse Mills)"

Floats = NDArray[np.float64]


class Selected(NamedTuple):
    """Selected rows of a block, and how their correction hangs on the parameters of the first stage.

    design       (entries, columns): what the target is regressed on; the last column is the correction E[ε | selected]
    shrinkage    (entries,): δ = 1 - Var(ε | selected), between 0 and 1
    jacobian     (entries, parameters): the derivative of the correction by the parameters of the first stage
    """

    design: Floats
    shrinkage: Floats
    jacobian: Floats


class SecondStage(NamedTuple):
    """What the second stage found.

    coefficients   (columns,): the last one, ρσ, is that of the correction
    covariance     (columns, columns): of the coefficients, corrected for the first stage
    gram           (columns, columns): G
    bread          (columns, columns): (G + W P)⁻¹
    leverage       (columns, parameters): F, how the parameters of the first stage move the equations of the second
    chance         (parameters,): the same through the correction as a regressor, Σ w (y - d·θ) ∂(correction)ᵀ, which is
                   0 but for chance, and for a model that does not fit
    sigma, rho     the standard deviation of μ in the whole population, and its correlation with ε
    """

    coefficients: Floats
    covariance: Floats
    gram: Floats
    bread: Floats
    leverage: Floats
    chance: Floats
    sigma: float
    rho: float


def _corrected_regression(design: Design, step: _Step, penalty: Floats, first: Floats) -> SecondStage:
    """Weighted ridge regression on a correction for selection, with errors that know the correction was estimated.

        (G + W P) θ = Σ w d y,   G = Σ w d dᵀ,   W = Σ w,   P = diag(penalty)
        σ²  = Σ w ((y - d·θ)² + spread + κ² δ) / W,   κ = last of θ = ρσ
        Var = (G + W P)⁻¹ (Σ w (σ² - κ² δ) d dᵀ + F V Fᵀ) (G + W P)⁻¹,   F = κ Σ w d ∂(correction)ᵀ

    V is `first`, the covariance of the first stage's parameters (Heckman 1979; Greene 1981). Where ρ comes out beyond
    -1 … 1, κ² counts as σ² in the middle sum, or variances might be negative. Weights act as repetitions.
    """
    gram, cross, weight = (np.asarray(part) for part in design.fold(step.moments, added))
    bread = inverse(gram / weight + np.diag(penalty)) / weight
    coefficients = bread @ cross
    kappa = float(coefficients[-1])
    sums = design.fold(partial(step.errors, coefficients), added)
    squares, shrunk_gram, leverage, chance = (np.asarray(part) for part in sums)
    sigma = float(np.sqrt(squares / weight))
    own = sigma**2 * gram - min(kappa**2, sigma**2) * shrunk_gram
    middle = own + leverage @ first @ leverage.T
    covariance = bread @ middle @ bread
    rho = kappa / sigma if sigma else 0.0
    return SecondStage(coefficients, (covariance + covariance.T) / 2, gram, bread, leverage, chance, sigma, rho)


class TwoStages(NamedTuple):
    """Both stages of a correction for selection.

    solution      of the first: ω, then the thresholds
    second        coefficients of the features, then of the places (or one intercept), then of the correction
    covariance    of the second stage's coefficients and the first stage's parameters, in this order
    log_likelihood  of the first stage, the penalty left out
    separated     whether the first stage tells rows shown and not shown apart without an error
    """

    solution: Solution
    second: SecondStage
    covariance: Floats
    log_likelihood: float
    separated: bool


def two_stages(
    design: Design,
    relevance: tuple[IntArray, Floats],
    selection: tuple[IntArray, Floats],
    *,
    effects: bool = False,
    cluster: bool = False,
    max_steps: int = 50,
) -> TwoStages:
    """An ordered probit of the places, then least squares of the targets on features and correction.

    `relevance` and `selection` are the columns of the two stages with the penalty on each; `effects` gives each place
    its own intercept; `cluster` makes the errors robust to dependence within queries.
    """
    probit, observed = OrderedProbit(design, *selection), design.observed
    solution = newton(probit.evaluate, probit.start(), max_steps=max_steps)
    here = probit.evaluate(solution.parameters)
    log_likelihood = observed.total * (here.value + float(probit.penalty @ solution.parameters**2))
    first = inverse(-here.hessian * observed.total)
    columns, penalty = relevance
    step = _Step(probit.places, solution.parameters, columns, effects)
    unpenalised = np.zeros((observed.n_levels if effects else 1) + 1)
    second = _corrected_regression(design, step, np.append(penalty, unpenalised), first)
    if cluster:
        count = observed.n_queries
        squares = design.fold(partial(step.influence, second, first), QuerySquares.joined)
        covariance = squares.total * (count / (count - 1) if count > 1 else np.nan)
    else:
        across = -second.bread @ second.leverage @ first
        covariance = np.block([[second.covariance, across], [across.T, first]])
    separated = probit.separated(solution.parameters)
    return TwoStages(solution, second, covariance, log_likelihood, separated)


class _Step(NamedTuple):
    """What leads from the first stage to the rows of the second."""

    places: PlaceRule
    parameters: Floats
    columns: IntArray
    effects: bool

    def moments(self, block: Block) -> Sequence[Floats]:
        """G, Σ w d y and W of a block."""
        rows, own = self.selected(block), block.own
        weighted = rows.design * own.weight[:, None]
        return weighted.T @ rows.design, weighted.T @ own.target, np.asarray(own.weight.sum())

    def errors(self, coefficients: Floats, block: Block) -> Sequence[Floats]:
        """Of a block: the sum in σ², Σ w δ d dᵀ, F, and `SecondStage.chance`."""
        rows, own, kappa = self.selected(block), block.own, float(coefficients[-1])
        residual = own.target - rows.design @ coefficients
        squares = own.weight @ (residual**2 + own.spread + kappa**2 * rows.shrinkage)
        weighted = rows.design * own.weight[:, None]
        shrunk = weighted.T @ (rows.design * rows.shrinkage[:, None])
        leverage, chance = kappa * weighted.T @ rows.jacobian, (own.weight * residual) @ rows.jacobian
        return np.asarray(squares), shrunk, leverage, chance

    def selected(self, block: Block) -> Selected:
        """The entries of a block as the second stage sees them."""
        x = chosen_columns(block.wide, self.places.columns)
        owner, level, interval, _ = self.places.seen(block, x, self.parameters)
        count = len(block.own.target)
        owner, level = owner[:count], level[:count]
        interval = GaussianInterval(*(values[:count] for values in interval))
        intercepts = np.eye(self.places.n_levels)[level - 1] if self.effects else np.ones((count, 1))
        design = np.hstack([block.wide[np.ix_(owner, self.columns)], intercepts, interval.correction[:, None]])
        return Selected(design, interval.shrinkage, self.places.jacobian(x[owner], level, interval))

    def influence(self, second: SecondStage, first: Floats, block: Block) -> QuerySquares:
        """The squares of how far the queries of a block move the parameters, the second stage's first."""
        on_first = self.places.gradients(block, self.parameters) @ first
        rows, own = self.selected(block), block.own
        residual = own.target - rows.design @ second.coefficients
        equations = np.zeros((len(on_first), len(second.coefficients)))
        np.add.at(equations, own.shown[own.owner], rows.design * (own.weight * residual)[:, None])
        equations -= on_first @ second.leverage.T
        equations[:, -1] += on_first @ second.chance
        return QuerySquares.of(own.queries, np.hstack([equations @ second.bread, on_first]))


# -- as a fit of a linear model ------------------------------------------------------------------------------------


def fit_two_stages(
    model: Linear,
    context: Context,
    observed: Observations,
    features: tuple[IntArray, IntArray],
    *,
    positions: tuple[int, ...] = (),
    effects: bool = False,
) -> Fit:
    """Fit both stages; the log-likelihood is that of the first.

    observed    where the candidates were shown, and their targets
    features    of the second stage, of relevance, and of the first, of selection
    positions   () for one threshold and one intercept; else the positions, each with its own threshold
    effects     whether each position has its own intercept in the second stage
    """
    data = context.data
    rows = rows_of(context, model.scaling, observed, rows=observed.rows)
    design, names = Design(rows), np.array(data.feature_names, dtype=object)
    relevance, selection = (columns[design.moving[columns]] for columns in features)
    if not len(relevance):
        raise DataError(f"all features of {data!r} are constant; nothing distinguishes its rows.")
    stages = two_stages(
        design,
        *((columns, float(model.l2) * design.factor[columns] ** 2) for columns in (relevance, selection)),
        effects=effects,
        cluster=model.cluster is not None,
        max_steps=model.max_steps,
    )
    warn_unless_converged(stages.solution, f"the first stage of {context.user}")
    second, solution = stages.second, stages.solution
    n_first, n_relevance = len(solution.parameters), len(relevance)
    chosen = selection if n_first else selection[:0]  # where all are shown there is no first stage
    intercepts = tuple(f"(position {k})" for k in positions) if effects else (INTERCEPT,)
    n_thresholds = n_first - len(chosen)
    thresholds = tuple(f"(below position {k})" for k in positions[:n_thresholds]) or (INTERCEPT,) * n_thresholds
    turn = block_diagonal(
        [
            _turned(design, relevance, len(intercepts) + 1, -1.0, len(intercepts)),
            _turned(design, chosen, n_thresholds, 1.0, n_thresholds),
        ]
    )
    turn[len(turn) - n_thresholds :] *= 1.0 if positions else -1.0  # an intercept is minus its threshold
    values = turn @ np.append(second.coefficients, solution.parameters)
    labels = (*names[relevance], *intercepts, CORRECTION, *names[chosen], *thresholds)
    parts = ("relevance",) * len(second.coefficients) + ("selection",) * n_first
    covariance = turn @ stages.covariance @ turn.T
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0.0))  # rounding, in directions without data
    estimates = Estimates(parts, labels, values, covariance)
    order = np.roll(np.arange(n_relevance + len(intercepts)), len(intercepts))  # a feature may repeat the intercepts
    repeated = determined(second.gram[np.ix_(order, order)])[len(intercepts) :]
    score, selected = np.zeros((2, len(names)))
    score[relevance], selected[chosen] = values[:n_relevance], values[len(second.coefficients) :][: len(chosen)]
    outside = "" if abs(second.rho) <= 1 else ", outside -1 … 1: the model does not fit"
    facts = [SEPARATION] if stages.separated else []
    return linear_fit(
        context,
        rows.view.scaling,
        score,
        float(values[n_relevance]),
        estimates,
        status=solution.status,
        steps=solution.n_steps,
        log_likelihood=stages.log_likelihood,
        observed=design.observed,
        errors=model.errors if model.cluster else "corrected for the first stage (Heckman 1979)",
        constant=names[~design.moving[:-1]],
        collinear=names[relevance[repeated]],
        facts=[*facts, ("sigma", f"{second.sigma:.4g}"), ("rho", f"{second.rho:.4g}{outside}")],
        selection_coef=selected,
        selection_standard_errors=estimates.error_of("selection", data.feature_names),
        thresholds=values[len(values) - n_thresholds :],
        effects=values[n_relevance : n_relevance + len(intercepts)],
        mills_coefficient=float(second.coefficients[-1]),
        sigma=second.sigma,
        rho=second.rho,
        separated=stages.separated,
    )


def _turned(design: Design, columns: IntArray, others: int, sign: float, shifted: int) -> Floats:
    """The matrix that turns parameters of some columns, and `others` behind them, into those of the scaled features.

    The first `shifted` of the others take up, with this sign, what the columns lose of their center.
    """
    if not others:
        return np.zeros((0, 0))
    factor, center = design.factor[columns], design.center[columns]
    turned = np.diag(np.append(factor, np.ones(others)))
    turned[len(columns) : len(columns) + shifted, : len(columns)] = sign * factor * center
    return turned
