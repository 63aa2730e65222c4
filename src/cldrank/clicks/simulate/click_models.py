"""Click models: how far down a page people look, and what they click.

Everywhere, `relevant` is a table of pages: a row per page, a column per position from the top, true where the
result there is relevant. Each model gives the clicks of single sessions (`draw`) and of many sessions that saw the same
page (`draw_counts`); the sum of the first has exactly the distribution of the second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.parameters import Value, parameter, parameters, value

PerPosition = float | tuple[float, ...]
Pages = NDArray[np.bool_]
Probabilities = NDArray[np.float64]

_NOISE = "an examined irrelevant result is clicked with this probability"


class SimulationPart(Value):
    """A click model or a policy: a frozen value whose parameters are options of `cldrank simulate`."""

    name: ClassVar[str]  # as the command line and truth files spell it
    about: ClassVar[str]  # a phrase for help

    def __post_init__(self) -> None:
        for declared in parameters(type(self)).values():
            chosen = getattr(self, declared.name)
            chosen = chosen.tolist() if isinstance(chosen, np.ndarray | np.generic) else chosen
            chosen = tuple(chosen) if isinstance(chosen, list) else chosen
            declared.check(chosen)
            if chosen == ():
                raise UsageError(f"`{declared.name}` is empty; give at least one number.")
            if float in declared.kinds and chosen is not None:
                chosen = tuple(map(float, chosen)) if isinstance(chosen, tuple) else float(chosen)
            object.__setattr__(self, declared.name, chosen)

    def check(self, depth: int) -> None:
        """Refuse parameters that do not fit pages of `depth` results."""
        del depth

    def describe(self) -> dict[str, Any]:
        """Name and parameters."""
        return {"name": self.name, **self.get_params()}


def per_position(values: PerPosition, name: str, depth: int) -> Probabilities:
    """The value at each of the first `depth` positions, from a single number or a number per position."""
    if isinstance(values, tuple):
        if len(values) < depth:
            raise UsageError(f"`{name}` has {len(values)} entries for pages of {depth} results; give one for each.")
        return np.array(values[:depth], dtype=np.float64)
    return np.full(depth, values)


class ClickModel(SimulationPart, ABC):
    """How a person examines a page and clicks."""

    @abstractmethod
    def propensities(self, depth: int) -> Probabilities | None:
        """P(examined) at each position; None where it depends on what else is on the page."""

    @abstractmethod
    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """P(click | examined) at each position, of an irrelevant and of a relevant result."""

    def check(self, depth: int) -> None:
        """There must be an attraction for each position."""
        self.attraction(depth)

    @abstractmethod
    def examination(self, relevant: Pages) -> Probabilities:
        """P(examined) of every result of these pages."""

    @abstractmethod
    def draw(self, relevant: Pages, random: np.random.Generator) -> Pages:
        """Which results are clicked, with one session for each page."""

    @abstractmethod
    def draw_counts(self, relevant: Pages, sessions: IntArray, random: np.random.Generator) -> IntArray:
        """How many of the sessions of each page clicked each result."""

    def click_probability(self, relevant: Pages) -> Probabilities:
        """P(click) of every result of these pages.

        >>> PositionBased(eta=1, noise=0.1).click_probability(np.array([[True, True], [False, False]]))
        array([[1.  , 0.5 ], [0.1 , 0.05]])
        """
        return self.examination(relevant) * self._attracted(relevant)

    def _attracted(self, relevant: Pages) -> Probabilities:
        irrelevant, attractive = self.attraction(relevant.shape[1])
        return np.where(relevant, attractive, irrelevant)


@value
class _Independent(ClickModel):
    """Models in which each result is examined, with (1/k)^eta, and clicked independently of others on its page."""

    eta: float = parameter(default=1.0, about="position k is examined with (1/k)^eta", least=0, kw_only=False)

    def propensities(self, depth: int) -> Probabilities:
        """(1/k)^eta."""
        return np.arange(1, depth + 1, dtype=np.float64) ** -self.eta

    def examination(self, relevant: Pages) -> Probabilities:
        """(1/k)^eta, on every page."""
        return np.broadcast_to(self.propensities(relevant.shape[1]), relevant.shape)

    def draw(self, relevant: Pages, random: np.random.Generator) -> Pages:
        """One Bernoulli draw per result."""
        return random.random(relevant.shape) < self.click_probability(relevant)

    def draw_counts(self, relevant: Pages, sessions: IntArray, random: np.random.Generator) -> IntArray:
        """One binomial draw per result."""
        return random.binomial(sessions[:, None], self.click_probability(relevant))


@value
class PositionBased(_Independent):
    """Click if examined and relevant; an examined irrelevant result is clicked with probability `noise`.

        P(click at k) = (1/k)^eta * (1 if relevant else noise)

    >>> PositionBased(eta=2).propensities(2)
    array([1.  , 0.25])
    """

    name = "pbm"
    about = "position-based"
    noise: float = parameter(default=0.1, about=_NOISE, least=0, most=1, kw_only=False)

    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """`noise`, and 1."""
        return np.full(depth, self.noise), np.ones(depth)


@value
class TrustBiased(_Independent):
    """People trust high positions: what they believe to be relevant depends on where it is shown.

        P(click at k) = (1/k)^eta * (epsilon_plus_k if relevant else epsilon_minus_k)

    Each epsilon is a number, or a number per position. None means a trust that fades with the position:

        epsilon_plus_k = 1 - (min(k, 20) + 1) / 100,    epsilon_minus_k = 0.65 / min(k, 10)

    >>> irrelevant, relevant = TrustBiased().attraction(2)
    >>> irrelevant, relevant
    (array([0.65 , 0.325]), array([0.98, 0.97]))
    """

    name = "trust"
    about = "high positions are trusted, relevant or not"
    epsilon_plus: PerPosition | None = parameter(
        default=None, about="P(click | examined, relevant), for all positions or for each", least=0, most=1,
        kw_only=False,
    )  # fmt: skip
    epsilon_minus: PerPosition | None = parameter(
        default=None, about="P(click | examined, irrelevant), likewise", least=0, most=1, kw_only=False
    )

    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """epsilon_minus and epsilon_plus."""
        position = np.arange(1, depth + 1)
        if self.epsilon_minus is None:
            minus = 0.65 / np.minimum(position, 10)
        else:
            minus = per_position(self.epsilon_minus, "epsilon_minus", depth)
        if self.epsilon_plus is None:
            return minus, 1 - (np.minimum(position, 20) + 1) / 100
        return minus, per_position(self.epsilon_plus, "epsilon_plus", depth)


@value
class _Sequential(ClickModel):
    """Models of reading from the top: after a click at k, a person reads on with probability λ_k.

    P(examined at 1) = 1,    P(examined at k+1) = P(examined at k) * (1 - P(click | examined at k) (1 - λ_k))
    """

    noise: float = parameter(default=0.1, about=_NOISE, least=0, most=1, kw_only=False)

    @abstractmethod
    def continuations(self, depth: int) -> Probabilities:
        """λ at each position."""

    def check(self, depth: int) -> None:
        """There must be a λ for each position."""
        self.continuations(depth)

    def propensities(self, depth: int) -> None:
        """None: whether a position is examined depends on the results above it."""

    def attraction(self, depth: int) -> tuple[Probabilities, Probabilities]:
        """`noise`, and 1."""
        return np.full(depth, self.noise), np.ones(depth)

    def examination(self, relevant: Pages) -> Probabilities:
        """The product, over the positions above, of the probability of reading on."""
        passed = 1 - self._attracted(relevant) * (1 - self.continuations(relevant.shape[1]))
        first = np.ones((len(relevant), 1))
        return np.cumprod(np.concatenate([first, passed[:, :-1]], axis=1), axis=1)[:, : relevant.shape[1]]

    def draw(self, relevant: Pages, random: np.random.Generator) -> Pages:
        """Position by position; a session that has stopped does not click."""
        attracted = random.random(relevant.shape) < self._attracted(relevant)
        satisfied = attracted & (random.random(relevant.shape) >= self.continuations(relevant.shape[1]))
        stopped = np.logical_or.accumulate(satisfied, axis=1)
        attracted[:, 1:] &= ~stopped[:, :-1]
        return attracted

    def draw_counts(self, relevant: Pages, sessions: IntArray, random: np.random.Generator) -> IntArray:
        """Two binomial draws per result: of those still reading, who clicks; of those who click, who reads on."""
        attracted = self._attracted(relevant)
        clicks = np.empty(relevant.shape, dtype=np.int64)
        reading = sessions
        for place, continuation in enumerate(self.continuations(relevant.shape[1])):
            clicks[:, place] = random.binomial(reading, attracted[:, place])
            reading = reading - random.binomial(clicks[:, place], 1 - continuation)
        return clicks


@value
class Cascade(_Sequential):
    """Read from the top, click the first result that attracts, and stop: at most one click per page.

    >>> Cascade(noise=0.1).examination(np.array([[False, True, False]]))
    array([[1. , 0.9, 0. ]])
    """

    name = "cascade"
    about = "read from the top, stop at the first click"

    def continuations(self, depth: int) -> Probabilities:
        """0: nobody reads on after a click."""
        return np.zeros(depth)


@value
class DependentClicks(_Sequential):
    """Read from the top, click what attracts, and after a click at k read on with probability continuation_k.

    The dependent click model (DCM). `continuation` is a number, or a number per position.

    >>> DependentClicks(noise=0, continuation=0.5).examination(np.array([[True, True, True]]))
    array([[1.  , 0.5 , 0.25]])
    """

    name = "dcm"
    about = "the same, but some read on after a click"
    continuation: PerPosition = parameter(
        default=0.5, about="P(reads on after a click), for all positions or for each", least=0, most=1, kw_only=False
    )

    def continuations(self, depth: int) -> Probabilities:
        """`continuation` at each position."""
        return per_position(self.continuation, "continuation", depth)


MODELS: tuple[type[ClickModel], ...] = (PositionBased, TrustBiased, Cascade, DependentClicks)
