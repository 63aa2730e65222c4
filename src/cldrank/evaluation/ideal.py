"""The DCG of the best order of each query, which no log shows: from what relevance may be, given the clicks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.deconvolution import RateCounts, RateDistribution
from cldrank.evaluation.logged import LoggedClicks

Floats = NDArray[np.float64]
_DRAWS = 20
_LEAST = 0.05  # of the mean: the ideal of a query in which nothing seems relevant
_HIGH, _LOW = 0.9, 0.1  # quantiles of relevance: of a relevant result, at the top; of an irrelevant one, at the bottom


def ideal_dcg(log: LoggedClicks, predicted: Floats | None, cutoff: int | None, seed: int = 0) -> Floats:
    """(queries,) the expected DCG of the best order.

    The mean over draws of relevance: of candidates that were shown, from its posterior, given the clicks on them and
    the distribution of relevance at their position; of the others, high or low, with the probability that gives the
    predicted mean. Expected relevance itself would do too little: the best of draws is better than the best of means.
    """
    random = np.random.default_rng([seed, 2])
    discounts = 1 / np.log2(segments.places_in_segments(log.data.offsets) + 1.0)
    if cutoff is not None:
        discounts[segments.places_in_segments(log.data.offsets) > cutoff] = 0.0
    posteriors = _posteriors(log)
    high, low = _quantile(posteriors[0][1], _HIGH), _quantile(posteriors[-1][1], _LOW)
    others = np.flatnonzero(~log.seen)
    level = low if predicted is None else predicted[others]
    chance = np.clip((level - low) / max(high - low, 0.05), 0, 1) * np.ones(len(others))
    total = np.zeros(log.data.n_queries)
    for _ in range(_DRAWS):
        drawn = np.zeros(log.data.n_rows)
        for rows, posterior in posteriors:
            drawn[rows] = posterior.drawn(random)
        drawn[others] = np.where(random.random(len(others)) < chance, high, low)
        total += log.by_query(discounts * segments.descending_values(drawn, log.data.offsets))
    found = total / _DRAWS
    searched = log.pages > 0
    least = _LEAST * float(found[searched].mean()) if searched.any() else 1.0
    return np.maximum(found, least or 1.0)


def _posteriors(log: LoggedClicks) -> list[tuple[IntArray, RateDistribution]]:
    """The rows that were shown mostly at each position, from the top, with the distribution of their relevance."""
    clicks = log.clicks
    usual = np.zeros(log.data.n_rows, dtype=np.int64)
    order = np.lexsort((clicks.impressions, clicks.row))
    usual[clicks.row[order]] = clicks.position[order]  # the last cell of each row has the most impressions
    examined = np.maximum(np.rint(log.exposure), 1).astype(np.int64)
    clicked = np.clip(np.rint(log.surplus), 0, examined).astype(np.int64)
    rows_at = (np.flatnonzero(log.seen & (usual == position)) for position in np.unique(usual[log.seen]))
    return [(rows, RateCounts.of(clicked[rows], examined[rows]).fit()) for rows in rows_at]


def _quantile(distribution: RateDistribution, share: float) -> float:
    at = min(int(np.searchsorted(np.cumsum(distribution.mass), share)), len(distribution.rates) - 1)
    return float(distribution.rates[at])
