"""CLD-pair with linear relevance and linear selection: its unique optimum, by Newton's method over all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.models import compiled
from cldrank.models.fit import Context, Fit, finite, linear_ranker
from cldrank.models.linear.design import Block, Design, gram
from cldrank.models.linear.row_blocks import added, rows_of
from cldrank.models.linear.selection_fit import warn_unless_converged
from cldrank.models.pairs import PairTable
from cldrank.models.targets import Observations, Unshown
from cldrank.optimise import Derivatives, Vector, newton
from cldrank.rankers.provenance import FitRecord

if TYPE_CHECKING:
    from cldrank.models.linear.linear_model import Linear

Floats = NDArray[np.float64]


class PairObjective:
    """Mean log-likelihood of all pairs, less l2 (‖β‖² + ‖ω‖²), with gradient and Hessian; see `losses.cld_pair`.

    Each term is log σ of an affine function of the parameters, so that it is concave, with a unique optimum. Parameters
    are β over `columns`, then ω over them and its intercept. Without selection, where nothing is left that was not
    shown, the best ω is infinite, and its terms vanish.
    """

    def __init__(self, design: Design, l2: float, share: float) -> None:
        selects = share > 0 and bool(design.observed.mixed.any())
        self.design, self.share = design, share if selects else 0.0
        self.columns = np.flatnonzero(design.moving)
        self.selection = np.append(self.columns, design.width - 1) if selects else self.columns[:0]
        self.total = float(design.observed.totals().sum())
        cost = l2 * design.factor**2
        cost[-1] = 0.0
        self.penalties = np.append(cost[self.columns], cost[self.selection])

    def evaluate(self, parameters: Vector) -> Derivatives:
        """Value, gradient and Hessian, in a single pass."""
        point = self.unpacked(parameters)
        sums = self.design.fold(partial(_block_sums, point, self.share), added)
        value, score, selection, both, mixed, own = (np.asarray(part) for part in sums)
        gradient = np.append(score[self.columns], selection[self.selection]) / self.total
        mixed = mixed[np.ix_(self.columns, self.selection)]
        hessian = -np.block(
            [[both[np.ix_(self.columns, self.columns)], mixed], [mixed.T, own[np.ix_(self.selection, self.selection)]]]
        )
        return Derivatives(
            float(value) / self.total - float(self.penalties @ parameters**2),
            gradient - 2 * self.penalties * parameters,
            hessian / self.total - np.diag(2 * self.penalties),
        )

    def unpacked(self, parameters: Vector) -> tuple[Vector, Vector]:
        """The coefficients of score and selection over all columns of the design."""
        score, selection = np.zeros(self.design.width), np.zeros(self.design.width)
        score[self.columns] = parameters[: len(self.columns)]
        selection[self.selection] = parameters[len(self.columns) :]
        return score, selection


def _block_sums(point: tuple[Vector, Vector], share: float, block: Block) -> Sequence[Floats]:
    """Of a block: the value, its gradients by β and ω, and the parts ββ, βω and ωω of minus its Hessian."""
    x = np.ascontiguousarray(block.wide)
    shown = block.own.order[block.own.weight > 0]
    slopes, curves = np.zeros((2, len(x))), np.zeros((3, len(x)))
    sums = np.zeros((3, len(shown), x.shape[1]))
    value = compiled.linear_pairs(
        x, x @ point[0], x @ point[1], *block.own.arrays, block.own.mixed, share, slopes, curves, sums
    )
    seen = x[shown]
    across = seen.T @ (sums[0] + sums[1])
    mixed = (x * curves[1][:, None]).T @ x - sums[0].T @ seen + seen.T @ sums[2]
    both = gram(x, curves[0]) - across - across.T
    return np.asarray(value), x.T @ slopes[0], x.T @ slopes[1], both, mixed, gram(x, curves[2])


def fit_pairs(model: Linear, observed: Observations, context: Context, *, unshown: Unshown) -> Fit:
    """Fit relevance, and selection where C says how much it counts, to all pairs."""
    table = PairTable.of_observations(observed, Unshown(unshown.weight))
    if not len(table):
        raise DataError(
            f"no query has a candidate preferred to another; {context.user} learns from such pairs: it needs queries "
            "with several shown candidates that were clicked unequally often."
        )
    table = table.mixed_by(unshown.ratio)
    rows = rows_of(context, model.scaling, table, rows=table.rows, offsets=table.offsets)
    scaling, design = rows.view.scaling, Design(rows)
    if not design.moving.any():
        raise DataError(f"all features of {context.data!r} are constant; there is nothing to rank its rows by.")
    objective = PairObjective(design, float(model.l2), unshown.share)
    begin = np.zeros(len(objective.penalties))
    solution = newton(objective.evaluate, begin, max_steps=model.max_steps)
    warn_unless_converged(solution, context.user)
    score, selection = (design.to_features(part) for part in objective.unpacked(solution.parameters))
    if not len(objective.selection):
        selection = (selection[0], np.inf)
    constant = tuple(name for name, moves in zip(context.data.feature_names, design.moving, strict=False) if not moves)
    loss = -(solution.value + float(objective.penalties @ solution.parameters**2))
    return Fit(
        ranker=linear_ranker(context, scaling, score[0], 0.0),
        diagnostics=FitRecord(
            status=solution.status,
            steps=solution.n_steps,
            rows=len(table.rows),
            loss=finite(loss),
            learned_queries=len(table),
            constant=constant,
        ),
        learned={
            "coef": score[0],
            "intercept": 0.0,
            "selection_coef": selection[0],
            "selection_intercept": selection[1],
            "n_queries": len(table),
            "constant_features": constant,
        },
    )
