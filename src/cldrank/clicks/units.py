"""What estimators of propensities and the audit share: units to resample, and positions compared pair by pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray

FEW_QUERIES = 50  # below, candidates are resampled instead: few queries say little about the spread between queries
MOST_GROUPS = 2000
FEWEST_GROUPS = 200
FEWEST_CLICKED = 20  # candidates at each position that a bound of the curve needs
_ENTRIES = 4_000_000  # sums held at a time, of groups by pairs of positions


def many_queries(query: IntArray) -> bool:
    """Whether cells, given the query of each, come from enough queries to resample queries.

    >>> many_queries(np.arange(50)), many_queries(np.arange(100) // 10)
    (True, False)
    """
    return int((np.bincount(query) > 0).sum()) >= FEW_QUERIES  # cheaper than sorting them


def deal(unit: IntArray, positions: int, seed: int = 0) -> tuple[IntArray, int, int]:
    """Units dealt out at random to a bounded number of groups of equal size, or each a group if they are few.

    Gives the group of each entry, the number of groups and that of units. Resampling G random groups of queries has the
    spread of resampling queries, itself known to within 1/sqrt(2 G).
    """
    present = np.bincount(unit) > 0
    code = np.cumsum(present) - 1
    count = int(present.sum())
    pairs = max(positions * (positions - 1) // 2, 1)
    groups = min(count, MOST_GROUPS, max(FEWEST_GROUPS, _ENTRIES // pairs))
    dealt = np.arange(count)
    if groups < count:
        dealt = np.random.default_rng([seed, 0]).permutation(count) % groups
    return dealt[code][unit], groups, count


def draw_weights(n_groups: int, replicates: int, seed: int = 0) -> NDArray[np.float64]:
    """(replicates, groups): how often each replicate draws each group, with replacement.

    >>> draw_weights(4, 2, seed=0).sum(axis=1)
    array([4., 4.])
    """
    random = np.random.default_rng([seed, 1])
    return random.multinomial(n_groups, np.full(n_groups, 1 / n_groups), size=replicates).astype(np.float64)


def clicked_more_than(place: IntArray, clicks: NDArray[Any], size: int, times: int) -> IntArray:
    """(size,) how many candidates were clicked more than `times` times at each place, counted from 0.

    >>> clicked_more_than(np.array([0, 0, 1]), np.array([1, 2, 5]), 3, 1)
    array([1, 1, 0])
    """
    return np.bincount(place[clicks > times], minlength=size)


def pair_number(upper: IntArray, lower: IntArray, size: int) -> IntArray:
    """The number of each pair of places (from 0) among all: those of an upper place lie behind those of all above it.

    >>> pair_number(*np.triu_indices(4, 1), 4)
    array([0, 1, 2, 3, 4, 5])
    """
    return upper * size - upper * (upper + 1) // 2 + lower - upper - 1


def cell_pairs(row: IntArray, place: IntArray, size: int) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """All pairs of cells of one candidate: the upper cells, the lower ones, and the numbers of their pairs of places.

    Cells are sorted by row and place, so those of a candidate lie side by side.

    >>> [[part.tolist() for part in found] for found in cell_pairs(np.array([0, 0, 1]), np.array([0, 2, 1]), 3)]
    [[[0], [1], [1]]]
    """
    for distance in range(1, size):
        one = np.flatnonzero(row[distance:] == row[:-distance])
        if not len(one):
            return
        two = one + distance
        yield one, two, pair_number(place[one], place[two], size)


class PairGraph(NamedTuple):
    """Places as the nodes of a graph, pairs of them as its edges; all arrays are of several logs at once."""

    upper: IntArray
    lower: IntArray
    size: int

    def scatter(self, flow: NDArray[np.float64]) -> NDArray[np.float64]:
        """(logs, size) what flows into each place, if a pair takes it from its upper place to its lower one."""
        incidence = np.zeros((len(self.upper), self.size))
        pairs = np.arange(len(self.upper))
        incidence[pairs, self.lower] = 1.0
        incidence[pairs, self.upper] = -1.0
        scattered: NDArray[np.float64] = flow @ incidence
        return scattered

    def laplacian(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """(logs, size, size) the Laplacian of the graph, with these weights."""
        laplacian = np.zeros((len(weight), self.size, self.size))
        laplacian[:, self.upper, self.lower] = -weight
        laplacian += np.swapaxes(laplacian, 1, 2)
        places = np.arange(self.size)
        laplacian[:, places, places] = -laplacian.sum(axis=2)
        return laplacian

    def potentials(self, laplacian: NDArray[np.float64], flow: NDArray[np.float64]) -> NDArray[np.float64]:
        """(logs, size) the potentials that make this flow, 0 at the first place; a place that nothing holds stays."""
        inner = laplacian[:, 1:, 1:].copy()
        places = np.arange(self.size - 1)
        largest = np.maximum(inner[:, places, places].max(axis=1, keepdims=True, initial=0.0), 1e-300)
        inner[:, places, places] += 1e-13 * largest
        found = np.linalg.solve(inner, flow[:, 1:, None])[:, :, 0]
        return np.concatenate([np.zeros((len(flow), 1)), found], axis=1)
