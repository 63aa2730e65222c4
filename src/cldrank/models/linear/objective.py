"""The objective of a linear selection model: CLD's likelihood over weighted rows of a design, less a ridge penalty."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cldrank import likelihood, segments
from cldrank.models.linear.design import Block, Design, as_numpy, gram, like
from cldrank.models.linear.row_blocks import Array, added, wider
from cldrank.optimise import Derivatives, Matrix, Vector

_SURE = 1e300  # a selection at which Φ is 1 and all its derivatives 0, whatever the residual adds


class SelectionObjective:
    """Mean log-likelihood of shown and unshown rows, less l2 (‖β‖² + ‖ω‖²), with gradient and Hessian.

        score = β·x + intercept,    selection = ω·x + intercept

    Parameters are β over `columns`, then ω over them, each with its intercept last. Where every candidate was shown,
    the best intercept of selection is infinite: then `selection` has no columns.

    The Hessian of any shown row lies in the same two directions (see `likelihood.tilt`), so a pass needs a weighted
    Gram matrix of the rows shown and another of the rows not shown: together, a Gram matrix of all rows.
    """

    def __init__(self, design: Design, gamma: float, l2: float) -> None:
        self.design, self.observed, self.gamma = design, design.observed, gamma
        self.columns = np.append(np.flatnonzero(design.moving), design.width - 1)
        self.selection = self.columns[:0] if self.observed.all_shown else self.columns
        cost = l2 * design.factor**2  # of a coefficient of the scaled features; an intercept costs nothing
        cost[-1] = 0.0
        self.penalties = np.append(cost[self.columns], cost[self.selection])
        self.total = float(self.observed.total)
        self._fixed: NDArray[np.float64] | None = None  # the Gram matrix that is the same in each pass

    def unpacked(self, parameters: Vector) -> tuple[Vector, Vector]:
        """The coefficients of score and selection over all columns."""
        score, selection = np.zeros(self.design.width), np.zeros(self.design.width)
        score[self.columns] = parameters[: len(self.columns)]
        selection[self.selection] = parameters[len(self.columns) :]
        return score, selection

    def evaluate(self, parameters: Vector) -> Derivatives:
        """Value, gradient and Hessian, in a single pass."""
        score, selection = self.unpacked(parameters)
        point = (score, selection if len(self.selection) else None, self.gamma, bool(self.observed.all_shown))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the solver looks for what is not finite
            sums = self.design.fold(partial(_block_sums, *point, self._fixed is None), added)
            value, by_score, by_selection, curvature, absent, fixed = _as_arrays(sums, self.design.width)
            self._fixed = fixed if self._fixed is None else self._fixed
            gradient = np.append(by_score[self.columns], by_selection[self.selection])
            hessian = self._hessian(self._fixed, curvature, absent) / self.total
            hessian[np.diag_indices_from(hessian)] -= 2 * self.penalties
            return Derivatives(
                float(value) / self.total - float(self.penalties @ parameters**2),
                gradient / self.total - 2 * self.penalties * parameters,
                hessian,
            )

    def log_likelihood(self, parameters: Vector, value: float) -> float:
        """The log-likelihood of all rows together, from the value of the objective."""
        return self.total * (value + float(self.penalties @ parameters**2))

    def separated(self, parameters: Vector) -> bool:
        """Whether the selection of each row shown is above that of each row not shown."""
        if not len(self.selection):
            return False
        lowest, highest = self.design.fold(partial(_extremes, self.unpacked(parameters)[1]), wider)
        return lowest > highest

    def _hessian(self, fixed: Matrix, curvature: Matrix, absent: Matrix) -> Matrix:
        """The Hessian of the log-likelihood, put together from the Gram matrices."""
        along, sinh = likelihood.tilt(self.gamma)
        across = -sinh
        score, selection = self.columns, self.selection
        relevance = fixed * likelihood.SQUARES + across**2 * curvature
        mixed = -across * along * curvature[np.ix_(score, selection)]
        own = -(along**2 * curvature + absent)[np.ix_(selection, selection)]
        return np.block([[-relevance[np.ix_(score, score)], mixed], [mixed.T, own]])


def _block_sums(
    score: Vector, selection: Vector | None, gamma: float, all_shown: bool, first: bool, block: Block
) -> Sequence[Array | None]:
    """Sums over the rows of a block; None for nothing. Without parameters of selection, all are surely shown.

    They are: log-likelihood, its gradients by the coefficients of score and selection, and Σ weight x xᵀ with the
    curvature of rows shown, with that of rows not shown, and, in the first pass, with the weights of rows shown.
    """
    own, rows = block.own, block.part
    index = block.take(slice(None))[:, -1] * _SURE if selection is None else block.dot(like(selection, rows))
    places, offsets, weight = own.shown, own.offsets, own.weight
    single = len(weight) == len(places)  # each row has one entry: nothing to repeat or to add up
    chosen = block.take(places)
    scores, seen = chosen @ like(score, rows), index[places]
    if not single:
        scores, seen = scores[own.owner], seen[own.owner]
    terms = likelihood.shown(scores, seen, own.target, gamma)
    by_row = [weight * part for part in terms[1:]]
    fixed = weight
    if not single:
        by_row = [segments.sums_of_segments(part, offsets) for part in by_row]
        fixed = segments.sums_of_segments(weight, offsets)
    value, by_selection, absent = (weight * terms.value).sum(), index * 0.0, None
    if not all_shown:
        away = likelihood.unshown(index)
        value, by_selection = value + (own.absent * away.value).sum(), own.absent * away.slope
        absent = own.absent * away.curvature
    by_selection[places] += by_row[1]
    return [
        value,
        chosen.T @ by_row[0],
        block.back(by_selection),
        gram(chosen, by_row[2]),
        None if absent is None else block.gram(absent),
        gram(chosen, fixed) if first else None,
    ]


def _extremes(selection: Vector, block: Block) -> tuple[float, float]:
    """The lowest selection of the rows shown, and the highest of those not shown."""
    index, away = block.dot(like(selection, block.part)), block.own.absent > 0
    if isinstance(index, np.ndarray):
        return float(index[~away].min(initial=np.inf)), float(index[away].max(initial=-np.inf))
    return float(index.masked_fill(away, np.inf).amin()), float(index.masked_fill(~away, -np.inf).amax())


def _as_arrays(sums: Sequence[Array | None], width: int) -> list[NDArray[np.float64]]:
    """Sums as numpy arrays, copied from a device at once; a matrix of zeros for nothing."""
    known = [part for part in sums if part is not None]
    if not all(isinstance(part, np.ndarray | np.generic) for part in known):
        import torch

        flat = as_numpy(torch.cat([part.double().reshape(-1) for part in known]))
        ends = np.cumsum([part.numel() for part in known])
        known = [part.reshape(own.shape) for part, own in zip(np.split(flat, ends[:-1]), known, strict=True)]
    there = iter(known)
    return [np.zeros((width, width)) if part is None else np.asarray(next(there)) for part in sums]
