"""`ClickThrough`: plain click-through rates, biased, as a baseline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.parameters import value
from cldrank.propensity.counts import Cells, PairSums
from cldrank.propensity.estimator import SumEstimator, Tally


@value
class ClickThrough(SumEstimator):
    """The click-through rate of each position over that of the first: what naive plots show.

    All of the difference between positions counts as examination. Where a ranker puts relevant results on top, the
    curve is too steep.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"position": [1] * 30 + [2] * 30, "impressions": [100] * 60}
    >>> ClickThrough().fit(cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 30 + [10] * 30))
    Propensities(1, 0.25; ClickThrough, 60 candidates)
    """

    name = "click-through"
    label = "Click-through"
    sentence = "Plain click-through rates, biased; a baseline"
    order = 90
    caution = (
        "plain click-through rates: relevance counts as examination, so the curve is too steep if the ranker is good"
    )

    def _tally(self, cells: Cells) -> Tally:
        clicks, shown = (cells.by_group(cells.place, part, cells.size) for part in (cells.clicks, cells.impressions))
        pairs = PairSums.of(cells, "impressions")
        return Tally(np.concatenate([clicks, shown], axis=1), shown.sum(axis=0), pairs)

    def _solve(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            clicks, shown = np.split(sums, 2, axis=1)
            rate = clicks / shown
            found: NDArray[np.float64] = rate / rate[:, :1]
        return np.where(np.isfinite(found), found, np.nan)

    def _require(self, tally: Tally, cells: Cells) -> None:
        silent = np.flatnonzero(tally.sums.sum(axis=0)[: cells.size] == 0)
        self._refuse_silent(silent, cells, "nothing was clicked there")
