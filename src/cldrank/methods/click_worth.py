"""What a click on each candidate is worth, with the events that follow it, as far as its own clicks tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.events import CLICK
from cldrank.clicks.table import ClickTable
from cldrank.methods.rating_quality import Examined, rating_levels
from cldrank.propensity.segment_propensities import Curve

_FEWEST_BY_LEVEL = 160  # clicked candidates; fewer are compared with all others


@dataclass(frozen=True, eq=False)
class ClickWorth:
    """What a click on each candidate is worth, relative to a mean click of the log.

        expected = (V + κ mean) / (c + κ),   error² = τ² κ / (c + κ),   κ = σ² / τ²

    of c clicks with the value V, in units of a mean click: the credibility of Bühlmann and Straub (1970). σ² is the
    variance of single clicks on the same candidate, τ² that of candidates; for `error`, larger by its own standard
    error. By level, mean, σ² and τ² are those of an eighth of the candidates, by clicks over examinations: what is
    clicked more is often worth more per click. That is closer to the truth, but targets of training, which share the
    noise of these clicks, are better without.

    expected   (rows,)
    error      (rows,) its standard error
    least      what a click is worth that nothing follows
    most       the largest that a click can be worth

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> cells = {"position": [1, 2, 3], "impressions": [900] * 3, "clicks": [400, 200, 4]}
    >>> clicks = cr.ClickTable.from_arrays(data, **cells, events={"purchase": [20, 50, 4]})
    >>> clicks = clicks.weighted({"click": 1, "purchase": 10})
    >>> ClickWorth.of(clicks).expected.round(2)
    array([0.68, 1.56, 3.22])
    """

    expected: Floats
    error: Floats
    least: float
    most: float

    @classmethod
    def of(cls, clicks: ClickTable, curve: Curve | None = None) -> ClickWorth:
        """Of the clicks of a log, by level where a curve is given; 1 without error where events have no weights."""
        n_rows, unit = clicks.candidates.n_rows, clicks.click_value or 1.0
        expected, error = np.ones(n_rows), np.zeros(n_rows)
        ends = clicks.event_weights.get(CLICK, 0.0) / unit, clicks.most_value / unit
        if not clicks.event_weights:
            return cls(expected, error, 1.0, 1.0)
        counts = clicks.clicks, clicks.value / unit, clicks.value_squares / unit**2
        number, value, squares = (np.bincount(clicks.row, each, n_rows).astype(np.float64) for each in counts)
        clicked, level = number > 0, np.ones(n_rows)
        if curve is not None and clicked.sum() >= _FEWEST_BY_LEVEL:
            rated = np.where(clicked, Examined.of(clicks, curve).relevance, np.nan)
            level = np.maximum(rating_levels(rated), 1)
        for each in np.unique(level):
            at = np.flatnonzero(level == each)
            told = at[clicked[at]]
            mean, within, between, doubt = _moments(number[told], value[told], float(squares[told].sum()))
            known = number[at] * between / np.maximum(number[at] * between + within, 1e-300)
            own = np.divide(value[at], number[at], out=np.ones(len(at)), where=clicked[at])
            expected[at] = known * own + (1 - known) * mean
            error[at] = np.sqrt(
                (between + doubt) * within / np.maximum(number[at] * (between + doubt) + within, 1e-300)
            )
        return cls(expected, error, *ends)


def _moments(number: Floats, value: Floats, squares: float) -> tuple[float, float, float, float]:
    """The mean, the variance of clicks on the same candidate, that of candidates, and its standard error."""
    n, m = number.sum(), len(number)
    if n == m:
        return float(value.sum() / max(n, 1.0)) or 1.0, 0.0, 0.0, 0.0
    own, mean = value / number, float(value.sum() / n)
    within = max(float(squares - number @ own**2) / float(n - m), 0.0)
    between = (float(number @ (own - mean) ** 2) - (m - 1) * within) / max(float(n - (number**2).sum() / n), 1e-300)
    return mean, within, max(between, 0.0) if m > 1 else 0.0, float(np.sqrt(2 / max(m - 1, 1)) * within * m / n)
