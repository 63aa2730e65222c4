"""The distribution of click probabilities behind clicks and impressions, freed of the noise of few impressions.

A candidate that is clicked with probability p is clicked c ~ Binomial(n, p) times in n impressions. `RateCounts.fit`
finds the distribution of p over candidates that makes their counts most likely, with no assumption on its shape:
nonparametric maximum likelihood over masses on a fixed grid (Laird 1978), a concave problem, climbed by EM.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

GRID = 100
_MOST_PAIRS = 20_000  # distinct counts told apart; beyond, impressions are rounded
_RATIO = 1.05  # of neighbouring numbers of impressions, once they are rounded
_MOST_STEPS = 500
_GAIN = 1e-8  # in the mean log-likelihood of a candidate: a smaller one ends EM


@dataclass(frozen=True, eq=False)
class RateCounts:
    """Clicks and impressions of candidates, as distinct pairs.

    clicks        (pairs,) float64
    impressions   (pairs,) float64, at least 1
    number        (pairs,) float64: how many candidates have them
    pair          (candidates,) int64: the pair of each candidate

    >>> counts = RateCounts.of([1, 1, 3], [4, 4, 4])
    >>> counts.clicks, counts.number, counts.pair
    (array([1., 3.]), array([2., 1.]), array([0, 0, 1]))
    """

    clicks: Floats
    impressions: Floats
    number: Floats
    pair: NDArray[np.int64]

    @classmethod
    def of(cls, clicks: ArrayLike, impressions: ArrayLike) -> RateCounts:
        """The distinct pairs of counts; clicks beyond one per impression do not count.

        Very many distinct pairs are made fewer: impressions are rounded to steps of 5%, and clicks with them, so that
        the rate stays as it was.
        """
        shown = np.asarray(impressions, dtype=np.int64)
        clicked = np.minimum(np.asarray(clicks, dtype=np.int64), shown)
        found = _distinct(clicked, shown)
        if len(found.number) > _MOST_PAIRS:
            rounded = np.rint(_RATIO ** np.rint(np.log(shown) / np.log(_RATIO))).astype(np.int64)
            found = _distinct(np.rint(clicked / shown * rounded).astype(np.int64), rounded)
        return found

    def fit(self, most: float = 1.0) -> RateDistribution:
        """The distribution of the probability of a click, between 0 and `most`.

        >>> found = RateCounts.of([0] * 50 + [100] * 50, [200] * 100).fit()
        >>> found.mass[found.rates < 0.1].sum().round(2), found.mass[found.rates > 0.4].sum().round(2)
        (np.float64(0.5), np.float64(0.5))
        """
        share = self.number / self.number.sum()
        rates = most * np.sin(np.linspace(0, np.pi / 2, GRID)) ** 2
        likelihood = self._likelihood(rates)
        mass, before = np.full(GRID, 1 / GRID), -np.inf
        for _ in range(_MOST_STEPS):
            mixed = np.maximum(likelihood @ mass, np.finfo(float).tiny)
            fit = float(share @ np.log(mixed))
            mass = mass * ((share / mixed) @ likelihood)
            if fit - before < _GAIN:
                break
            before = fit
        return RateDistribution(self, rates, mass / mass.sum())

    def _likelihood(self, rates: Floats) -> Floats:
        """(pairs, grid) of each pair of counts at each rate, over the largest in its row."""
        missed = self.impressions - self.clicks
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.clicks[:, None] > 0, self.clicks[:, None] * np.log(rates), 0.0)
            logs += np.where(missed[:, None] > 0, missed[:, None] * np.log1p(-rates), 0.0)
        found: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        return found


@dataclass(frozen=True, eq=False)
class RateDistribution:
    """A distribution of click probabilities on a grid.

    counts   what it was fitted to
    rates    (grid,) rising from 0
    mass     (grid,) of 1 in all
    """

    counts: RateCounts
    rates: Floats
    mass: Floats

    def expected(self) -> Floats:
        """(candidates,) the posterior mean of the click probability of each, under this distribution as the prior.

        >>> RateCounts.of([0] * 90 + [1] * 10, [1] * 100).fit().expected()[[0, -1]].round(2)
        array([0.08, 0.28])
        """
        found: Floats = (self._posterior @ self.rates)[self.counts.pair]
        return found

    def drawn(self, random: np.random.Generator) -> Floats:
        """(candidates,) click probabilities drawn from the posterior of each.

        >>> RateCounts.of([0, 200], [200, 200]).fit().drawn(np.random.default_rng(0))
        array([0., 1.])
        """
        chance = random.random(len(self.counts.pair))
        ends = np.cumsum(self._posterior, axis=1)[:, :-1]
        places = np.empty(len(chance), dtype=np.int64)
        order = np.argsort(self.counts.pair, kind="stable")
        bounds = np.searchsorted(self.counts.pair[order], np.arange(len(ends) + 1))
        for pair, (start, stop) in enumerate(itertools.pairwise(bounds)):
            rows = order[start:stop]
            places[rows] = np.searchsorted(ends[pair], chance[rows], side="right")
        return self.rates[places]

    @cached_property
    def _posterior(self) -> Floats:
        """(pairs, grid) the posterior of each pair of counts."""
        likelihood = self.counts._likelihood(self.rates) * self.mass
        found: Floats = likelihood / likelihood.sum(axis=1, keepdims=True)
        return found


def _distinct(clicks: NDArray[np.int64], impressions: NDArray[np.int64]) -> RateCounts:
    pairs, pair, number = np.unique(
        np.stack([clicks, impressions], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    parts = pairs.astype(np.float64)
    return RateCounts(parts[:, 0], parts[:, 1], number.astype(np.float64), pair.reshape(-1))
