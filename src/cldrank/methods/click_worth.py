"""What a click on each candidate is worth, with the events that follow it, as far as its own clicks tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cldrank._typing import Floats
from cldrank.clicks.table import ClickTable


@dataclass(frozen=True, eq=False)
class ClickWorth:
    """What a click on each candidate is worth, relative to a mean click of the log.

        expected = (V + κ) / (c + κ),   error² = τ² κ / (c + κ),   κ = σ² / τ²

    of c clicks with the value V, in units of a mean click. σ² is the variance of single clicks on the same candidate,
    τ² that of candidates: the credibility of Bühlmann and Straub (1970), which draws few clicks towards the mean.

    expected   (rows,) 1 without clicks
    error      (rows,) its standard error
    most       the largest that a click can be worth

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> cells = {"position": [1, 2, 3], "impressions": [900] * 3, "clicks": [400, 100, 2]}
    >>> clicks = cr.ClickTable.from_arrays(data, **cells, events={"purchase": [20, 50, 1]})
    >>> ClickWorth.of(clicks.weighted({"click": 1, "purchase": 10})).expected.round(2)
    array([0.62, 2.47, 2.03])
    """

    expected: Floats
    error: Floats
    most: float

    @classmethod
    def of(cls, clicks: ClickTable) -> ClickWorth:
        """Of the clicks of a log; 1 everywhere, without error, where events have no weights."""
        n_rows, unit = clicks.candidates.n_rows, clicks.click_value or 1.0
        number, value = (
            np.bincount(clicks.row, each, n_rows).astype(np.float64) for each in (clicks.clicks, clicks.value / unit)
        )
        within, between = _variances(number, value, float(clicks.value_squares.sum()) / unit**2)
        if between == 0:
            return cls(np.ones(n_rows), np.zeros(n_rows), clicks.most_value / unit)
        known = number * between / (number * between + within) if within else (number > 0).astype(np.float64)
        own = np.divide(value, number, out=np.ones(n_rows), where=number > 0)
        return cls(known * own + (1 - known), np.sqrt(between * (1 - known)), clicks.most_value / unit)


def _variances(number: Floats, value: Floats, squares: float) -> tuple[float, float]:
    """Of single clicks on the same candidate, and of what candidates' clicks are worth."""
    n = number[number > 0]
    mean = value[number > 0] / n
    repeated, spread = float((n - 1).sum()), n.sum() - (n**2).sum() / max(n.sum(), 1.0)
    within = max((squares - float(n @ mean**2)) / repeated, 0.0) if repeated else 0.0
    between = (float(n @ (mean - 1) ** 2) - (len(n) - 1) * within) / spread if spread > 0 else 0.0
    return within, max(between, 0.0)
