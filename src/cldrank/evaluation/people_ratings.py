"""What people's ratings say about results that were never shown, without bias from their being rarer or worse."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import Floats
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.methods.rating_quality import Examined, calibration

FEWEST_BY_PEOPLE = 100  # shown results that people rated, and never-shown ones, for their ratings to be used
_LEAST_SLOPE = 0.05  # of ratings on relevance; flatter ratings say next to nothing


def unbiased_relevance(log: LoggedClicks, people: Floats, learned: NDArray[np.bool_]) -> Floats | None:
    """(rows,) an unbiased estimate of the relevance of each candidate that people rated, NaN for others.

        E[rating | relevance] = a + b relevance,     estimate = (rating - a) / b

    a and b are those of shown results; the rating counts as the relevance that it stands for there. That mean itself,
    E[relevance | rating], would not do: relevant results are rarer among those that were never shown, so that more of
    the high ratings there are mistakes. This rests on mistakes that do not depend on whether a result was shown. Since
    clicks are noisy, b is the covariance over a variance without that noise, from pairs of impressions:

        E[c (c - 1)] = n (n - 1) (slope relevance + base)²

    None where people rated too few results that were shown twice or more, or their ratings hardly move with relevance.

    learned   (rows,) which candidates a and b are learned from
    """
    clicks, (slope, base) = log.clicks, log.by_cell
    cell = ~np.isnan(people[clicks.row]) & learned[clicks.row] & (clicks.impressions > 1) & (slope > 0)
    row = clicks.row[cell]
    if len(np.unique(row)) < FEWEST_BY_PEOPLE:
        return None
    n, c = clicks.impressions[cell].astype(np.float64), clicks.clicks[cell].astype(np.float64)
    slope, base = slope[cell], base[cell]
    relevance = (c / n - base) / slope
    squared = (c * (c - 1) / (n * (n - 1)) - 2 * base * c / n + base**2) / slope**2
    weight = n * slope / (1 + n * slope)
    stands_for = calibration(people, Examined(log.exposure, log.excess_clicks, log.queries), learned)(people)

    def mean(values: Floats) -> float:
        return float(weight @ values / weight.sum())

    rated = stands_for[row]
    variance = mean(squared) - mean(relevance) ** 2
    covariance = mean(rated * relevance) - mean(rated) * mean(relevance)
    if variance <= 0 or covariance <= _LEAST_SLOPE * variance:
        return None
    b = covariance / variance
    return np.asarray((stands_for - mean(rated) + b * mean(relevance)) / b)


def share_by_people(predicted: Floats, people: Floats, assumed: float, spread: float) -> Floats:
    """(folds,) what predictions of never-shown results are multiplied by, as people's ratings correct it.

        measured = Σ people / Σ predicted

    the mean of that and of the assumed share, by their precisions: 1 / spread², and 1 / the jackknife's variance.

    predicted, people   (folds, results) of those that people rated; 0 where a fold leaves the result out
    """
    measured = people.sum(axis=1) / predicted.sum(axis=1)
    known, prior = 1 / ((measured - measured.mean()) ** 2).sum(), 1 / spread**2
    return np.asarray((measured * known + assumed * prior) / (known + prior))
