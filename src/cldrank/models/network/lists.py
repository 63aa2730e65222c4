"""Queries as lists of candidates: packed by size into tables of fixed width, so that a step needs no loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.models.targets import Observations, Targets

_WIDTHS = np.array([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64])


@dataclass(frozen=True, eq=False)
class Lists:
    """What is to be learned from: for each list, the candidates with a target, and those that were not shown.

    offsets            (lists + 1,) entries offsets[i] … offsets[i+1]-1 are the candidates of list i with a target
    rows               (entries,) the row of the feature table
    target             (entries,) float32
    weight             (entries,) float32
    unshown_offsets    (lists + 1,)
    unshown_rows       (unshown,) the rows of those not shown
    pages              (lists,) float32: how often the query was displayed
    """

    offsets: IntArray
    rows: IntArray
    target: NDArray[np.float32]
    weight: NDArray[np.float32]
    unshown_offsets: IntArray
    unshown_rows: IntArray
    pages: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, lists: IntArray) -> Lists:
        """Some of the lists, in the order chosen."""
        if len(lists) == len(self) and (np.diff(lists) > 0).all():
            return self
        entries = segments.rows_of_segments(self.offsets, lists)
        return self._made_of(lists, np.diff(self.offsets)[lists], entries, self.pages[lists])

    def _made_of(self, owner: IntArray, lengths: IntArray, entries: IntArray, pages: NDArray[np.float32]) -> Lists:
        """Lists of these entries, each with all the unshown of the list that it comes from."""
        unshown = segments.rows_of_segments(self.unshown_offsets, owner)
        return Lists(
            segments.from_lengths(lengths),
            self.rows[entries],
            self.target[entries],
            self.weight[entries],
            segments.from_lengths(np.diff(self.unshown_offsets)[owner]),
            self.unshown_rows[unshown],
            pages,
        )

    def preferring(self) -> IntArray:
        """The lists in which some candidate is preferred to another; the others teach pairs nothing."""
        counts = self.weight > 0
        high = np.full(len(self), -np.inf, dtype=np.float32)
        low = np.full(len(self), np.inf, dtype=np.float32)
        owner = segments.segment_of_rows(self.offsets)[counts]
        np.maximum.at(high, owner, self.target[counts])
        np.minimum.at(low, owner, self.target[counts])
        return np.flatnonzero(high > low)

    def cut(self, size: int, seed: int) -> Lists:
        """Lists longer than `size` cut at random into lists of nearly equal length; pairs live within a list.

        Each piece has all that were not shown, with its share of the pages.
        """
        lengths = np.diff(self.offsets)
        if not len(lengths) or lengths.max() <= size:
            return self
        pieces = np.maximum(-(-lengths // size), 1)
        owner = np.repeat(np.arange(len(pieces)), pieces)
        place = segments.places_in_segments(segments.from_lengths(pieces)) - 1
        new_lengths = (lengths[owner] + pieces[owner] - 1 - place) // pieces[owner]
        drawn = np.random.default_rng([seed, 0x115]).random(len(self.rows))
        order = np.where(np.repeat(pieces, lengths) > 1, drawn, 0.0)
        entries = np.lexsort([order, segments.segment_of_rows(self.offsets)])
        return self._made_of(owner, new_lengths, entries, (self.pages / pieces)[owner].astype(np.float32))

    def pack(self, draws: Callable[[int], float] = lambda _: 0.0) -> list[ListTable]:
        """The lists in groups of like size; `draws` says how many of those not shown a list of a size draws."""
        lengths = np.diff(self.offsets)
        top = int(lengths.max(initial=1))
        widths = np.append(_WIDTHS[top > _WIDTHS], [*range(72, top, 8), top])
        width_of = widths[np.searchsorted(widths, lengths)]
        return [self._group(np.flatnonzero(width_of == width), int(width), draws) for width in np.unique(width_of)]

    def _group(self, lists: IntArray, width: int, draws: Callable[[int], float]) -> ListTable:
        lengths, places = np.diff(self.offsets)[lists], np.arange(width)
        inside = places < lengths[:, None]
        first = np.minimum(self.offsets[lists], max(len(self.rows) - 1, 0))[:, None]  # of an empty list, any
        entries = np.where(inside, first + places, first)
        counts = np.diff(self.unshown_offsets)[lists]
        most = min(draws(width), float(counts.max(initial=0)))
        return ListTable(
            lists,
            self.rows[entries],
            self.target[entries] * inside,
            self.weight[entries] * inside,
            self.unshown_offsets[lists],
            counts,
            self.pages[lists],
            int(np.ceil(most)),
        )


@dataclass(frozen=True, eq=False)
class ListTable:
    """Lists of like size as tables: Q lists of S candidates, weight 0 where a list is shorter.

    lists             (Q,)
    rows              (Q, S)
    target, weight    (Q, S) float32
    unshown_start     (Q,) where the unshown of a list begin among all
    unshown_count     (Q,)
    pages             (Q,)
    draws             how many of the unshown a list draws in an epoch
    """

    lists: IntArray
    rows: IntArray
    target: NDArray[np.float32]
    weight: NDArray[np.float32]
    unshown_start: IntArray
    unshown_count: IntArray
    pages: NDArray[np.float32]
    draws: int


def target_lists(targets: Targets) -> Lists:
    """A list for each query of targets, without candidates that were not shown."""
    nothing = np.zeros(0, dtype=np.int64)
    queries = np.unique(targets.queries)
    return _lists(targets, queries, nothing, nothing, np.ones(len(queries)))


def observed_lists(observed: Observations) -> Lists:
    """A list for each query displayed: targets and weights of the shown candidates, and those not shown."""
    absent = observed.absent > 0
    queries = observed.queries[np.flatnonzero(np.diff(observed.queries, prepend=-1))]
    pages = cast("NDArray[np.float64]", observed.pages)[queries]
    return _lists(observed.shown_rows(), queries, observed.queries[absent], observed.rows[absent], pages)


def _lists(
    targets: Targets, queries: IntArray, unshown_queries: IntArray, unshown_rows: IntArray, pages: NDArray[np.float64]
) -> Lists:
    """A list for each query, of its own targets and unshown candidates."""
    return Lists(
        _offsets(targets.queries, queries),
        targets.rows,
        targets.target.astype(np.float32),
        targets.weight.astype(np.float32),
        _offsets(unshown_queries, queries),
        unshown_rows,
        pages.astype(np.float32),
    )


def in_table(n_rows: int, *lists: Lists) -> tuple[IntArray, list[Lists]]:
    """Of `n_rows` rows, those that lists use, in order, and the lists with the places of their rows among these."""
    used = np.zeros(n_rows, dtype=bool)
    for own in lists:
        used[own.rows] = used[own.unshown_rows] = True
    place = np.cumsum(used) - 1
    placed = [replace(own, rows=place[own.rows], unshown_rows=place[own.unshown_rows]) for own in lists]
    return np.flatnonzero(used), placed


def _offsets(owners: IntArray, queries: IntArray) -> IntArray:
    """Where the entries of each query begin, in entries that lie query by query."""
    counts = np.searchsorted(owners, queries, side="right") - np.searchsorted(owners, queries)
    offsets: IntArray = segments.from_lengths(counts)
    return offsets


@dataclass(frozen=True, eq=False)
class ListBatch:
    """B lists of S candidates with a target, and U that were not shown.

    rows              (B, S + U) places in the feature table
    target, weight    (B, S)
    drawn             (B, U) 1 where a candidate was drawn, 0 for padding
    unshown           (B,) how many candidates were not shown in all
    pages             (B,) how often the query was displayed
    """

    rows: Tensor
    target: Tensor
    weight: Tensor
    drawn: Tensor
    unshown: Tensor
    pages: Tensor


class BatchSource:
    """Lists of like size on the device; `draw` chooses anew which of the unshown stand beside them."""

    def __init__(self, packed: ListTable, unshown_rows: NDArray[np.int64], device: torch.device) -> None:
        def tensor(values: NDArray[Any], kind: torch.dtype) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device, kind)

        count, draws = len(packed.lists), packed.draws
        self._start = tensor(packed.unshown_start, torch.int64)
        self._count = tensor(packed.unshown_count, torch.int64)
        self._unshown_rows = tensor(unshown_rows, torch.int64)
        taken = self._count.clamp(max=draws)[:, None]
        edges = torch.arange(draws + 1, device=device) * self._count[:, None] // taken.clamp(min=1)
        self._parts, self._sizes = edges[:, :-1], edges.diff(dim=1)
        drawn = (torch.arange(draws, device=device) < taken).float()
        target, weight = tensor(packed.target, torch.float32), tensor(packed.weight, torch.float32)
        ends = [self._count.float()[:, None], tensor(packed.pages, torch.float32)[:, None]]
        self._numbers = torch.cat([target, weight, drawn, *ends], dim=1)  # together: a batch looks them up at once
        extra = torch.zeros((count, draws), dtype=torch.int64, device=device)
        self._rows = torch.cat([tensor(packed.rows, torch.int64), extra], dim=1)
        self.width, self.draws, self.device = packed.rows.shape[1], draws, device
        self.lists = packed.lists

    def __len__(self) -> int:
        return len(self._rows)

    def draw(self, random: torch.Generator) -> None:
        """Draw an unshown candidate for each list from each of several parts, after a random rotation.

        So none is drawn twice, and all are equally likely, though parts may differ by 1 in size.
        """
        if not self.draws:
            return
        uniform = torch.rand((len(self), self.draws + 1), generator=random, device=self._rows.device)
        count = self._count[:, None]
        place = self._parts + (uniform[:, 1:] * self._sizes).long() + (uniform[:, :1] * count).long()
        place = place % count.clamp(min=1) + self._start[:, None]
        place = place.clamp(max=len(self._unshown_rows) - 1)  # of a list with nothing unshown, at the very end
        self._rows[:, self.width :] = self._unshown_rows[place]

    def batch(self, chosen: Tensor) -> ListBatch:
        """Some of the lists."""
        rows, numbers = self._rows[chosen], self._numbers[chosen]
        target, weight, drawn, ends = numbers.split([self.width, self.width, self.draws, 2], dim=1)
        return ListBatch(rows, target, weight, drawn, ends[:, 0], ends[:, 1])
