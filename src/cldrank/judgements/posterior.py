"""The posterior of relevance, given all that a log says about a candidate, and what it needs: priors from the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.deconvolution import most_likely_mass, posterior_mass, unit_grid
from cldrank.judgements.sightings import Sightings
from cldrank.propensity.segment_propensities import Curve, drawn_curves

Floats = NDArray[np.float64]

GRID = 200
CURVES = 20  # drawn where the curve is uncertain
_KNOWN = 20.0  # candidates that the wider prior counts as
_STEPS = 100  # of EM: more would only sharpen the prior's peaks, and intervals would be too short
_MOST = 5_000  # kinds of candidates that a prior is fitted to


@dataclass(frozen=True, eq=False)
class RelevancePosterior:
    """Clicks as binomial draws, c ~ Binomial(n, slope_k r + base_k), with an empirical prior of r for each place.

        P(r | all cells of a candidate) ∝ prior(r) Π_k p_k(r)^c_k (1 - p_k(r))^(n_k - c_k)

    One prior belongs to the candidates that were mostly shown at one place: production's order is evidence. It is the
    distribution of relevance that makes all their clicks, at whatever place, most likely, with a prior common to all
    places counting as 20 more candidates, and that one likewise with the uniform distribution.

    An estimated curve is uncertain: then the interval is that of the mean of the posteriors under curves that might
    have been estimated instead, each with its own priors.
    """

    clicks: ClickTable
    curve: Curve
    seed: int = 0

    @cached_property
    def grid(self) -> Floats:
        """(grid,) of relevance, from 0 to 1."""
        return unit_grid(GRID)

    @cached_property
    def edges(self) -> Floats:
        """(grid + 1,) half way between the points of the grid, and its ends."""
        return np.concatenate([[0.0], (self.grid[1:] + self.grid[:-1]) / 2, [1.0]])

    @cached_property
    def seen(self) -> Sightings:
        """What is known of each candidate that was shown."""
        return Sightings.of(self.clicks)

    def posteriors(self) -> Iterator[tuple[IntArray, Floats, Floats]]:
        """Block by block: kinds of candidates (see `Sightings`), and for each the (grid,) posterior.

        Under the curve itself, then the mean of those under other curves that it might be, where it is uncertain.
        """
        tables = [
            self.seen.click_probability(self.clicks, one, self.grid)
            for one in (self.curve, *drawn_curves(self.curve, CURVES, self.seed))
        ]
        priors = [self._priors(table) for table in tables]
        for block in self.seen.blocks():
            own, *others = (
                posterior_mass(self.seen.likelihood(block, table), prior[self.seen.home[block]])
                for table, prior in zip(tables, priors, strict=True)
            )
            yield block, own, np.mean(others, axis=0) if others else own

    def interval(self, posterior: Floats, confidence: float) -> tuple[Floats, Floats]:
        """The ends of the equal-tailed interval, rounded outwards to the edges between points of the grid."""
        running = np.cumsum(posterior, axis=1)
        tail = (1 - confidence) / 2
        low, high = (np.minimum((running < end).sum(axis=1), GRID - 1) for end in (tail, 1 - tail))
        return self.edges[low], self.edges[high + 1]

    def _priors(self, table: Floats) -> Floats:
        """(places, grid) the prior of candidates that were mostly shown at each place."""
        order, home = self.seen.order(), self.seen.home
        common = self._fitted(order, table, np.full(GRID, _KNOWN / GRID))
        priors = np.tile(common, (len(table), 1))
        for place in np.unique(home):
            priors[place] = self._fitted(order[home[order] == place], table, _KNOWN * common)
        return priors

    def _fitted(self, chosen: IntArray, table: Floats, known: Floats) -> Floats:
        """The prior of some kinds, in their order; of very many, from every second candidate, third or so."""
        each = np.repeat(np.arange(len(chosen)), self.seen.number[chosen])
        step = 1 if len(chosen) <= _MOST else -(-len(each) // _MOST)
        weight = np.bincount(each[::step], minlength=len(chosen))
        some = np.flatnonzero(weight)
        number = weight[some] * (len(each) / weight.sum())
        return most_likely_mass(self.seen.likelihood(chosen[some], table), number, known=known, steps=_STEPS)
