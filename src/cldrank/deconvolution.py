"""The distribution of click probabilities behind clicks and impressions, freed of the noise of few impressions.

A candidate that is clicked with probability p is clicked c ~ Binomial(n, p) times in n impressions. `RateCounts.fit`
finds the distribution of p over candidates that makes their counts most likely, with no assumption on its shape:
nonparametric maximum likelihood over masses on a fixed grid (Laird 1978), a concave problem, climbed by EM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import Floats, IntArray

_GRID = 100
PRIOR_CANDIDATES = 20.0  # what the prior of all candidates counts as, in that of a part of them
_MOST_PAIRS = 20_000  # distinct counts told apart; beyond, impressions are rounded
_RATIO = 1.05  # of neighbouring numbers of impressions, once they are rounded
_MOST_STEPS = 500
_GAIN = 1e-8  # in the mean log-likelihood of a candidate: a smaller gain ends EM


@dataclass(frozen=True, eq=False)
class RateCounts:
    """Clicks and impressions of candidates, as distinct pairs.

    clicks        (pairs,) float64
    impressions   (pairs,) float64, at least 1
    share         (pairs,) float64, at most 1: what the rate is multiplied by for these candidates
    number        (pairs,) float64: how many candidates have them
    pair          (candidates,) int64: the pair of each candidate
    """

    clicks: Floats
    impressions: Floats
    share: Floats
    number: Floats
    pair: IntArray

    @classmethod
    def of(cls, clicks: ArrayLike, impressions: ArrayLike, share: ArrayLike = 1.0) -> RateCounts:
        """The distinct pairs of counts, with at most as many clicks as impressions.

        Very many distinct pairs are made fewer: impressions and shares are rounded to steps of 5%, and clicks with
        them, so that the rate stays as it was.
        """
        shown = np.asarray(impressions, dtype=np.int64)
        clicked = np.minimum(np.asarray(clicks, dtype=np.int64), shown)
        parts = np.broadcast_to(np.asarray(share, dtype=np.float64), shown.shape)
        distinct = _distinct(clicked, shown, parts)
        if len(distinct.number) > _MOST_PAIRS:
            rounded, near = np.rint(_stepped(shown)), _stepped(parts)
            scaled = np.minimum(np.rint(clicked / (shown * parts) * (rounded * near)), rounded)
            distinct = _distinct(scaled.astype(np.int64), rounded.astype(np.int64), near)
        return distinct

    def fit(self, most: float = 1.0) -> tuple[Floats, Floats]:
        """The distribution of the probability of a click: (grid,) rates from 0 to `most`, and the mass at each.

        >>> rates, mass = RateCounts.of([0] * 50 + [100] * 50, [200] * 100).fit()
        >>> mass[rates < 0.1].sum().round(2), mass[rates > 0.4].sum().round(2)
        (np.float64(0.5), np.float64(0.5))
        """
        rates = most * unit_grid(_GRID)
        return rates, most_likely_mass(self._likelihood(rates), self.number)

    def expected(self, most: float = 1.0, level: IntArray | None = None) -> Floats:
        """(candidates,) the posterior mean of the click probability of each, with the fitted distribution as prior.

        level   (candidates,) what else is known of each: those of a level have a prior of their own, for which
                the distribution of all counts as 20 more candidates
        """
        rates, mass = self.fit(most)
        likelihood = self._likelihood(rates)
        expected: Floats = (posterior_mass(likelihood, mass) @ rates)[self.pair]
        for each in () if level is None else np.unique(level):
            number = np.bincount(self.pair[level == each], minlength=len(self.number)).astype(np.float64)
            own = number > 0
            prior = most_likely_mass(likelihood[own], number[own], known=PRIOR_CANDIDATES * mass)
            expected[level == each] = (posterior_mass(likelihood, prior) @ rates)[self.pair[level == each]]
        return expected

    def _likelihood(self, rates: Floats) -> Floats:
        """(pairs, grid) of each pair of counts at each rate, over the largest in its row."""
        missed = self.impressions - self.clicks
        examined = rates if (self.share == 1).all() else rates * self.share[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(self.clicks[:, None] > 0, self.clicks[:, None] * np.log(rates), 0.0)
            logs += np.where(missed[:, None] > 0, missed[:, None] * np.log1p(-examined), 0.0)
        likelihood: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        return likelihood


def unit_grid(size: int) -> Floats:
    """(size,) from 0 to 1, denser towards the ends, where a binomial tells rates apart best."""
    rates: Floats = np.sin(np.linspace(0, np.pi / 2, size)) ** 2
    return rates


def most_likely_mass(
    likelihood: Floats, number: Floats, *, known: Floats | float = 0.0, steps: int = _MOST_STEPS
) -> Floats:
    """(grid,) the masses, of 1 in all, that make what was seen of candidates most likely, by EM from equal masses.

    likelihood   (candidates, grid) of what was seen of each, up to a factor; `number` of them have it
    known        (grid,) how many more candidates are known to be at each point
    steps        fewer than EM needs to converge leave the masses smoother

    >>> likelihood = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> most_likely_mass(likelihood, np.array([3.0, 1.0])).round(2)
    array([0.81, 0.19])
    """
    mass, before = np.full(likelihood.shape[1], 1 / likelihood.shape[1]), -np.inf
    for _ in range(steps):
        mixed = np.maximum(likelihood @ mass, np.finfo(float).tiny)
        fit = float(number @ np.log(mixed)) / number.sum()
        mass = mass * ((number / mixed) @ likelihood) + known
        mass = mass / mass.sum()
        if abs(fit - before) < _GAIN:
            break
        before = fit
    return mass


def posterior_mass(likelihood: Floats, mass: Floats) -> Floats:
    """(candidates, grid) the posterior of each candidate, given a (grid,) prior for all or a prior for each."""
    joint = likelihood * mass
    posterior: Floats = joint / joint.sum(axis=1, keepdims=True)
    return posterior


def _stepped(values: NDArray[Any]) -> Floats:
    """The nearest of 1, 1.05, 1.05², …"""
    return np.asarray(_RATIO ** np.rint(np.log(values) / np.log(_RATIO)), dtype=np.float64)


def _distinct(clicks: IntArray, impressions: IntArray, share: Floats) -> RateCounts:
    pairs, pair, number = np.unique(
        np.stack([clicks, impressions, share], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    clicked, shown, parts = pairs.T.copy()
    return RateCounts(clicked, shown, parts, number.astype(np.float64), pair.reshape(-1))
