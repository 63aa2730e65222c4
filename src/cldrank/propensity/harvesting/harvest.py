"""What harvesting shares: positions compared on the candidates that some rankers put at one, some at the other."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.units import pair_number
from cldrank.errors import Spelling
from cldrank.parameters import parameter, value
from cldrank.propensity.checks.refusal import cannot_estimate
from cldrank.propensity.counts import Cells, PairSums, Weighting
from cldrank.propensity.estimator import SumEstimator, Tally
from cldrank.wording import count

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FEWEST_UNITS = 5  # queries behind a comparison; resampling fewer does not show their spread


@value
class Harvesting(SumEstimator):
    """Estimators of pairs of positions, by the clicks of S_kl, the candidates shown at both (Agarwal et al. 2019)."""

    weighting: Weighting = parameter(
        default="impressions",
        about="Weight of a candidate shown at two positions: by its `impressions` there, for the least variance, or "
        "equal for all `candidates`, as in the paper",
    )

    @property
    @abstractmethod
    def against(self) -> str:
        """What a position must be compared with, in words."""

    @abstractmethod
    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        """The pairs of places (upper, lower) that are used."""

    def _tally(self, cells: Cells) -> Tally:
        pairs = PairSums.of(cells, self.weighting)
        used = pair_number(*self._links(cells.size), cells.size)
        sums = np.concatenate([pairs.above[:, used], pairs.below[:, used], pairs.total[:, used]], axis=1)
        ends = np.concatenate([pairs.upper[used], pairs.lower[used]])
        comparisons = np.bincount(ends, np.tile(pairs.effective[used], 2), cells.size)
        return Tally(sums, np.asarray(comparisons, dtype=np.float64), pairs)

    def _require(self, tally: Tally, cells: Cells) -> None:
        used = pair_number(*self._links(cells.size), cells.size)
        require_overlap(self.spelling, self.against, tally.pairs, used, cells, self.confidence)


def require_overlap(
    who: Spelling, against: str, pairs: PairSums, used: IntArray, cells: Cells, confidence: float
) -> None:
    """Raise UnidentifiableError where the used pairs do not lead from the first position to all others."""
    if not pairs.candidates.any():
        raise cannot_estimate(
            who,
            "each candidate was shown at one position only, as by a single ranker that never changes, so no two "
            "positions can be compared on equal candidates",
            range(1, cells.size + 1),
            cells.rates(),
            confidence,
        )
    reached = _reached(pairs, used, cells.size)
    if not reached.all():
        lacking = (np.flatnonzero(~reached) + 1).tolist()
        why = _broken(against, pairs, used, reached, cells.units)
        raise cannot_estimate(who, why, lacking, cells.rates(), confidence)


def _reached(pairs: PairSums, used: IntArray, size: int) -> Bools:
    """The places that a chain of used pairs compares with the top one; clicks must go both ways around.

    A pair shows that l is not infinitely below k if there are clicks at l, and the other way around; all estimates are
    finite only where such pairs lead from the top to each place, and back.
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


def _broken(against: str, pairs: PairSums, used: IntArray, reached: Bools, units: str) -> str:
    """Why the first place that is not reached is not, in words."""
    across = reached[pairs.upper[used]] != reached[pairs.lower[used]]
    candidates, counted = (int(part[used][across].sum()) for part in (pairs.candidates, pairs.units))
    first = int(np.flatnonzero(~reached)[0]) + 1
    if not candidates:
        return f"no candidate was shown both at position {first} and at {against}"
    shared = count(candidates, "candidate")
    shared += f", of {counted:,} {units}, shown" if units == "queries" else " shown"
    shared += f" both there and at {against}"
    if (pairs.units[used][across] >= FEWEST_UNITS).any():
        return f"there are {shared}, but not with clicks at both"
    return f"there are only {shared}, too few to know how far an estimate could be trusted"


def ratios(sums: Floats) -> Floats:
    """(logs, pairs) the clicks at the lower position over those at the upper one, of the same candidates."""
    above, below, _ = np.split(sums, 3, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(above > 0, below / above, np.nan)
    return found
