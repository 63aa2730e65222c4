"""The objective of a linear selection model: a likelihood over weighted rows of a design, less a ridge penalty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import likelihood, segments
from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.likelihood import Form
from cldrank.models.linear.design import Block, Design, as_numpy, gram, like
from cldrank.models.linear.inference import QuerySquares
from cldrank.models.linear.rows import Array, added, wider
from cldrank.optimise import Derivatives, Matrix, Vector

Shared = Literal["log_sigma", "atanh_gamma"]
_SHARED: tuple[Shared, ...] = ("log_sigma", "atanh_gamma")  # in the order of `likelihood.shown_nuisance`

_SURE = 1e300  # a selection at which Φ is 1 and all its derivatives 0, whatever the residual adds


class _Terms(NamedTuple):
    """Of the rows of one block: log-likelihood and its derivatives, those of a row's entries added up."""

    value: Array
    chosen: Array  # (shown,): where in the block the shown rows are
    score: Array  # (shown,)
    selection: Array  # (rows,)
    curvature: Array  # (shown,): of log Φ
    absent: Array | None  # (rows,): curvature of the rows not shown; None where all are shown
    fixed: Array  # (shown,): weight
    owner: Array  # (entries,): the shown row that an entry belongs to
    shared: likelihood.Nuisance | None  # weighted, for each entry


class _Point(NamedTuple):
    """Where an objective is evaluated, and which parts of it there are.

    score, selection   (columns,) coefficients
    form               the noise
    selects            whether selection has parameters
    all_shown          whether there are no rows but those shown
    shares             whether a parameter of the noise is free
    """

    score: Vector
    selection: Vector
    form: Form
    selects: bool
    all_shown: bool
    shares: bool


class _Sums(NamedTuple):
    """The same added up over all rows; vectors and matrices are over the columns of the design."""

    value: Array
    score: Array
    selection: Array
    curvature: Array
    absent: Array
    fixed: Array
    shared: Array  # (2,)
    shared_score: Array  # (2, columns)
    shared_selection: Array  # (2, columns)
    shared_hessian: Array  # (2, 2)


class SelectionObjective:
    """Mean log-likelihood of shown and unshown rows, less l2 (‖β‖² + ‖ω‖²), with gradient and Hessian.

        score = β·x + intercept,    selection = ω·x + intercept

    Parameters are β over `relevance`, ω over `selection`, each with its intercept last, and those of log σ and atanh γ
    that are `free`.

    The Hessian of any shown row lies in the same two directions (see `Form.direction`), so a pass needs one weighted
    Gram matrix of the rows shown and one of the rows not shown: together, one Gram matrix of all rows.
    """

    def __init__(
        self,
        design: Design,
        form: Form,
        l2: float,
        *,
        relevance: IntArray | None = None,
        selection: IntArray | None = None,
        fit_intercept: bool = True,
        free: tuple[Shared, ...] = (),
    ) -> None:
        self.design, self.observed, self.form, self.l2, self.free = design, design.observed, form, l2, free
        useful = design.moving | (design.level != 0)  # a constant is of use only in place of an intercept
        if fit_intercept:
            useful = design.moving.copy()
        useful[-1] = fit_intercept
        self.relevance, self.selection = _useful(relevance, useful), _useful(selection, useful)
        if self.observed.all_shown:
            self.selection = self.selection[:0]
        self.total = float(self.observed.total)
        self._fixed: list[Array] = []  # what does not change from pass to pass

    def varied(self, form: Form, free: tuple[Shared, ...]) -> SelectionObjective:
        """The same rows under another form, or with other free parameters; nothing is copied."""
        other = object.__new__(SelectionObjective)
        other.__dict__.update(self.__dict__, form=form, free=free)
        return other

    # -- parameters ----------------------------------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """The length of the parameter vector."""
        return len(self.relevance) + len(self.selection) + len(self.free)

    @property
    def penalties(self) -> Vector:
        """What the square of each parameter costs: l2 for a coefficient of the scaled features, else nothing."""
        cost = self.l2 * self.design.factor**2
        cost[-1] = 0.0
        return np.concatenate([cost[self.relevance], cost[self.selection], np.zeros(len(self.free))])

    def unpacked(self, parameters: Vector) -> tuple[Vector, Vector, Form]:
        """Coefficients of score and selection over all columns, and the form with its free parameters."""
        split, end = len(self.relevance), len(self.relevance) + len(self.selection)
        score, selection = np.zeros(self.design.width), np.zeros(self.design.width)
        score[self.relevance], selection[self.selection] = parameters[:split], parameters[split:end]
        form = self.form
        for name, value in zip(self.free, parameters[end:], strict=True):
            is_sigma = name == "log_sigma"
            form = replace(form, sigma=math.exp(value)) if is_sigma else replace(form, gamma=math.tanh(value))
        return score, selection, form

    def _at(self, parameters: Vector) -> _Point:
        shown = self.observed.all_shown
        return _Point(*self.unpacked(parameters), bool(len(self.selection)), shown, bool(self.free))

    # -- the objective -------------------------------------------------------------------------------------------

    def evaluate(self, parameters: Vector) -> Derivatives:
        """Value, gradient and Hessian, in one pass."""
        try:
            point = self._at(parameters)
        except (OverflowError, UsageError):  # σ or γ beyond what float64 holds
            return Derivatives(np.nan, np.full(len(parameters), np.nan), np.full((len(parameters),) * 2, np.nan))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the solver looks for what is not finite
            sums = self._pass(point)
            total, penalties = self.total, self.penalties
            shared = sums.shared[self._kept]
            gradient = np.concatenate([sums.score[self.relevance], sums.selection[self.selection], shared])
            hessian = self._hessian(sums, point.form) / total
            hessian[np.diag_indices_from(hessian)] -= 2 * penalties
            value = float(sums.value) / total - float(penalties @ parameters**2)
            return Derivatives(value, gradient / total - 2 * penalties * parameters, hessian)

    def log_likelihood(self, parameters: Vector, value: float) -> float:
        """The log-likelihood of all rows together, from the value of the objective."""
        return self.total * (value + float(self.penalties @ parameters**2))

    def clustered(self, parameters: Vector) -> Matrix:
        """Σ over queries of g gᵀ, where g is the gradient of a query's log-likelihood; in one pass."""
        columns = _GradientColumns(self.relevance, self.selection, self._kept)
        by_query = partial(_query_squares, self._at(parameters), columns)
        return self.design.fold(by_query, QuerySquares.joined).total

    def separated(self, parameters: Vector) -> bool:
        """Whether the selection of each row shown is above that of each row not shown."""
        lowest, highest = self.design.fold(partial(_extremes, self.unpacked(parameters)[1]), wider)
        return lowest > highest

    # -- sums over rows ------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> list[int]:
        return [_SHARED.index(name) for name in self.free]

    def _pass(self, point: _Point) -> _Sums:
        """All sums over all rows, as numpy arrays."""
        parts = self.design.fold(partial(_block_sums, point, not self._fixed), added)
        sums = _Sums(*_as_arrays(parts, _shapes(self.design.width)))
        if not self._fixed:
            self._fixed.append(sums.fixed)
        return sums._replace(fixed=self._fixed[0])

    def _hessian(self, sums: _Sums, form: Form) -> Matrix:
        """The Hessian of the log-likelihood, put together from the Gram matrices."""
        across, along = form.direction
        score, selection = self.relevance, self.selection
        relevance = sums.fixed * form.squares + across**2 * sums.curvature
        mixed = -across * along * sums.curvature[np.ix_(score, selection)]
        own = -(along**2 * sums.curvature + sums.absent)[np.ix_(selection, selection)]
        hessian = np.block([[-relevance[np.ix_(score, score)], mixed], [mixed.T, own]])
        if not self.free:
            return hessian
        kept = self._kept
        border = np.hstack([sums.shared_score[kept][:, score], sums.shared_selection[kept][:, selection]])
        return np.block([[hessian, border.T], [border, sums.shared_hessian[np.ix_(kept, kept)]]])


class _GradientColumns(NamedTuple):
    """The columns of a gradient: those of score and selection, and which shared parameters there are."""

    relevance: IntArray
    selection: IntArray
    shared: list[int]


def _terms(point: _Point, block: Block) -> _Terms:
    """The derivatives of the rows of a block."""
    own, rows = block.own, block.part
    index = block.dot(like(point.selection, rows)) if point.selects else block.take(slice(None))[:, -1] * _SURE
    chosen, offsets, weight, owner = own.shown, own.offsets, own.weight, own.owner
    single = len(weight) == len(chosen)  # each row has one entry: nothing to repeat or to add up
    scores, seen = block.take(chosen) @ like(point.score, rows), index[chosen]
    if not single:
        scores, seen = scores[owner], seen[owner]
    terms = likelihood.shown(scores, seen, own.target, point.form)
    by_row = [weight * part for part in terms[1:]]
    fixed = weight
    if not single:
        by_row = [segments.sums_of_segments(part, offsets) for part in by_row]
        fixed = segments.sums_of_segments(weight, offsets)
    value, by_selection, absent = (weight * terms.value).sum(), index * 0.0, None
    if not point.all_shown:
        away = likelihood.unshown(index)
        value, by_selection = value + (own.absent * away.value).sum(), own.absent * away.slope
        absent = own.absent * away.curvature
    by_selection[chosen] += by_row[1]
    shared = None
    if point.shares:
        nuisance = likelihood.shown_nuisance(scores, seen, own.target, point.form)
        shared = likelihood.Nuisance(*(weight * part for part in nuisance))
    return _Terms(value, chosen, by_row[0], by_selection, by_row[2], absent, fixed, owner, shared)


def _block_sums(point: _Point, fixed: bool, block: Block) -> Sequence[Array | None]:
    """What a block adds to each part of `_Sums`; None for nothing."""
    terms = _terms(point, block)
    chosen = block.take(terms.chosen)
    parts = [
        terms.value,
        chosen.T @ terms.score,
        block.back(terms.selection),
        gram(chosen, terms.curvature),
        None if terms.absent is None else block.gram(terms.absent),
        gram(chosen, terms.fixed) if fixed else None,
    ]
    if terms.shared is None:
        return [*parts, None, None, None, None]
    own, shared = chosen[terms.owner], terms.shared
    return [*parts, shared.gradient.sum(-1), shared.score @ own, shared.selection @ own, shared.hessian.sum(-1)]


def _query_squares(point: _Point, columns: _GradientColumns, block: Block) -> QuerySquares:
    """The squares of the gradients of a block's queries."""
    terms = _terms(point, block)
    wide, chosen = as_numpy(block.wide), as_numpy(terms.chosen)
    split, end = len(columns.relevance), len(columns.relevance) + len(columns.selection)
    gradients = np.zeros((len(wide), end + len(columns.shared)))
    gradients[chosen, :split] = wide[np.ix_(chosen, columns.relevance)] * as_numpy(terms.score)[:, None]
    gradients[:, split:end] = wide[:, columns.selection] * as_numpy(terms.selection)[:, None]
    if terms.shared is not None:
        np.add.at(gradients[:, end:], chosen[as_numpy(terms.owner)], as_numpy(terms.shared.gradient)[columns.shared].T)
    return QuerySquares.of(as_numpy(block.own.queries), gradients)


def _extremes(selection: Vector, block: Block) -> tuple[float, float]:
    """The lowest selection of the rows shown, and the highest of those not shown."""
    index, away = block.dot(like(selection, block.part)), block.own.absent > 0
    if isinstance(index, np.ndarray):
        return float(index[~away].min(initial=np.inf)), float(index[away].max(initial=-np.inf))
    return float(index.masked_fill(away, np.inf).amin()), float(index.masked_fill(~away, -np.inf).amax())


def _as_arrays(sums: Sequence[Array | None], shapes: list[tuple[int, ...]]) -> list[NDArray[np.float64]]:
    """Sums as numpy arrays, copied from a device at once; zeros for nothing."""
    known = [part for part in sums if part is not None]
    if not all(isinstance(part, np.ndarray | np.generic) for part in known):
        import torch

        flat = as_numpy(torch.cat([part.double().reshape(-1) for part in known]))
        ends = np.cumsum([part.numel() for part in known])
        known = [part.reshape(own.shape) for part, own in zip(np.split(flat, ends[:-1]), known, strict=True)]
    there = iter(known)
    return [
        np.zeros(shape) if part is None else np.asarray(next(there)) for shape, part in zip(shapes, sums, strict=True)
    ]


def _shapes(width: int) -> list[tuple[int, ...]]:
    """The shapes of the parts of `_Sums`."""
    square = (width, width)
    return [(), (width,), (width,), square, square, square, (2,), (2, width), (2, width), (2, 2)]


def _useful(columns: IntArray | None, useful: NDArray[np.bool_]) -> IntArray:
    """The columns that tell anything, the ones last."""
    wanted = np.ones(len(useful), dtype=bool)
    if columns is not None:
        wanted[:] = False
        wanted[columns] = True
        wanted[-1] = True
    return np.flatnonzero(wanted & useful)
