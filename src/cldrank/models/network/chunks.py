"""Features that stay on disk: read chunk by chunk, a few chunks at a time, from which the batches are drawn.

A stretch is a row group, or some small ones together. A row group can only be read from its start, so stretches come in
random order, and what is in them in the order of the file. A chunk is a part of a stretch and ends where a query ends.
The chunks that are held together are a window. While a network learns from one window, the next is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cldrank._typing import IntArray
from cldrank.models.network.distributed import World
from cldrank.models.network.lists import BatchSource, Lists
from cldrank.scaling import Scaling, ScalingRule
from cldrank.workers import ahead

_BUFFER_BYTES = 1 << 30  # of scaled features in memory: the window in use and the one that is read meanwhile
_CHUNKS = 32  # that a buffer holds at least: larger row groups are read in several parts, smaller ones together
_SAMPLED = 4  # chunks, of which a sample is taken


def on_disk(features: Any) -> bool:
    """Whether features are read from row groups on disk, as `ParquetFeatures` are."""
    return hasattr(features, "row_group_offsets")


def learned_on_disk(rule: ScalingRule, features: Any) -> Scaling:
    """The scaling that a rule learns from features on disk, block by block."""
    return Scaling(rule, features.shape[1], rule.learn(features, None))


def row_stretches(groups: IntArray, most: int) -> IntArray:
    """The rows at which stretches begin, and the number of rows; row groups are joined to about `most` rows.

    Who reads a row group reads a little beyond it, which would be much if each small one were read by itself.

    >>> row_stretches(np.array([0, 2, 4, 6, 8, 30]), 4)
    array([ 0,  4,  8, 30])
    """
    wanted = np.arange(0, groups[-1], most)
    return np.unique(np.append(groups[np.searchsorted(groups, wanted)], groups[-1]))


def chunk_edges(stretches: IntArray, offsets: IntArray, most: int) -> IntArray:
    """The rows at which chunks of about `most` rows begin, and the number of rows; queries begin at `offsets`.

    >>> chunk_edges(np.array([0, 4, 10]), np.array([0, 3, 6, 8, 10]), 4)
    array([ 0,  6,  8, 10])
    """
    parts = []
    for start, stop in zip(stretches, stretches[1:], strict=False):
        count = -(-(stop - start) // most)
        parts.append(start + (stop - start) * np.arange(count) // count)
    wanted = np.concatenate([*parts, stretches[-1:]])
    return np.unique(offsets[np.searchsorted(offsets, wanted)])


class ChunkWindow:
    """Some chunks in memory, scaled.

    chunks     their numbers
    """

    def __init__(self, chunks: IntArray, edges: IntArray, features: Tensor) -> None:
        self.chunks, self._features = chunks, features
        before = np.concatenate([[0], np.cumsum(edges[chunks + 1] - edges[chunks])])[:-1]
        shift = np.zeros(len(edges) - 1, dtype=np.int64)
        shift[chunks] = before - edges[chunks]
        device = features.device
        self._edges, self._shift = torch.from_numpy(edges[1:]).to(device), torch.from_numpy(shift).to(device)

    def gather(self, places: Tensor) -> Tensor:
        """The rows at some places of the table; of one that is elsewhere, which is padding, any row."""
        chunk = torch.searchsorted(self._edges, places, right=True)
        return self._features.index_select(0, (places + self._shift[chunk]).clamp(0, len(self._features) - 1))


class ChunkedTable:
    """Some rows of features on disk, scaled as they are read; places are counted among these rows.

    edges       the places at which chunks begin, and the number of places
    stretches   the number of each chunk's stretch
    """

    resident: Tensor | None = None

    def __init__(
        self, features: Any, scaling: Scaling, rows: IntArray, offsets: IntArray, device: torch.device
    ) -> None:
        self._features, self._scaling, self._rows, self.device = features, scaling, rows, device
        self._row_bytes = 4 * features.shape[1]
        most = max(1, _BUFFER_BYTES // _CHUNKS // self._row_bytes)
        begin = row_stretches(np.asarray(features.row_group_offsets, dtype=np.int64), most)
        bounds = chunk_edges(begin, offsets, most)
        places = np.searchsorted(rows, bounds)
        full = np.flatnonzero(np.diff(places))
        self._starts, self._stops = bounds[full], bounds[full + 1]
        self.edges = np.append(places[full], len(rows))
        self.stretches = np.searchsorted(begin, self._starts, side="right") - 1

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def n_chunks(self) -> int:
        """How many chunks there are."""
        return len(self._starts)

    @property
    def fits(self) -> bool:
        """Whether the buffer holds all rows."""
        return bool(len(self) * self._row_bytes <= _BUFFER_BYTES)

    @property
    def _window_rows(self) -> int:
        return int(max(1, _BUFFER_BYTES // 2 // self._row_bytes))

    def chunk_of_lists(self, lists: Lists) -> IntArray:
        """The chunk of each list, of which all candidates are of one query."""
        first = np.minimum(lists.offsets[:-1], max(len(lists.rows) - 1, 0))
        other = np.minimum(lists.unshown_offsets[:-1], max(len(lists.unshown_rows) - 1, 0))
        empty = np.diff(lists.offsets) == 0
        place = np.where(empty, lists.unshown_rows[other] if len(lists.unshown_rows) else 0, lists.rows[first])
        return np.searchsorted(self.edges, place, side="right") - 1

    def windows(self, chunks: IntArray, first: float = 1.0) -> list[IntArray]:
        """Chunks in their order, parted so that two windows fit into the buffer; at least one chunk each.

        first   the share of its room that the first window takes, so that not all epochs part them at the same places
        """
        most = self._window_rows
        found: list[list[int]] = [[]]
        held = (1 - first) * most
        for chunk in chunks.tolist():
            size = int(self.edges[chunk + 1] - self.edges[chunk])
            if found[-1] and held + size > most:
                found.append([])
                held = 0
            found[-1].append(chunk)
            held += size
        return [np.array(window) for window in found if window]

    def read(self, windows: Sequence[IntArray]) -> Iterator[ChunkWindow]:
        """One window after the other; the next one is read while this one is used, and this one let go after it."""
        return ahead(self._window, windows, threads=1, most=1)

    def gather(self, places: NDArray[np.int64]) -> Tensor:
        """The rows at some places, wherever they are, on the device; each chunk is read once."""
        found = torch.empty((len(places), self._features.shape[1]), device=self.device)
        chunk = np.searchsorted(self.edges, places, side="right") - 1
        for one in np.unique(chunk):
            own = np.flatnonzero(chunk == one)
            into, wanted = (torch.from_numpy(part).to(self.device) for part in (own, places[own]))
            found[into] = self._window(np.array([one])).gather(wanted)
        return found

    @property
    def plan(self) -> bytes:
        """All that decides which rows are held together: a training goes on only under the same plan."""
        return np.concatenate([[self._window_rows], self._starts, self.edges, self.stretches]).tobytes()

    def sample(self) -> IntArray:
        """The places of up to a thousand rows, which are in a few chunks, each the first of its stretch."""
        first = np.flatnonzero(np.diff(self.stretches, prepend=-1))
        chosen = first[np.unique(np.linspace(0, len(first) - 1, _SAMPLED).astype(np.int64))]
        most = 1000 // _SAMPLED
        return np.concatenate([np.arange(*self.edges[chunk : chunk + 2])[:most] for chunk in chosen])

    def held(self) -> Tensor:
        """All rows, on the device."""
        return self._window(np.arange(self.n_chunks))._features

    def _window(self, chunks: IntArray) -> ChunkWindow:
        sizes = self.edges[chunks + 1] - self.edges[chunks]
        features = torch.empty((int(sizes.sum()), self._features.shape[1]), device=self.device)
        end = 0
        for chunk, size in zip(chunks, sizes, strict=True):
            start, stop = int(self._starts[chunk]), int(self._stops[chunk])
            part = self._features[start:stop]
            own = self._rows[self.edges[chunk] : self.edges[chunk + 1]] - start
            scaled = self._scaling.transform(part if len(own) == len(part) else part[own])
            features[end : end + size] = torch.from_numpy(scaled)
            end += size
        return ChunkWindow(chunks, self.edges, features)


class ChunkReading:
    """Which windows an epoch reads, in which order, and the batches drawn from them; the same plan in all processes.

    An epoch's order is cut into one share for each process, with about as many lists: processes seldom read of the same
    stretch, and one that begins in the middle of a row group passes over what is before. A process with fewer batches
    than another has empty ones at the end.
    """

    def __init__(
        self, table: ChunkedTable, lists: Lists, groups: list[BatchSource], batch: int, seed: int, world: World
    ) -> None:
        self._table, self._groups, self._seed, self._world = table, groups, seed, world
        owner = table.chunk_of_lists(lists)
        self._owners = [owner[group.lists] for group in groups]
        sizes = [np.bincount(own, minlength=table.n_chunks) for own in self._owners]
        self._sizes = np.stack(sizes) if sizes else np.zeros((0, table.n_chunks), dtype=np.int64)
        self._used = np.flatnonzero(self._sizes.sum(axis=0))
        self._batch = -(-batch // world.size)

    def steps(self, number: int) -> int:
        """The steps of an epoch: those of the process that has most."""
        return max(sum(map(self._steps, self._windows(number, rank))) for rank in range(self._world.size))

    def batches(self, number: int) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """The batches of an epoch: a group, some of its lists, and their features; in random order within a window."""
        random = np.random.default_rng([self._seed, number, self._world.rank, 0xC4])
        steps = 0
        for window, parts in self._read(self._windows(number, self._world.rank)):
            plan = [
                (index, part)
                for index, lists in parts
                for part in lists[torch.from_numpy(random.permutation(len(lists)))].split(self._batch)
            ]
            for at in random.permutation(len(plan)):
                index, part = plan[at]
                yield index, part, window.gather(self._groups[index].batch(part).rows.flatten())
            steps += len(plan)
            del window  # before the next but one is read
        for _ in range(self.steps(number) - steps):
            yield 0, torch.zeros(0, dtype=torch.int64, device=self._table.device), None

    def in_order(self) -> Iterator[tuple[ChunkWindow, list[tuple[int, Tensor]]]]:
        """All windows of this process in the order of the file, each with the lists in it, by group."""
        return self._read(self._table.windows(self._share(self._used, self._world.rank)))

    def _windows(self, number: int, rank: int) -> list[IntArray]:
        random = np.random.default_rng([self._seed, number, 0xC4])
        stretch = self._table.stretches[self._used]
        place = random.permutation(int(stretch.max(initial=-1)) + 1)
        order = self._used[np.argsort(place[stretch], kind="stable")]
        return self._table.windows(self._share(order, rank), 1 - random.random())

    def _share(self, chunks: IntArray, rank: int) -> IntArray:
        """Those of some chunks that a process reads: where the middle of a chunk is decides."""
        lists = self._sizes[:, chunks].sum(axis=0)
        middle = 2 * np.cumsum(lists) - lists
        own: IntArray = chunks[middle * self._world.size // (2 * max(1, lists.sum())) == rank]
        return own

    def _steps(self, window: IntArray) -> int:
        return int((-(-self._sizes[:, window].sum(axis=1) // self._batch)).sum())

    def _read(self, windows: list[IntArray]) -> Iterator[tuple[ChunkWindow, list[tuple[int, Tensor]]]]:
        for window in self._table.read(windows):
            inside = np.zeros(self._table.n_chunks, dtype=bool)
            inside[window.chunks] = True
            lists = [torch.from_numpy(np.flatnonzero(inside[owner])) for owner in self._owners]
            yield window, [(index, own.to(self._table.device)) for index, own in enumerate(lists) if len(own)]
            del window
