"""The best order of each query, which no log shows: relevance as it may be, given the clicks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.deconvolution import RateDistribution, drawn_places, tilted_mass
from cldrank.evaluation.logged import LoggedClicks
from cldrank.propensity.cells import PooledCells

Floats = NDArray[np.float64]
_DRAWS = 20
_DIGITS = 3  # of predicted relevance
_LEAST = 0.05  # of the mean: the ideal of a query in which nothing seems relevant
_LOW = 0.1  # the quantile of relevance at the top that an irrelevant result has


@dataclass(frozen=True, eq=False)
class IdealOrder:
    """The DCG that the best order of each query would have, estimated by drawing relevance.

    Relevance of candidates that were shown is drawn from its posterior, given the clicks on them and the distribution
    of relevance at their position; that of the others from the distribution at the top, tilted to the predicted mean:
    few results may be relevant, and it is these that the best order begins with. Expected relevance itself would do too
    little: the best of draws is better than the best of means.

    log         the clicks
    predicted   (rows,) the relevance that a model predicts; None counts what was not shown as irrelevant
    cutoff      how many results count
    """

    log: LoggedClicks
    predicted: Floats | None
    cutoff: int
    seed: int = 0

    @cached_property
    def expected(self) -> Floats:
        """(queries,) the mean of the ideal DCG over draws, at least a little."""
        return self._floored(np.mean([ideal for _, ideal in self._draws()], axis=0))

    def correction(self, weights: Floats) -> float:
        """What the mean of DCG / ideal is, over that of DCG / expected ideal, for an order.

        weights   (rows,) what relevance counts in the mean DCG of the order

        A query with more relevant results than expected has a higher DCG, and a higher ideal: dividing by the expected
        one counts such queries too much.
        """
        above = below = 0.0
        for relevance, ideal in self._draws():
            sums = self.log.by_query(weights * relevance)
            above += float((sums / self._floored(ideal)).sum())
            below += float((sums / self.expected).sum())
        return above / below if below else 1.0

    def _draws(self) -> Iterator[tuple[Floats, Floats]]:
        """Relevance of all candidates, and the ideal DCG of each query with it; the same ones each time."""
        random = np.random.default_rng([self.seed, 2])
        places = segments.places_in_segments(self.log.data.offsets)
        discounts = np.where(places <= self.cutoff, self.log.reached(places) / np.log2(places + 1.0), 0.0)
        posteriors, others = self._posteriors, np.flatnonzero(~self.log.seen)
        top = posteriors[0]
        levels, mass = top.prior
        if self.predicted is None:
            mass, group = (levels == top.quantile(_LOW))[None].astype(float), np.zeros(len(others), dtype=np.int64)
        else:
            means, group = np.unique(self.predicted[others].round(_DIGITS), return_inverse=True)
            mass = tilted_mass(mass, levels, means)
        for _ in range(_DRAWS):
            drawn = np.zeros(self.log.data.n_rows)
            for one in posteriors:
                drawn[one.rows] = one.drawn(random)
            drawn[others] = levels[drawn_places(mass, group, random)]
            best = segments.descending_values(drawn, self.log.data.offsets)
            yield drawn, self.log.by_query(discounts * best)

    def _floored(self, ideal: Floats) -> Floats:
        searched = self.log.pages > 0
        return np.maximum(ideal, _LEAST * float(ideal[searched].mean()) or 1.0)

    @cached_property
    def _posteriors(self) -> list[_Posterior]:
        """One for each position, from the top, of the rows that were shown there more often than elsewhere."""
        pooled = PooledCells.by(self.log.clicks, *self.log.by_cell)
        order = np.lexsort((pooled.impressions, pooled.row))
        usual = order[np.append(np.diff(pooled.row[order]) > 0, True)]  # where each row has the most impressions
        found = []
        for position in np.unique(pooled.position[usual]):
            chosen = usual[pooled.position[usual] == position]
            slope, base = (float(part[chosen[0]]) for part in (pooled.slope, pooled.base))
            found.append(_Posterior(pooled.row[chosen], pooled.rates(chosen), slope, base))
        return found


@dataclass(frozen=True, eq=False)
class _Posterior:
    """What the relevance of some rows may be, all shown at one position with this slope and base.

    rates   of clicks where pages are examined most; where they are less, that is known to them
    """

    rows: IntArray
    rates: RateDistribution
    slope: float
    base: float

    def drawn(self, random: np.random.Generator) -> Floats:
        return self._relevance(self.rates.drawn(random))

    @property
    def prior(self) -> tuple[Floats, Floats]:
        """Levels of relevance and their masses, as if there were one more row, of any level."""
        rows, grid = len(self.rows), len(self.rates.mass)
        return self._relevance(self.rates.rates), (rows * self.rates.mass + 1 / grid) / (rows + 1)

    def quantile(self, share: float) -> float:
        at = min(int(np.searchsorted(np.cumsum(self.rates.mass), share)), len(self.rates.rates) - 1)
        return float(self._relevance(self.rates.rates[at : at + 1])[0])

    def _relevance(self, rates: Floats) -> Floats:
        return np.clip((rates - self.base) / self.slope, 0.0, 1.0)
