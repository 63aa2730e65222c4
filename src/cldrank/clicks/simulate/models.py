"""Click models: who looks how far down a page, and clicks on what.

Everywhere, `relevant` is a table of pages: one row per page, one column per position from the top, true where the
result there is relevant. Each model gives the clicks of single sessions (`draw`) and of many sessions that saw the same
page (`draw_counts`); the sum of the first has exactly the distribution of the second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.simulate.parameters import PerPosition, number, per_position, spread

Pages = NDArray[np.bool_]
Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class ClickModel(ABC):
    """How a person examines a page and clicks."""

    name: ClassVar[str]

    @abstractmethod
    def propensities(self, depth: int) -> Probabilities | None:
        """P(examined) at each position; None where it depends on what else is on the page."""

    @abstractmethod
    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """P(click | examined) at each position, of an irrelevant and of a relevant result."""

    def check(self, cutoff: int) -> None:
        """Refuse parameters that do not fit pages of so many results."""
        self.attraction(cutoff)

    @abstractmethod
    def examination(self, relevant: Pages) -> Probabilities:
        """P(examined) of every result of these pages."""

    @abstractmethod
    def draw(self, relevant: Pages, random: np.random.Generator) -> Pages:
        """Which results are clicked, one session per page."""

    @abstractmethod
    def draw_counts(self, relevant: Pages, sessions: IntArray, random: np.random.Generator) -> IntArray:
        """How many of the sessions of each page clicked each result."""

    def click_probability(self, relevant: Pages) -> Probabilities:
        """P(click) of every result of these pages.

        >>> PositionBased(eta=1, noise=0.1).click_probability(np.array([[True, True], [False, False]]))
        array([[1.  , 0.5 ], [0.1 , 0.05]])
        """
        return self.examination(relevant) * self._attracted(relevant)

    def describe(self) -> dict[str, Any]:
        """Name and parameters."""
        return {"name": self.name, **asdict(self)}

    def _attracted(self, relevant: Pages) -> Probabilities:
        irrelevant, attractive = self.attraction(relevant.shape[1])
        return np.where(relevant, attractive, irrelevant)


@dataclass(frozen=True)
class _Independent(ClickModel):
    """Models in which each result is examined and clicked whatever happens to the others of its page.

    P(examined at k) = (1/k)^eta
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", number(self.eta, "eta"))

    def propensities(self, depth: int) -> Probabilities:
        """(1/k)^eta."""
        return np.arange(1, depth + 1, dtype=np.float64) ** -self.eta

    def examination(self, relevant: Pages) -> Probabilities:
        """(1/k)^eta, on every page."""
        return np.broadcast_to(self.propensities(relevant.shape[1]), relevant.shape)

    def draw(self, relevant: Pages, random: np.random.Generator) -> Pages:
        """One trial a result."""
        return random.random(relevant.shape) < self.click_probability(relevant)

    def draw_counts(self, relevant: Pages, sessions: IntArray, random: np.random.Generator) -> IntArray:
        """One binomial a result."""
        return random.binomial(sessions[:, None], self.click_probability(relevant))


@dataclass(frozen=True)
class PositionBased(_Independent):
    """Click if examined and relevant; an examined irrelevant result is clicked with probability `noise`.

    P(click at k) = (1/k)^eta * (1 if relevant else noise)

    >>> PositionBased(eta=2).propensities(2)
    array([1.  , 0.25])
    """

    name = "pbm"
    noise: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "noise", number(self.noise, "noise", 0, 1))

    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """`noise`, and 1."""
        return np.full(depth, self.noise), np.ones(depth)


@dataclass(frozen=True)
class TrustBias(_Independent):
    """People trust high positions: what they take for relevant depends on where it stands.

    P(click at k) = (1/k)^eta * (epsilon_plus_k if relevant else epsilon_minus_k)

    Each epsilon is one number or one per position. None stands for a trust that fades with the position:

        epsilon_plus_k = 1 - (min(k, 20) + 1) / 100,    epsilon_minus_k = 0.65 / min(k, 10)

    >>> irrelevant, relevant = TrustBias().attraction(2)
    >>> irrelevant, relevant
    (array([0.65 , 0.325]), array([0.98, 0.97]))
    """

    name = "trust"
    epsilon_plus: PerPosition | None = None
    epsilon_minus: PerPosition | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epsilon_plus", "epsilon_minus"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else per_position(value, name))

    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """epsilon_minus and epsilon_plus."""
        position = np.arange(1, depth + 1)
        minus = 0.65 / np.minimum(position, 10)
        plus = 1 - (np.minimum(position, 20) + 1) / 100
        if self.epsilon_minus is not None:
            minus = spread(self.epsilon_minus, "epsilon_minus", depth)
        if self.epsilon_plus is not None:
            plus = spread(self.epsilon_plus, "epsilon_plus", depth)
        return minus, plus


@dataclass(frozen=True)
class _Sequential(ClickModel):
    """Models in which a person reads from the top, and after a click at k reads on with probability λ_k.

    P(examined at 1) = 1,    P(examined at k+1) = P(examined at k) * (1 - P(click | examined at k) (1 - λ_k))
    """

    noise: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", number(self.noise, "noise", 0, 1))

    @abstractmethod
    def continuations(self, depth: int) -> Probabilities:
        """λ at each position."""

    def check(self, cutoff: int) -> None:
        """There must be a λ for each position."""
        self.continuations(cutoff)

    def propensities(self, depth: int) -> None:
        """None: whether a position is examined depends on the results above it."""

    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """`noise`, and 1."""
        return np.full(depth, self.noise), np.ones(depth)

    def examination(self, relevant: Pages) -> Probabilities:
        """The product over the positions above, of not being held up there."""
        passed = 1 - self._attracted(relevant) * (1 - self.continuations(relevant.shape[1]))
        first = np.ones((len(relevant), 1))
        return np.cumprod(np.concatenate([first, passed[:, :-1]], axis=1), axis=1)[:, : relevant.shape[1]]

    def draw(self, relevant: Pages, random: np.random.Generator) -> Pages:
        """Position by position; a session that stopped clicks no more."""
        attracted = random.random(relevant.shape) < self._attracted(relevant)
        satisfied = attracted & (random.random(relevant.shape) >= self.continuations(relevant.shape[1]))
        stopped = np.logical_or.accumulate(satisfied, axis=1)
        attracted[:, 1:] &= ~stopped[:, :-1]
        return attracted

    def draw_counts(self, relevant: Pages, sessions: IntArray, random: np.random.Generator) -> IntArray:
        """Two binomials a result: of those still reading, who clicks; of those who click, who reads on."""
        attracted = self._attracted(relevant)
        clicks = np.empty(relevant.shape, dtype=np.int64)
        reading = sessions
        for place, continuation in enumerate(self.continuations(relevant.shape[1])):
            clicks[:, place] = random.binomial(reading, attracted[:, place])
            reading = reading - random.binomial(clicks[:, place], 1 - continuation)
        return clicks


@dataclass(frozen=True)
class Cascade(_Sequential):
    """Read from the top, click the first result that attracts, and stop: at most one click per page.

    >>> Cascade(noise=0.1).examination(np.array([[False, True, False]]))
    array([[1. , 0.9, 0. ]])
    """

    name = "cascade"

    def continuations(self, depth: int) -> Probabilities:
        """0: nobody reads on after a click."""
        return np.zeros(depth)


@dataclass(frozen=True)
class DependentClicks(_Sequential):
    """Read from the top, click what attracts, and after a click at k read on with probability continuation_k.

    The dependent click model (DCM). `continuation` is one number or one per position.

    >>> DependentClicks(noise=0, continuation=0.5).examination(np.array([[True, True, True]]))
    array([[1.  , 0.5 , 0.25]])
    """

    name = "dcm"
    continuation: PerPosition = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "continuation", per_position(self.continuation, "continuation"))

    def continuations(self, depth: int) -> Probabilities:
        """As given."""
        return spread(self.continuation, "continuation", depth)
