"""Production's order of the candidates, and logging policies: which page a session sees.

A policy shows a few fixed *layouts* of each query, each in a share of the sessions, and draws a page for every other
session. Sessions that see the same layout can be counted together, which is what makes a simulation quick; those whose
pages are drawn have to be simulated individually.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.simulate.click_models import SimulationPart
from cldrank.errors import UsageError
from cldrank.parameters import parameter, value


class Production:
    """The candidates of each query in production's order; ties are broken by `segments.tie_breakers`.

    scores    (rows,) float64: a higher score ranks higher
    offsets   (queries + 1,): rows offsets[i] … offsets[i+1]-1 belong to query i
    depth     the most results on a page
    top       (queries, depth) int64: the row at each place from the top, -1 where the query has no more candidates
    sizes     (queries,) the number of candidates of each query
    lengths   (queries,) the number of results on its page

    >>> production = Production(np.array([0.1, 0.9, 0.5, 0.3]), np.array([0, 3, 4]), depth=2)
    >>> production.top
    array([[ 1,  2], [ 3, -1]])
    """

    def __init__(self, scores: NDArray[np.float64], offsets: IntArray, depth: int) -> None:
        self.scores, self.offsets, self.depth = scores, offsets, depth
        order = segments.descending_order(scores, offsets)
        places, shown = segments.first_rows_of_segments(offsets, depth)
        self.top: IntArray = np.full((len(offsets) - 1, depth), -1, dtype=np.int64)
        self.top[segments.segment_of_rows(shown), segments.places_in_segments(shown) - 1] = order[places]
        self.n_queries = len(offsets) - 1
        self.sizes: IntArray = np.diff(offsets)
        self.lengths: IntArray = np.diff(shown)

    def pages(self, queries: IntArray, places: IntArray) -> IntArray:
        """The rows at `places` (queries, depth) of production's order, from 0; -1 where it has ended."""
        rows: IntArray = self.top.ravel()[queries[:, None] * self.depth + places]
        return rows


class Layouts(NamedTuple):
    """The layouts of a page; the first is production's order.

    names    what each layout is called in the log
    places   (layouts, depth): for each position, the place in production's order (from 0) of the result there
    shares   (depth + 1, layouts): for each length of a page, from 0, the share of sessions that see it
    drawn    the share of sessions whose page is drawn
    """

    names: tuple[str, ...]
    places: IntArray
    shares: NDArray[np.float64]
    drawn: float = 0.0


class Policy(SimulationPart, ABC):
    """How pages are made.

    >>> TopK().layouts(3).drawn, ShuffledShare(0.2).layouts(3).drawn
    (0.0, 0.2)
    """

    def layouts(self, depth: int) -> Layouts:
        """The layouts that the policy shows."""
        return _swapped([], 0.0, depth)

    def draw(self, production: Production, queries: IntArray, random: np.random.Generator) -> IntArray:
        """The rows (queries, depth) on drawn pages; -1 where a page has ended."""
        del production, queries, random
        raise AssertionError("this policy shows layouts only")

    def drawn_probability(self, production: Production) -> NDArray[np.float64]:
        """For each query, P(a row is at a position) on a drawn page, of rows that can be there."""
        return np.zeros(production.n_queries)


@value
class TopK(Policy):
    """Always production's order.

    >>> TopK().layouts(3).places
    array([[0, 1, 2]])
    """

    name = "top"
    about = "production's order, always"


@value
class _Swaps(Policy):
    """With a probability, two results of the page change places; which two is drawn evenly."""

    probability: float = parameter(default=0.5, about="the share of pages with a swap", least=0, most=1, kw_only=False)

    @abstractmethod
    def pairs(self, depth: int) -> list[tuple[int, int]]:
        """The pairs of positions that may be swapped, from 1."""

    def layouts(self, depth: int) -> Layouts:
        """Production's order, and a layout per pair."""
        return _swapped(self.pairs(depth), self.probability, depth)


@value
class NeighbourSwaps(_Swaps):
    """With a probability, a random pair of neighbours on the page changes places.

    >>> NeighbourSwaps(0.5).layouts(3).places
    array([[0, 1, 2], [1, 0, 2], [0, 2, 1]])
    >>> NeighbourSwaps(0.5).layouts(3).shares[-1]
    array([0.5 , 0.25, 0.25])
    """

    name = "neighbour-swaps"
    about = "on some pages, two neighbours change places"

    def pairs(self, depth: int) -> list[tuple[int, int]]:
        """(1, 2), (2, 3), …"""
        return [(place, place + 1) for place in range(1, depth)]


@value
class FirstSwaps(_Swaps):
    """With a probability, the first result changes places with another, at one of `positions` (all, if None).

    >>> FirstSwaps(0.5, positions=(3,)).layouts(3).places
    array([[0, 1, 2], [2, 1, 0]])
    """

    name = "first-swaps"
    about = "on some pages, the first result and another change places"
    positions: tuple[int, ...] | None = parameter(
        default=None, about="where the first result may go, such as 3 or 2,5", least=2, kw_only=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.positions or ())) < len(self.positions or ()):
            raise UsageError(f"`positions={self.positions}` names a position twice.")

    def pairs(self, depth: int) -> list[tuple[int, int]]:
        """(1, k) for each position k."""
        return [(1, k) for k in range(2, depth + 1) if self.positions is None or k in self.positions]

    def check(self, depth: int) -> None:
        """Positions must be on the page."""
        if max(self.positions or (0,)) > depth:
            raise UsageError(f"position {max(self.positions or (0,))} cannot be swapped on pages of {depth} results.")


@value
class ShuffledShare(Policy):
    """A share of sessions sees results in random order, the others production's.

    shuffle="page"         production's top results, shuffled
    shuffle="candidates"   any candidates of the query, shuffled; so everything is shown sometimes

    >>> ShuffledShare(0.2).layouts(3).drawn
    0.2
    """

    name = "shuffled"
    about = "some pages in random order"
    share: float = parameter(default=0.1, about="the share of shuffled pages", least=0, most=1, kw_only=False)
    shuffle: Literal["page", "candidates"] = parameter(
        default="page", about="production's top results, or all candidates of the query", kw_only=False
    )

    def layouts(self, depth: int) -> Layouts:
        """Production's order, for all but the share."""
        layouts = _swapped([], 0.0, depth)
        return layouts._replace(shares=layouts.shares * (1 - self.share), drawn=self.share)

    def draw(self, production: Production, queries: IntArray, random: np.random.Generator) -> IntArray:
        """Pages in random order."""
        if self.shuffle == "candidates":
            return _drawn_candidates(production, queries, random)
        keys = random.random((len(queries), production.depth))
        keys[np.arange(production.depth) >= production.lengths[queries][:, None]] = 2.0  # empty places stay last
        return production.pages(queries, np.argsort(keys, axis=1))

    def drawn_probability(self, production: Production) -> NDArray[np.float64]:
        """Each result of the page, or each candidate, is as likely as any other."""
        return 1 / np.maximum(production.lengths if self.shuffle == "page" else production.sizes, 1)


POLICIES: tuple[type[Policy], ...] = (TopK, NeighbourSwaps, FirstSwaps, ShuffledShare)


def _drawn_candidates(production: Production, queries: IntArray, random: np.random.Generator) -> IntArray:
    """Pages of candidates drawn evenly, without replacement: a candidate that is on the page already is redrawn."""
    rows = np.full((len(queries), production.depth), -1, dtype=np.int64)
    for position in range(production.depth):
        pages = np.flatnonzero(production.lengths[queries] > position)
        while len(pages):
            own = queries[pages]
            rows[pages, position] = production.offsets[own] + random.integers(production.sizes[own])
            is_repeated = (rows[pages, :position] == rows[pages, position, None]).any(axis=1)
            pages = pages[is_repeated]
    return rows


def _swapped(pairs: list[tuple[int, int]], probability: float, depth: int) -> Layouts:
    """Production's order, and, for each pair of positions, the order with these two swapped."""
    places = np.tile(np.arange(depth), (len(pairs) + 1, 1))
    for index, (upper, lower) in enumerate(pairs, 1):
        places[index, [upper - 1, lower - 1]] = lower - 1, upper - 1
    shares = np.zeros((depth + 1, len(pairs) + 1))
    for length in range(depth + 1):
        possible = [index for index, pair in enumerate(pairs, 1) if max(pair) <= length]
        shares[length, possible] = probability / max(len(possible), 1)
        shares[length, 0] = 1 - probability if possible else 1.0
    return Layouts(("production", *(f"swap-{upper}-{lower}" for upper, lower in pairs)), places, shares)
