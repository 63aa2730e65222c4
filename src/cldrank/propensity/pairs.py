"""Pairs of positions: the clicks of candidates that were shown at both, which is what harvesting compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.propensity.cells import Cells

Floats = NDArray[np.float64]
Weighting = Literal["candidates", "impressions"]


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over S_kl, the candidates shown at both positions k < l, for every pair of positions.

    upper, lower                 (pairs,) int64: k and l, from 0, in order
    above, below                 (groups, pairs) the weighted click-through rates at k and at l
    total                        (groups, pairs) the weights
    candidates                   (pairs,) how many candidates
    clicks_upper, clicks_lower   (pairs,) their clicks at k and at l
    units                        (pairs,) how many queries (or whatever is resampled) they are of, or groups of such
    effective                    (pairs,) how many impressions, at each of the two, would tell as much

    Weights of a candidate, with n impressions at k and m at l: n m / (n + m), which brings the least variance (Mantel
    and Haenszel 1959), or 1, as in Agarwal et al. (2019).
    """

    upper: IntArray
    lower: IntArray
    above: Floats
    below: Floats
    total: Floats
    candidates: IntArray
    clicks_upper: Floats
    clicks_lower: Floats
    units: IntArray
    effective: Floats

    @classmethod
    def of(cls, cells: Cells, weighting: Weighting) -> PairSums:
        """Add up all pairs of cells of the same candidate."""
        size = cells.size
        upper, lower = np.triu_indices(size, 1)
        count = len(upper)
        number = np.zeros((size, size), dtype=np.int64)
        number[upper, lower] = np.arange(count)
        grouped = np.zeros((3, cells.n_groups, count))
        plain = np.zeros((4, count))
        rate = cells.clicks / cells.impressions
        for distance in range(1, size):  # the cells of a candidate lie side by side
            one = np.flatnonzero(cells.row[distance:] == cells.row[:-distance])
            if not len(one):
                break
            two = one + distance
            pair = number[cells.place[one], cells.place[two]]
            n, m = cells.impressions[one], cells.impressions[two]
            harmonic = n * m / (n + m)
            weight = harmonic if weighting == "impressions" else np.ones(len(one))
            for at, values in enumerate((weight * rate[one], weight * rate[two], weight)):
                grouped[at] += cells.by_group(pair, values, count, one)
            for at, values in enumerate(
                (np.ones(len(one)), cells.clicks[one], cells.clicks[two], weight**2 / harmonic)
            ):
                plain[at] += np.bincount(pair, values, count)
        candidates, clicks_upper, clicks_lower, spread = plain
        effective = 2 * grouped[2].sum(axis=0) ** 2 / np.where(spread > 0, spread, 1.0)
        above, below, total = grouped
        units = (total > 0).sum(axis=0)
        counted = candidates.astype(np.int64)
        return cls(upper, lower, above, below, total, counted, clicks_upper, clicks_lower, units, effective)

    def find(self, upper: IntArray, lower: IntArray, size: int) -> IntArray:
        """The index of the pairs (upper, lower), places from 0.

        The pairs of an upper place k lie together, behind those of all places above it.
        """
        return upper * size - upper * (upper + 1) // 2 + lower - upper - 1
