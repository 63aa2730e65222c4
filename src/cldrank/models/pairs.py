"""Queries as places of a long table, in the order in which compiled loops walk through their pairs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.models import compiled
from cldrank.models.model import LossForm
from cldrank.models.targets import Observations, Targets, Unshown

Floats = NDArray[np.float64]

_LEFT_OUT = Unshown()
_PARTS = 4  # per thread: they take unequally long


class Slopes(NamedTuple):
    """The derivatives of the loss by each score, as the engine takes them, and the mean loss of a preference.

    held_loss, agreed   of the queries held out: the mean loss of a preference, each alike, and the share of the
                        preferences that the scores agree with
    """

    gradient: NDArray[np.float32]
    hessian: NDArray[np.float32]
    loss: float
    held_loss: float | None = None
    agreed: float | None = None


@dataclass(frozen=True, eq=False)
class PairTable:
    """The candidates of all queries that prefer any candidate to another. `weight` and `mixed` are scaled.

    rows       (rows,) the dataset row of each candidate, rising
    order      (rows,) by place, the candidate; of each query first those shown, from the highest target to the lowest
    offsets    (queries + 1,) the places of each query; up to `ends` (queries,) those of the shown
    follows    (rows,) by place, the first place behind those of the same target
    target     (rows,) by place
    weight     (rows,) by place; 0 for a candidate not shown
    mixed      (queries,) the weight of each pair of a shown and an unshown candidate
    """

    rows: IntArray
    order: IntArray
    offsets: IntArray
    ends: IntArray
    follows: IntArray
    target: Floats
    weight: Floats
    mixed: Floats

    @classmethod
    def of_targets(cls, targets: Targets) -> PairTable:
        """Pairs in the order of their targets."""
        return _table(targets.rows, targets.queries, targets.target, targets.weight)

    @classmethod
    def of_observations(cls, observed: Observations, unshown: Unshown) -> PairTable:
        """CLD-pair's pairs; with C for those with an unshown one, ω = 0, and pairs of shown ones count 1 + 2 C."""
        if unshown.weight is not None:
            return cls.of_targets(observed.with_unshown(unshown.weight))
        target, weight = observed.by_row()

        def of_candidates(values: Floats) -> Floats:
            full = np.zeros(len(observed.rows))
            full[observed.shown] = values
            return full

        return _table(observed.rows, observed.queries, of_candidates(target), of_candidates(weight), unshown)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_shown(self) -> IntArray:
        """(queries,) how many candidates of each query were shown."""
        return self.ends - self.offsets[:-1]

    @property
    def n_mixed(self) -> IntArray:
        """(queries,) how many pairs of a shown and an unshown candidate each query has."""
        shown = self.n_shown
        return (shown * (np.diff(self.offsets) - shown)).astype(np.int64)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What compiled loops need of it, in their order."""
        return self.order, self.offsets, self.ends, self.follows, self.target, self.weight

    def mixed_by(self, ratio: float) -> PairTable:
        """The same with weights for pairs with an unshown candidate: in all, `ratio` times those of the others."""
        each = ratio * self.totals() / np.maximum(self.n_mixed, 1)
        return replace(self, mixed=np.where(self.n_mixed > 0, each, 0.0))

    def part(self, start: int, stop: int) -> PairTable:
        """The queries of the places from start to stop, counted from `start`; these begin and end with a query."""
        first, last = (int(query) for query in np.searchsorted(self.offsets, [start, stop]))
        own = slice(start, stop)
        return PairTable(
            self.rows[own],
            self.order[own] - start,
            self.offsets[first : last + 1] - start,
            self.ends[first:last] - start,
            self.follows[own] - start,
            self.target[own],
            self.weight[own],
            self.mixed[first:last],
        )

    def preferences(self) -> Floats:
        """(rows,) by place, the preference of all pairs of two shown candidates that it is part of."""
        sums: Floats = compiled.preference_sums(*self.arrays[1:])
        return sums

    def totals(self) -> Floats:
        """(queries,) all preference of a query."""
        sums: Floats = segments.sums_of_segments(self.preferences(), self.offsets)
        return sums / 2


class PairLoss:
    """The loss of some queries of a table, as `form` says, while others are held out.

    `threads` share the work, and change nothing else.

    pairs     CLD-pair's
    top       the same, each pair of shown candidates weighted by what exchanging them would do to DCG
    softmax   -Σ t w log softmax, over all candidates of a query, each as often as its weight says

    All are scaled so that a candidate's second derivative is about 1.
    """

    def __init__(
        self, table: PairTable, queries: IntArray, threads: int, form: LossForm = "pairs", held: IntArray | None = None
    ) -> None:
        self._table, self._queries, self._form, self._held = table, queries, form, held
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._total = float(table.totals()[queries].sum())
        shown, size = table.n_shown[queries], np.diff(table.offsets)[queries]
        cost = np.cumsum(size if form == "softmax" else shown * size + size)
        cuts = np.searchsorted(cost, np.linspace(0, cost[-1], threads * _PARTS + 1)[1:-1])
        self._parts = [part for part in np.split(queries, cuts) if len(part)]
        self._gradient = np.zeros(len(table.rows), dtype=np.float32)
        self._hessian = np.zeros(len(table.rows), dtype=np.float32)
        self._lost = np.zeros(len(table))
        self._discounts = np.zeros(0)
        if form == "top":
            self._discounts = scaled_discounts(table)
        if form == "softmax":
            self._clicks, self._mass = clicks_and_mass(table)
            self._total = float(segments.sums_of_segments(self._clicks, table.offsets)[queries].sum())

    def at(self, scores: NDArray[np.float32]) -> Slopes:
        """The derivatives at the score of each candidate; the next call overwrites the arrays."""
        table = self._table
        written = (self._gradient, self._hessian, self._lost)

        def work(queries: IntArray) -> None:
            if self._form == "softmax":
                places = table.order, table.offsets, self._clicks, self._mass
                compiled.softmax_derivatives(scores, queries, *places, *written)
            else:
                compiled.derivatives(scores, queries, *table.arrays, table.mixed, self._discounts, *written)

        list(map(work, self._parts) if self._pool is None else self._pool.map(work, self._parts))
        loss = float(self._lost[self._queries].sum()) / self._total
        if self._held is None or not len(self._held):
            return Slopes(self._gradient, self._hessian, loss)
        lost, agreed, total = compiled.pair_agreement(scores, self._held, *table.arrays).sum(axis=1)
        return Slopes(self._gradient, self._hessian, loss, float(lost / total), float(agreed / total))


def scaled_discounts(table: PairTable) -> Floats:
    """The discounts of DCG by rank, such that those of two candidates of a query differ by about 1."""
    sizes = np.diff(table.offsets)
    discounts = 1 / np.log2(np.arange(2, sizes.max(initial=2) + 2))
    places = np.arange(len(discounts))
    differences = np.cumsum(np.append(0.0, np.cumsum(discounts)[:-1]) - places * discounts)  # of all pairs up to a rank
    apart = differences[sizes - 1] / (sizes * (sizes - 1) / 2)
    totals = table.totals()
    return discounts * float(totals.sum() / (totals * apart).sum())


def clicks_and_mass(table: PairTable) -> tuple[Floats, Floats]:
    """By place, target times weight, scaled, and the weight over the largest of the query."""
    clicks = np.maximum(table.target, 0) * table.weight
    largest = np.maximum.reduceat(table.weight, table.offsets[:-1])
    return clicks * (len(clicks) / clicks.sum()), table.weight / np.repeat(largest, np.diff(table.offsets))


def _table(
    rows: IntArray, queries: IntArray, target: Floats, weight: Floats, unshown: Unshown = _LEFT_OUT
) -> PairTable:
    """The table of candidates that lie query by query, without the queries that prefer none; weights are scaled."""
    shown = weight > 0
    lengths = np.diff(np.flatnonzero(np.diff(queries, prepend=-1, append=-1)))
    owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    high, low = np.full(len(lengths), -np.inf), np.full(len(lengths), np.inf)
    np.maximum.at(high, owner[shown], target[shown])
    np.minimum.at(low, owner[shown], target[shown])
    kept = (high > low)[owner]
    if not kept.all():  # step by step: a table of candidates may fill most of the memory
        rows = rows[kept]
        owner = owner[kept]
        target = target[kept]
        weight = weight[kept]
        shown = shown[kept]
    offsets = segments.from_lengths(lengths[high > low])
    order = np.lexsort([-target, ~shown, owner])
    changes = np.diff(owner) > 0  # the order is within queries
    changes |= np.diff(shown[order].astype(np.int8)) < 0
    del owner, shown, kept
    target = target[order]
    weight = weight[order]
    changes |= np.diff(target) != 0
    run_ends = np.append(np.flatnonzero(changes) + 1, len(order))
    follows = run_ends[np.cumsum(np.append(0, changes[: len(order) - 1]))] if len(order) else order
    ends = offsets[:-1] + segments.sums_of_segments((weight > 0).astype(np.int64), offsets)
    nothing = np.zeros(len(offsets) - 1)
    plain = PairTable(rows, order, offsets, ends, follows, target, weight, nothing)
    totals = plain.totals()
    whole = float(totals.sum())
    if not np.isfinite(whole):
        raise DataError("the targets are too large to be added up; clip the propensities with `clip`.")
    scale = 2 * plain.n_shown.sum() / whole if whole else 1.0  # so that a candidate's second derivative is about 1
    mixed = unshown.share * unshown.ratio * scale * totals / np.maximum(plain.n_mixed, 1)
    return replace(plain, weight=weight * scale * (1 + 2 * unshown.share), mixed=mixed)
