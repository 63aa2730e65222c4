"""Pages drawn without replacement, compiled by Numba, free of the interpreter lock.

The candidates of a query lie in production's order, so weights fall. With S_j the sum of the weights from j on, the
next result is the last j with log S_j >= log S_f - e, where f is the first candidate not yet on the page and e a
standard exponential: each j >= f has probability w_j / S_f. If j is on the page already, another is drawn, which leaves
the others their shares. As none after f weighs more than f, the k-th result takes k draws on average at most, however
unequal the weights; and sums in logs, from the smallest up, lose nothing when a few candidates have all the weight.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_WIDEST = 750.0  # no exponential in float64 is as large, so a wider gap between two logits changes nothing


@njit(nogil=True, cache=True)
def log_tails(
    scores: NDArray[np.float64], temperature: float, order: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """In production's order, the log of Σ exp(score / temperature) from each candidate to the last of its query.

    All sums of a query lack the same constant. A gap above 750 counts as 750: sums are precise at any temperature.

    >>> weights = np.array([2.0, 3.0, 1.0, 7.0])
    >>> np.exp(log_tails(np.log(weights), 1.0, np.array([1, 0, 2, 3]), np.array([0, 3, 4]))) * [3, 3, 3, 7]
    array([6., 3., 1., 7.])
    """
    tails = np.empty(len(order))
    for query in range(len(offsets) - 1):
        start, stop = offsets[query], offsets[query + 1]
        own = 0.0
        for place in range(start, stop):
            if place > start and temperature < np.inf:
                gap = (scores[order[place - 1]] - scores[order[place]]) / temperature
                own -= gap if gap < _WIDEST else _WIDEST
            tails[place] = own
        for place in range(stop - 2, start - 1, -1):
            own, rest = tails[place], tails[place + 1]
            tails[place] = max(own, rest) + np.log1p(np.exp(-abs(own - rest)))
    return tails


@njit(nogil=True, cache=True)
def draw_pages(
    tails: NDArray[np.float64],
    order: NDArray[np.int64],
    offsets: NDArray[np.int64],
    queries: NDArray[np.int64],
    depth: int,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """The rows (queries, depth) on the page of each query, from the top; -1 where a page has ended."""
    pages = np.full((len(queries), depth), -1, dtype=np.int64)
    taken = np.zeros(np.diff(offsets).max(), dtype=np.bool_)  # by the place within the query
    for page in range(len(queries)):
        start, stop = offsets[queries[page]], offsets[queries[page] + 1]
        own, first = tails[start:stop], 0
        length = min(depth, len(own))
        for position in range(length):
            while taken[first]:
                first += 1
            drawn = _drawn(own, first, random)
            while taken[drawn]:
                drawn = _drawn(own, first, random)
            taken[drawn] = True
            pages[page, position] = drawn
        for position in range(length):
            drawn = pages[page, position]
            taken[drawn] = False
            pages[page, position] = order[start + drawn]
    return pages


@njit(nogil=True, cache=True)
def _drawn(tails: NDArray[np.float64], first: int, random: np.random.Generator) -> int:
    """A place from `first` on, each with its share of the weight."""
    least = tails[first] - random.standard_exponential()
    place, left = first, len(tails) - first
    while left > 1:
        half = left >> 1
        place += half if tails[place + half] >= least else 0
        left -= half
    return place
