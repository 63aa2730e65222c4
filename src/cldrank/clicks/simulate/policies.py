"""Logging policies: which page a session sees, given production's order.

A policy shows each query a few fixed *layouts*, each in some share of sessions, and draws the page of the remaining
sessions one by one. Sessions that see the same layout can be counted together, which is what makes a simulation quick;
those whose pages are drawn have to be gone through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.simulate.parameters import number, whole
from cldrank.clicks.simulate.production import Production
from cldrank.errors import UsageError

_VALUES = 1 << 20  # scores perturbed at a time: 8 MiB


class Layouts(NamedTuple):
    """The layouts of a page; the first is production's order.

    names    what each layout is called in the log
    places   (layouts, depth): for each position, the place in production's order (from 0) of what stands there
    shares   (depth + 1, layouts): for each length of a page, from 0, the share of sessions that see it
    drawn    the share of sessions whose page is drawn, one by one
    """

    names: tuple[str, ...]
    places: IntArray
    shares: NDArray[np.float64]
    drawn: float = 0.0

    def with_drawn(self, share: float) -> Layouts:
        """The same, but a share of all sessions sees drawn pages."""
        return self._replace(shares=self.shares * (1 - share), drawn=share)


@dataclass(frozen=True)
class Policy(ABC):
    """How pages come about."""

    name: ClassVar[str]

    @property
    def reaches_all(self) -> bool:
        """Whether drawn pages may show any candidate, not only production's top results."""
        return False

    def check(self, cutoff: int) -> None:
        """Refuse parameters that do not fit pages of so many results."""
        del cutoff

    def layouts(self, depth: int) -> Layouts:
        """The layouts that the policy shows."""
        return _swapped([], 0.0, depth)

    def draw(self, production: Production, queries: IntArray, random: np.random.Generator) -> IntArray:
        """The rows (queries, depth) on the pages of sessions that see no layout; -1 where a page has ended."""
        del production, queries, random
        raise AssertionError("this policy shows layouts only")

    def drawn_chance(self, production: Production, queries: IntArray) -> NDArray[np.float64] | None:
        """P(a given row stands at a given position) on a drawn page where it can; None where it is not known."""
        del production
        return np.zeros(len(queries))

    def describe(self) -> dict[str, Any]:
        """Name and parameters."""
        return {"name": self.name, **asdict(self)}


@dataclass(frozen=True)
class TopK(Policy):
    """Always production's order.

    >>> TopK().layouts(3).places
    array([[0, 1, 2]])
    """

    name = "top"


@dataclass(frozen=True)
class _Swaps(Policy):
    """With a probability, two results of the page change places; which two is drawn evenly among those it has."""

    probability: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "probability", number(self.probability, "probability", 0, 1))

    @abstractmethod
    def pairs(self, depth: int) -> list[tuple[int, int]]:
        """The pairs of positions that may be swapped, from 1."""

    def layouts(self, depth: int) -> Layouts:
        """Production's order, and one layout a pair."""
        return _swapped(self.pairs(depth), self.probability, depth)


@dataclass(frozen=True)
class NeighbourSwaps(_Swaps):
    """With a probability, a random pair of neighbours on the page changes places.

    >>> NeighbourSwaps(0.5).layouts(3).places
    array([[0, 1, 2], [1, 0, 2], [0, 2, 1]])
    >>> NeighbourSwaps(0.5).layouts(3).shares[-1]
    array([0.5 , 0.25, 0.25])
    """

    name = "neighbour-swaps"

    def pairs(self, depth: int) -> list[tuple[int, int]]:
        """(1, 2), (2, 3), …"""
        return [(place, place + 1) for place in range(1, depth)]


@dataclass(frozen=True)
class FirstSwaps(_Swaps):
    """With a probability, the first result changes places with another, at one of `positions` (all, if None).

    >>> FirstSwaps(0.5, positions=(3,)).layouts(3).places
    array([[0, 1, 2], [2, 1, 0]])
    """

    name = "first-swaps"
    positions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions is not None:
            chosen = tuple(whole(position, "a position to swap with the first", 2) for position in self.positions)
            if not chosen or len(set(chosen)) < len(chosen):
                raise UsageError(f"positions must name at least one position, none twice, not {self.positions}.")
            object.__setattr__(self, "positions", chosen)

    def pairs(self, depth: int) -> list[tuple[int, int]]:
        """(1, k) for each position k."""
        return [(1, k) for k in range(2, depth + 1) if self.positions is None or k in self.positions]

    def check(self, cutoff: int) -> None:
        """Positions must be on the page."""
        if max(self.positions or (0,)) > cutoff:
            raise UsageError(f"position {max(self.positions or (0,))} cannot be swapped on pages of {cutoff} results.")


@dataclass(frozen=True)
class ShuffledShare(Policy):
    """A share of sessions sees results in random order, the others production's.

    of="page"         production's top results, shuffled
    of="candidates"   any candidates of the query, shuffled; so everything is shown sometimes
    """

    name = "shuffled"
    share: float = 0.1
    of: Literal["page", "candidates"] = "page"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", number(self.share, "share", 0, 1))
        if self.of not in ("page", "candidates"):
            raise UsageError(f"of must be 'page' or 'candidates', not {self.of!r}.")

    @property
    def reaches_all(self) -> bool:
        """If all candidates are shuffled."""
        return self.of == "candidates"

    def layouts(self, depth: int) -> Layouts:
        """Production's order, for all but the share."""
        return _swapped([], 0.0, depth).with_drawn(self.share)

    def draw(self, production: Production, queries: IntArray, random: np.random.Generator) -> IntArray:
        """Pages in random order."""
        if self.of == "candidates":
            return _race(production, np.zeros(len(production.scores)), queries, random)
        lots = random.random((len(queries), production.depth))
        lots[np.arange(production.depth) >= production.lengths[queries][:, None]] = 2.0  # empty places stay behind
        return production.pages(queries, np.argsort(lots, axis=1))

    def drawn_chance(self, production: Production, queries: IntArray) -> NDArray[np.float64]:
        """Each result of the page, or each candidate, is as likely as any other."""
        return 1 / (production.lengths if self.of == "page" else production.sizes)[queries]


@dataclass(frozen=True)
class PlackettLuce(Policy):
    """Position by position, the next result is drawn with probability proportional to exp(score / temperature).

    A low temperature keeps production's order, a high one shuffles all candidates.
    """

    name = "plackett-luce"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        temperature = number(self.temperature, "temperature")
        if not temperature:
            raise UsageError("temperature must be above 0; for production's own order use the policy 'top'.")
        object.__setattr__(self, "temperature", temperature)

    @property
    def reaches_all(self) -> bool:
        """Every candidate has its chance."""
        return True

    def layouts(self, depth: int) -> Layouts:
        """None that any session sees: all pages are drawn."""
        return _swapped([], 0.0, depth).with_drawn(1.0)

    def draw(self, production: Production, queries: IntArray, random: np.random.Generator) -> IntArray:
        """By the Gumbel trick: the order of score / temperature + Gumbel noise is a Plackett–Luce draw."""
        with np.errstate(over="ignore"):
            logits = production.scores / self.temperature
        if not np.isfinite(logits).all():
            raise UsageError(f"temperature {self.temperature:g} is too low: score / temperature is not finite.")
        return _race(production, logits, queries, random)

    def drawn_chance(self, production: Production, queries: IntArray) -> None:
        """Not known in closed form: it would be a sum over all orders."""
        del production, queries


def _swapped(pairs: list[tuple[int, int]], probability: float, depth: int) -> Layouts:
    """Production's order, and, for each pair of positions, the order with these two swapped."""
    places = np.tile(np.arange(depth), (len(pairs) + 1, 1))
    for index, (one, two) in enumerate(pairs, 1):
        places[index, [one - 1, two - 1]] = two - 1, one - 1
    shares = np.zeros((depth + 1, len(pairs) + 1))
    for length in range(depth + 1):
        possible = [index for index, pair in enumerate(pairs, 1) if max(pair) <= length]
        shares[length, possible] = probability / max(len(possible), 1)
        shares[length, 0] = 1 - probability if possible else 1.0
    return Layouts(("production", *(f"swap-{one}-{two}" for one, two in pairs)), places, shares)


def _race(
    production: Production, logits: NDArray[np.float64], queries: IntArray, random: np.random.Generator
) -> IntArray:
    """The first `depth` rows of each query by logit + Gumbel noise; the noise is minus the log of an exponential."""
    depth = production.depth
    rows = np.full((len(queries), depth), -1, dtype=np.int64)
    largest_first = np.argsort(-production.sizes[queries], kind="stable")
    start = 0
    while start < len(queries):
        width = max(int(production.sizes[queries[largest_first[start]]]), 1)
        chosen = largest_first[start : start + max(_VALUES // width, 1)]
        start += len(chosen)
        sizes, first = production.sizes[queries[chosen]], production.offsets[queries[chosen]]
        place = np.arange(width)
        with np.errstate(divide="ignore"):  # the log of 0 is a win
            keys = np.log(random.standard_exponential((len(chosen), width)))  # the smallest wins
        keys -= logits[np.minimum(first[:, None] + place, len(logits) - 1)]
        keys[place >= sizes[:, None]] = np.inf
        count = min(depth, width)
        best = np.argpartition(keys, count - 1, axis=1)[:, :count] if count < width else np.tile(place, (len(keys), 1))
        best = np.take_along_axis(best, np.argsort(np.take_along_axis(keys, best, axis=1), axis=1), axis=1)
        rows[chosen[:, None], np.arange(count)] = np.where(best < sizes[:, None], first[:, None] + best, -1)
    return rows
