"""What a click on each candidate is worth, with the events that follow it, as far as its own clicks tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.events import CLICK
from cldrank.clicks.table import ClickTable
from cldrank.methods.rating_quality import Examined, rating_levels
from cldrank.propensity.segment_propensities import Curve

_STEPS = 50  # of the estimators, which depend on each other
_FEWEST_BY_LEVEL = 160  # clicked candidates; fewer are compared with all others
_FEWEST = 1e-3  # candidates that are known: with fewer, none differs from others


@dataclass(frozen=True, eq=False)
class ClickWorth:
    """What a click on each candidate is worth, relative to a mean click of the log.

        expected = (V + κ mean) / (c + κ),   error² = τ² κ / (c + κ),   κ = σ² / τ²

    of c clicks with the value V, in units of a mean click. Mean, σ², the variance of single clicks on the same
    candidate, and τ², that of candidates, are those of an eighth of the candidates, by clicks over examinations (of
    all, if fewer than 160 are clicked): what is clicked more is often worth more per click. This is the credibility of Bühlmann and Straub (1970). For `error`,
    τ² is larger by its own standard error.

    expected   (rows,)
    error      (rows,) its standard error
    mean       (rows,) of candidates that are clicked as much
    least      what a click is worth that nothing follows
    most       the largest that a click can be worth

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> cells = {"position": [1, 2, 3], "impressions": [900] * 3, "clicks": [400, 200, 4]}
    >>> clicks = cr.ClickTable.from_arrays(data, **cells, events={"purchase": [20, 50, 4]})
    >>> clicks = clicks.weighted({"click": 1, "purchase": 10})
    >>> ClickWorth.of(clicks, cr.Propensities.power(1, 3)).expected.round(2)
    array([0.68, 1.57, 4.71])
    """

    expected: Floats
    error: Floats
    mean: Floats
    least: float
    most: float

    @classmethod
    def of(cls, clicks: ClickTable, curve: Curve) -> ClickWorth:
        """Of the clicks of a log; 1 everywhere, without error, where events have no weights."""
        n_rows, unit = clicks.candidates.n_rows, clicks.click_value or 1.0
        ends = clicks.event_weights.get(CLICK, 0.0) / unit, clicks.most_value / unit
        mean, error = np.ones(n_rows), np.zeros(n_rows)
        if not clicks.event_weights:
            return cls(mean, error, mean, *ends)
        number, value, squares = (
            np.bincount(clicks.row, each, n_rows).astype(np.float64)
            for each in (clicks.clicks, clicks.value / unit, clicks.value_squares / unit**2)
        )
        own = np.divide(value, number, out=np.ones(n_rows), where=number > 0)
        expected, clicked = np.ones(n_rows), number > 0
        relevance = Examined.of(clicks, curve).relevance
        enough = clicked.sum() >= _FEWEST_BY_LEVEL
        level = np.maximum(rating_levels(np.where(clicked, relevance, np.nan)), 1) if enough else np.ones(n_rows)
        for each in np.unique(level):
            at = level == each
            used = at & clicked
            mean[at], within, between = _moments(number[used], value[used], float(squares[used].sum()))
            known = _known(number[at], within, between)
            expected[at] = known * own[at] + (1 - known) * mean[at]
            doubt = np.sqrt(2 / max(used.sum() - 1, 1)) * within * used.sum() / max(number[used].sum(), 1.0)
            error[at] = np.sqrt((between + doubt) * (1 - _known(number[at], within, between + doubt)))
        return cls(expected, error, mean, *ends)

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """(rows,) the ends of the interval of each, of a beta distribution from `least` to `most`.

        Its strength is the same as if each click were worth either, since clicks on what is worth little vary little.
        """
        from scipy.special import betaincinv

        width, tail = self.most - self.least, (1 - confidence) / 2
        if width <= 0 or not self.error.any():
            return self.expected, self.expected
        share = np.clip((self.expected - self.least) / width, 1e-6, 1 - 1e-6)
        strength = np.maximum(
            (self.mean - self.least) * (self.most - self.mean) / np.maximum(self.error, 1e-6) ** 2 - 1, 1.0
        )
        low, high = (betaincinv(share * strength, (1 - share) * strength, end) for end in (tail, 1 - tail))
        return self.least + width * low, self.least + width * high


def _known(number: Floats, within: float, between: float) -> Floats:
    """How much of what a click is worth the own clicks of a candidate tell, from 0 to 1."""
    told = number * between
    return np.divide(told, told + within, out=np.zeros(len(number)), where=told > 0)


def _moments(number: Floats, value: Floats, squares: float) -> tuple[float, float, float]:
    """The mean of candidates, the variance of single clicks on the same candidate, and that of candidates.

    Candidates count by how well they are known: clicks are most on the best, and say little of the others.
    """
    if len(number) == 0:
        return 1.0, 0.0, 0.0
    own, repeated, mean = value / number, float((number - 1).sum()), float(value.sum() / number.sum())
    within = max((squares - float(number @ own**2)) / repeated, 0.0) if repeated else 0.0
    between = float(own.var()) if repeated else 0.0
    for _ in range(_STEPS if within else 0):
        known = _known(number, within, between)
        if known.sum() < _FEWEST:
            return float(value.sum() / number.sum()), within, 0.0
        mean = float(known @ own / known.sum())
        between = float(known @ (own - mean) ** 2 / max(len(number) - 1, 1))
    return mean, within, between
