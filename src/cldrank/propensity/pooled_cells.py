"""`PooledCells`: what a log says about each candidate at each position, over all segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.deconvolution import RateCounts, RateDistribution

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PooledCells:
    """The cells of a log, those of one candidate at one position added up over segments, sorted by both.

        c_s ~ Binomial(n_s, slope_s r + base)       for each segment s of the pages, with one relevance r
        Σ c_s ~ Binomial(Σ n_s, share slope r + base),   share = Σ n_s slope_s / (slope Σ n_s)

    to a good approximation, and exactly where segments are examined alike. So labels of pages that mean nothing change
    nothing. Only slopes depend on the segment: where there are bases, one curve is that of all segments.

    row           (pooled,) the candidate
    position      (pooled,)
    impressions   (pooled,) int64
    clicks        (pooled,) int64
    slope         (pooled,) the largest slope of any segment at the position
    base          (pooled,)
    share         (pooled,) of that slope, what the pages of the cell have on average; 1 where all segments are alike
    of            (cells,) which of these each cell of the log belongs to

    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[1]], [7])
    >>> shown = {"row": [0, 0], "position": [2, 2], "impressions": [10, 30], "clicks": [3, 2]}
    >>> table = ClickTable.from_arrays(data, **shown, segment=["desktop", "phone"])
    >>> found = PooledCells.by(table, np.array([0.8, 0.4]))
    >>> found.impressions, found.clicks, found.slope, found.share
    (array([40]), array([5]), array([0.8]), array([0.625]))
    >>> found.exposure
    array([20.])
    """

    row: IntArray
    position: IntArray
    impressions: IntArray
    clicks: IntArray
    slope: Floats
    base: Floats
    share: Floats
    of: IntArray

    @classmethod
    def by(cls, clicks: ClickTable, slope: Floats, base: Floats | None = None) -> PooledCells:
        """The cells of a log, given slope and base of each."""
        of = cells_together(clicks)
        first = np.unique(of, return_index=True)[1]
        largest = np.zeros(clicks.depth + 1)
        np.maximum.at(largest, clicks.position, slope)
        n, examined = clicks.impressions.astype(np.float64), slope / largest[clicks.position]
        impressions, clicked = (_sums(of, part).astype(np.int64) for part in (clicks.impressions, clicks.clicks))
        position = clicks.position[first]
        return cls(
            clicks.row[first],
            position,
            impressions,
            clicked,
            largest[position],
            np.zeros(len(first)) if base is None else base[first],
            _sums(of, n * examined) / _sums(of, n),
            of,
        )

    @property
    def exposure(self) -> Floats:
        """(pooled,) Σ n slope: in how many impressions the candidate was examined there."""
        found: Floats = self.impressions * self.share * self.slope
        return found

    def rates(self, chosen: IntArray) -> RateDistribution:
        """The distribution of the click-through rate of some of them, all at one position.

        Rates are those of pages that are examined most, with the largest slope.
        """
        most = float(self.slope[chosen[0]] + self.base[chosen[0]])
        counts = RateCounts.of(self.clicks[chosen], self.impressions[chosen], self.share[chosen])
        return counts.fit(most=min(most if most > 0 else 1e-9, 1.0))


def cells_together(clicks: ClickTable) -> IntArray:
    """(cells,) numbers from 0, by candidate and position: cells that share one differ in their segment only."""
    if clicks.n_segments == 1:
        return np.arange(clicks.n_cells)
    place = clicks.row * (clicks.depth + 1) + clicks.position
    found: IntArray = np.unique(place, return_inverse=True)[1].reshape(-1)
    return found


def _sums(of: IntArray, values: NDArray[np.float64] | IntArray) -> Floats:
    found: Floats = np.bincount(of, values).astype(np.float64, copy=False)
    return found
