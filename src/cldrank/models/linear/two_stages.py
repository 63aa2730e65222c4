"""What Heckman's correction and its kin share: least squares on selected rows, whose errors know the first stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.models.linear.design import Block, Design
from cldrank.models.linear.inference import QuerySquares
from cldrank.models.linear.ordered import Entries, GaussianInterval, OrderedProbit, PlaceRule, chosen
from cldrank.models.linear.rows import added
from cldrank.optimise import Solution, inverse, newton

Floats = NDArray[np.float64]


class Selected(NamedTuple):
    """Selected rows of a block, and how their correction hangs on the parameters of the first stage.

    entries      what was seen of them
    design       (entries, columns): what the target is regressed on; the last column is the correction E[ε | selected]
    shrinkage    (entries,): δ = 1 - Var(ε | selected), between 0 and 1
    jacobian     (entries, parameters): the derivative of the correction by the parameters of the first stage
    """

    entries: Entries
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


def corrected_regression(
    over: Callable[[Callable[[Selected], Sequence[Floats]]], Sequence[Any]], penalty: Floats, first: Floats
) -> SecondStage:
    """Weighted ridge regression on a correction for selection, with errors that know the correction was estimated.

        (G + W P) θ = Σ w d y,   G = Σ w d dᵀ,   W = Σ w,   P = diag(penalty)
        σ²  = Σ w ((y - d·θ)² + spread + κ² δ) / W,   κ = last of θ = ρσ
        Var = (G + W P)⁻¹ (Σ w (σ² - κ² δ) d dᵀ + F V Fᵀ) (G + W P)⁻¹,   F = κ Σ w d ∂(correction)ᵀ

    V is `first`, the covariance of the first stage's parameters (Heckman 1979; Greene 1981). Where ρ comes out beyond
    -1 … 1, κ² counts as σ² in the middle sum, or variances might be negative. Weights act as repetitions.
    `over` adds up what a function makes of each block of rows; there are two passes.
    """
    gram, cross, weight = over(_moments)
    bread = inverse(gram / weight + np.diag(penalty)) / weight
    coefficients = bread @ cross
    kappa = float(coefficients[-1])
    squares, shrunk_gram, leverage, chance = over(partial(_errors, coefficients))
    sigma = float(np.sqrt(squares / weight))
    own = sigma**2 * gram - min(kappa**2, sigma**2) * shrunk_gram
    middle = own + leverage @ first @ leverage.T
    covariance = bread @ middle @ bread
    rho = kappa / sigma if sigma else 0.0
    return SecondStage(coefficients, (covariance + covariance.T) / 2, gram, bread, leverage, chance, sigma, rho)


def _moments(block: Selected) -> Sequence[Floats]:
    """G, Σ w d y and W of a block."""
    weight = block.entries.weight
    weighted = block.design * weight[:, None]
    return weighted.T @ block.design, weighted.T @ block.entries.mean, np.asarray(weight.sum())


def _errors(coefficients: Floats, block: Selected) -> Sequence[Floats]:
    """Of a block: the sum in σ², Σ w δ d dᵀ, F, and `SecondStage.chance`."""
    weight, kappa = block.entries.weight, float(coefficients[-1])
    residual = block.entries.mean - block.design @ coefficients
    squares = weight @ (residual**2 + block.entries.spread + kappa**2 * block.shrinkage)
    weighted = block.design * weight[:, None]
    shrunk = weighted.T @ (block.design * block.shrinkage[:, None])
    return np.asarray(squares), shrunk, kappa * weighted.T @ block.jacobian, (weight * residual) @ block.jacobian


class TwoStages(NamedTuple):
    """Both stages of a correction for selection.

    solution      of the first: ω, then the thresholds
    second        coefficients of the features, then of the places (or one intercept), then of the correction
    covariance    of the second stage's coefficients and the first stage's parameters, in this order
    log_likelihood  of the first stage, the penalty left out
    n_thresholds  how many of the first stage's parameters are thresholds
    separated     whether the first stage tells rows shown and not shown apart without an error
    """

    solution: Solution
    second: SecondStage
    covariance: Floats
    log_likelihood: float
    n_thresholds: int
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
    second = corrected_regression(
        lambda function: design.fold(partial(step.told, function), added), np.append(penalty, unpenalised), first
    )
    if cluster:
        count = observed.n_queries
        squares = design.fold(partial(step.influence, second, first), QuerySquares.joined)
        covariance = squares.total * (count / (count - 1) if count > 1 else np.nan)
    else:
        across = -second.bread @ second.leverage @ first
        covariance = np.block([[second.covariance, across], [across.T, first]])
    separated = probit.separated(solution.parameters)
    return TwoStages(solution, second, covariance, log_likelihood, observed.n_thresholds, separated)


class _Step(NamedTuple):
    """What leads from the first stage to the rows of the second."""

    places: PlaceRule
    parameters: Floats
    columns: IntArray
    effects: bool

    def told(self, function: Callable[[Selected], Sequence[Floats]], block: Block) -> Sequence[Floats]:
        """What a function makes of the selected rows of a block."""
        return function(self.selected(block))

    def selected(self, block: Block) -> Selected:
        """The entries of a block as the second stage sees them."""
        x = chosen(block.wide, self.places.columns)
        places, interval, _ = self.places.seen(block, x, self.parameters)
        count = len(block.own.owner)
        owner, level = places.owner[:count], places.level[:count]
        interval = GaussianInterval(*(values[:count] for values in interval))
        intercepts = np.eye(self.places.n_levels)[level - 1] if self.effects else np.ones((count, 1))
        design = np.hstack([block.wide[np.ix_(owner, self.columns)], intercepts, interval.correction[:, None]])
        return Selected(block.own, design, interval.shrinkage, self.places.jacobian(x[owner], level, interval))

    def influence(self, second: SecondStage, first: Floats, block: Block) -> QuerySquares:
        """The squares of how far the queries of a block move the parameters, the second stage's first."""
        on_first = self.places.gradients(block, self.parameters) @ first
        rows, entries = self.selected(block), block.own
        residual = entries.mean - rows.design @ second.coefficients
        equations = np.zeros((len(on_first), len(second.coefficients)))
        np.add.at(equations, entries.owner, rows.design * (entries.weight * residual)[:, None])
        equations -= on_first @ second.leverage.T
        equations[:, -1] += on_first @ second.chance
        return QuerySquares.of(entries.queries, np.hstack([equations @ second.bread, on_first]))
