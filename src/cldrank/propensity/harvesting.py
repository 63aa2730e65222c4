"""Intervention harvesting: positions compared on the candidates that some rankers put at one, some at the other."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.propensity.cells import Cells
from cldrank.propensity.estimator import SumEstimator, Tally
from cldrank.propensity.pairs import PairSums, Weighting
from cldrank.propensity.refusal import refuse

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEWEST_UNITS = 5  # queries behind a comparison; resampling fewer tells nothing of their spread


@dataclass(frozen=True, kw_only=True, repr=False)
class Harvesting(SumEstimator):
    """Estimators of pairs of positions, by the clicks of S_kl, the candidates shown at both (Agarwal et al. 2019).

    weighting   what a candidate of S_kl counts: "impressions": as much as its impressions at k and l tell, for the
                least variance; "candidates": each the same, as in the paper, however rarely it was shown
    """

    weighting: Weighting = "impressions"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weighting not in ("candidates", "impressions"):
            raise UsageError(f"weighting must be 'candidates' or 'impressions', not {self.weighting!r}.")

    @property
    @abstractmethod
    def about(self) -> str:
        """What a position must be compared with, in words."""

    @abstractmethod
    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        """The pairs of places (upper, lower) that are used."""

    def _tally(self, cells: Cells) -> Tally:
        pairs = PairSums.of(cells, self.weighting)
        used = pairs.find(*self._links(cells.size), cells.size)
        sums = np.concatenate([pairs.above[:, used], pairs.below[:, used], pairs.total[:, used]], axis=1)
        ends = np.concatenate([pairs.upper[used], pairs.lower[used]])
        comparisons = np.bincount(ends, np.tile(pairs.effective[used], 2), cells.size)
        return Tally(sums, np.asarray(comparisons, dtype=np.float64), pairs)

    def _require(self, tally: Tally, cells: Cells) -> None:
        pairs = tally.pairs
        if not pairs.candidates.any():
            raise refuse(
                self.name,
                "each candidate was shown at one position only, as by a single ranker that never changes, so no two "
                "positions can be compared on equal candidates",
                range(1, cells.size + 1),
                cells.rates(),
                self.confidence,
            )
        used = pairs.find(*self._links(cells.size), cells.size)
        reached = self._reached(pairs, used, cells.size)
        if not reached.all():
            raise refuse(
                self.name,
                self._broken(pairs, used, reached, cells.units),
                (np.flatnonzero(~reached) + 1).tolist(),
                cells.rates(),
                self.confidence,
            )

    def _reached(self, pairs: PairSums, used: IntArray, size: int) -> Bools:
        """The places that a chain of used pairs compares with the top one; clicks must go both ways around.

        A pair says that l is not infinitely below k if there are clicks at l, and the other way around; all estimates
        are finite only where such statements lead from the top to each place, and back.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import connected_components

        upper, lower = pairs.upper[used], pairs.lower[used]
        known = pairs.units[used] >= FEWEST_UNITS
        down, up = known & (pairs.clicks_lower[used] > 0), known & (pairs.clicks_upper[used] > 0)
        tails = np.concatenate([upper[down], lower[up]])
        heads = np.concatenate([lower[down], upper[up]])
        graph = csr_matrix((np.ones(len(tails)), (tails, heads)), shape=(size, size))
        _, label = connected_components(graph, directed=True, connection="strong")
        reached: Bools = label == label[0]
        return reached

    def _broken(self, pairs: PairSums, used: IntArray, reached: Bools, units: str) -> str:
        """Why the first place that is not reached is not, in words."""
        across = reached[pairs.upper[used]] != reached[pairs.lower[used]]
        candidates, counted = (int(part[used][across].sum()) for part in (pairs.candidates, pairs.units))
        first = int(np.flatnonzero(~reached)[0]) + 1
        if not candidates:
            return f"no candidate was shown both at position {first} and at {self.about}"
        told = f"{candidates:,} candidate{'s' if candidates > 1 else ''}"
        told += f", of {counted:,} {units}, shown" if units == "queries" else " shown"
        told += f" both there and at {self.about}"
        if (pairs.units[used][across] >= FEWEST_UNITS).any():
            return f"there are {told}, but not with clicks at both"
        return f"there are only {told}, too few to tell how far an estimate could be trusted"


def ratios(sums: Floats) -> Floats:
    """(logs, pairs) the clicks at the lower position over those at the upper one, of the same candidates."""
    above, below, _ = np.split(sums, 3, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(above > 0, below / above, np.nan)
    return found
