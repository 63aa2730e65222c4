"""Heckman's two stages, and their kin with several positions, as a fit of a linear model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.models.fit import Context, Facts, LinearFit, linear_parts
from cldrank.models.linear.design import Design
from cldrank.models.linear.inference import INTERCEPT, Estimates, determined
from cldrank.models.linear.maximum import block_diagonal, warn_unless_converged
from cldrank.models.linear.ordered import Entries
from cldrank.models.linear.sources import rows_of
from cldrank.models.linear.two_stages import TwoStages, two_stages

if TYPE_CHECKING:
    from cldrank.models.linear.model import Linear

CORRECTION = "(inverse Mills)"


@dataclass(frozen=True, eq=False)
class TwoStageProblem:
    """What both stages are fitted to.

    rows         (rows,) the candidates, of the features
    entries      where they were shown, and their targets
    relevance    (columns,) the features of the second stage
    selection    (columns,) the features of the first
    positions    () for one threshold and one intercept; else the positions, each with its own threshold
    effects      whether each position has its own intercept in the second stage
    """

    rows: IntArray
    entries: Entries
    relevance: IntArray
    selection: IntArray
    positions: tuple[int, ...] = ()
    effects: bool = False

    @property
    def intercepts(self) -> tuple[str, ...]:
        """What the intercepts of the second stage are called."""
        return tuple(f"(position {k})" for k in self.positions) if self.effects else (INTERCEPT,)

    def thresholds(self, number: int) -> tuple[str, ...]:
        """What the first thresholds of the selection are called."""
        return tuple(f"(below position {k})" for k in self.positions[:number]) or (INTERCEPT,) * number

    @property
    def sign(self) -> float:
        """An intercept is minus its threshold."""
        return 1.0 if self.positions else -1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class StagesFit(LinearFit):
    """A regression corrected for selection; its log-likelihood is that of the first stage.

    selection_coef, selection_standard_errors    of the first stage, for the scaled features
    thresholds           of the selection; where there is one threshold, the intercept of the selection
    effects              the intercepts of the second stage
    mills_coefficient    of the correction, ρσ
    sigma, rho           the noise of a target in the whole population, and its correlation with that of selection;
                         two stages do not keep ρ inside -1 … 1: outside, the model does not fit
    separated            whether the first stage predicts selection without error: then only the penalty holds its size
    """

    selection_coef: NDArray[np.float64]
    selection_standard_errors: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    effects: NDArray[np.float64]
    mills_coefficient: float
    sigma: float
    rho: float
    separated: bool

    def facts(self) -> Facts:
        """Lines of a summary, as names and values."""
        facts = super().facts()
        if self.separated:
            facts.append(("separation", "selection is predicted without error; only the penalty holds its size"))
        outside = "" if abs(self.rho) <= 1 else ", outside -1 … 1: the model does not fit"
        return [*facts, ("sigma", f"{self.sigma:.4g}"), ("rho", f"{self.rho:.4g}{outside}")]


def fit_two_stages(model: Linear, problem: TwoStageProblem, context: Context) -> StagesFit:
    """Fit both stages."""
    data = context.data
    rows = rows_of(context, model.scaling, problem.entries, rows=problem.rows)
    scaling, design = rows.view.scaling, Design(rows)
    relevance, selection = (_Columns.of(design, columns) for columns in (problem.relevance, problem.selection))
    if not len(relevance.columns):
        raise DataError(f"all features of {data!r} are constant; nothing distinguishes its rows.")
    found = two_stages(
        design,
        *((part.columns, float(model.l2) * part.factor**2) for part in (relevance, selection)),
        effects=problem.effects,
        cluster=model.cluster is not None,
        max_steps=model.max_steps,
    )
    warn_unless_converged(found.solution, f"the first stage of {context.user}")
    constant = tuple(np.array(data.feature_names, dtype=object)[~design.moving[:-1]])
    return _result(model, problem, context, scaling, design, found, (relevance, selection), constant)


def _result(
    model: Linear,
    problem: TwoStageProblem,
    context: Context,
    scaling: scalings.Scaling,
    design: Design,
    found: TwoStages,
    columns: tuple[_Columns, _Columns],
    constant: tuple[str, ...],
) -> StagesFit:
    (relevance, selection), observed, second = columns, design.observed, found.second
    names, intercepts = np.array(context.data.feature_names, dtype=object), problem.intercepts
    estimates, first = _estimates(problem, found, relevance, selection, names)
    own, others = estimates.of("relevance"), estimates.of("selection")
    n_features, n_intercepts = len(relevance.columns), len(intercepts)
    coefficients = relevance.spread(own.values, len(names))
    # intercepts first: a feature may repeat them
    order = np.roll(np.arange(n_features + n_intercepts), n_intercepts)
    repeated = determined(second.gram[np.ix_(order, order)])[n_intercepts:]
    return StagesFit(
        **linear_parts(context, scaling, coefficients, float(own.values[n_features]), estimates),
        status=found.solution.status,
        n_iter=found.solution.n_steps,
        log_likelihood=found.log_likelihood,
        n_rows=observed.n_rows,
        weight=observed.total,
        constant_features=constant,
        collinear_features=tuple(names[relevance.columns[repeated]]),
        errors=model.errors if model.cluster else "corrected for the first stage (Heckman 1979)",
        selection_coef=selection.spread(others.values[:first], len(names)),
        selection_standard_errors=estimates.error_of("selection", context.data.feature_names),
        thresholds=others.values[len(others.values) - found.n_thresholds :],
        effects=own.values[n_features : n_features + n_intercepts],
        mills_coefficient=float(second.coefficients[-1]),
        sigma=second.sigma,
        rho=second.rho,
        separated=found.separated,
    )


def _estimates(
    problem: TwoStageProblem, found: TwoStages, relevance: _Columns, selection: _Columns, names: NDArray[np.object_]
) -> tuple[Estimates, int]:
    """All parameters for the scaled features, and how many of the selection's are coefficients."""
    width, intercepts = len(found.solution.parameters), problem.intercepts
    first = len(selection.columns) if width else 0  # where all are shown there is no first stage
    turn = block_diagonal(
        [relevance.turned(len(intercepts) + 1, -1.0, len(intercepts)), selection.turned(width - first, 1.0)]
    )
    turn[turn.shape[0] - width + first :] *= problem.sign
    values = turn @ np.append(found.second.coefficients, found.solution.parameters)
    thresholds = problem.thresholds(width - first)
    chosen = names[selection.columns[:first]]
    labels = (*names[relevance.columns], *intercepts, CORRECTION, *chosen, *thresholds)
    parts = ("relevance",) * (len(labels) - width) + ("selection",) * width
    covariance = turn @ found.covariance @ turn.T
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), 0.0))  # rounding, in directions without data
    return Estimates(parts, labels, values, covariance), first


class _Columns(NamedTuple):
    """The columns of a design that a stage uses, and how they were standardised."""

    columns: IntArray
    factor: NDArray[np.float64]
    center: NDArray[np.float64]

    @classmethod
    def of(cls, design: Design, columns: IntArray) -> Self:
        """Those of some columns that vary."""
        moving = columns[design.moving[columns]]
        return cls(moving, design.factor[moving], design.center[moving])

    def turned(self, others: int, sign: float, shifted: int | None = None) -> NDArray[np.float64]:
        """The matrix that turns parameters into those for the scaled features, for the columns and `others` behind.

        The first `shifted` of the others take up, with this sign, what the columns lose of their center.
        """
        if not others:
            return np.zeros((0, 0))
        count = len(self.columns)
        found = np.diag(np.append(self.factor, np.ones(others)))
        found[count : count + (others if shifted is None else shifted), :count] = sign * self.factor * self.center
        return found

    def spread(self, values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
        """The first of some values, those of the columns, over all features."""
        found = np.zeros(width)
        found[self.columns[: len(values)]] = values[: len(self.columns)]
        return found
