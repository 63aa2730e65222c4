"""The production ranker: its order of the candidates, and the page that it would show for each query."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray


@dataclass(frozen=True, eq=False)
class Production:
    """The candidates of each query in production's order; ties are broken by `segments.tie_breakers`.

    scores    (rows,) float64: a higher score ranks higher
    offsets   (queries + 1,): rows offsets[i] … offsets[i+1]-1 belong to query i
    depth     the most results on a page
    order     (rows,) int64: the rows in production's order, query by query
    top       (queries, depth) int64: the row at each place from the top, -1 where the query has no more candidates
    sizes     (queries,) the number of candidates of each query
    lengths   (queries,) the number of results on its page

    >>> production = Production(np.array([0.1, 0.9, 0.5, 0.3]), np.array([0, 3, 4]), depth=2)
    >>> production.top
    array([[ 1,  2], [ 3, -1]])
    """

    scores: NDArray[np.float64]
    offsets: IntArray
    depth: int
    order: IntArray = field(init=False)
    top: IntArray = field(init=False)
    sizes: IntArray = field(init=False)
    lengths: IntArray = field(init=False)
    _tails: dict[float, NDArray[np.float64]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        order = segments.descending_order(self.scores, self.offsets)
        places, shown = segments.first_rows_of_segments(self.offsets, self.depth)
        top = np.full((len(self.offsets) - 1, self.depth), -1, dtype=np.int64)
        top[segments.segment_of_rows(shown), segments.places_in_segments(shown) - 1] = order[places]
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "top", top)
        object.__setattr__(self, "sizes", np.diff(self.offsets))
        object.__setattr__(self, "lengths", np.diff(shown))

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.sizes)

    def pages(self, queries: IntArray, places: IntArray) -> IntArray:
        """The rows at the given places (queries, depth) of production's order, from 0; -1 where it has ended."""
        rows: IntArray = self.top.ravel()[queries[:, None] * self.depth + places]
        return rows

    def draw(self, queries: IntArray, temperature: float, random: np.random.Generator) -> IntArray:
        """Pages (queries, depth) drawn from the top, each next row with probability ∝ exp(score / temperature).

        >>> production = Production(np.array([0.1, 0.9, 0.5, 0.3]), np.array([0, 3, 4]), depth=2)
        >>> production.draw(np.array([0, 1, 0]), 1e-6, np.random.default_rng(0))
        array([[ 1,  2], [ 3, -1], [ 1,  2]])
        """
        from cldrank.clicks.simulate.kernel import draw_pages, log_tails

        if temperature not in self._tails:
            self._tails[temperature] = log_tails(self.scores, temperature, self.order, self.offsets)
        pages: IntArray = draw_pages(self._tails[temperature], self.order, self.offsets, queries, self.depth, random)
        return pages
