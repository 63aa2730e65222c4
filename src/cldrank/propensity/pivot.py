"""`Pivot`: every position against one and the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.propensity.harvesting import Harvesting, ratios


@dataclass(frozen=True, repr=False)
class Pivot(Harvesting):
    """Each position against a pivot, on the candidates shown at both (Agarwal et al. 2019).

        rho_k / rho_p = sum_i w_i c_ik / n_ik / sum_i w_i c_ip / n_ip,   i in S_kp

    pivot   the position that all others are compared with

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> Pivot().fit(clicks)
    Propensities(1, 0.25; Pivot, 60 candidates)
    """

    pivot: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pivot < 1 or (self.depth is not None and self.pivot > self.depth):
            raise UsageError(f"the pivot must be one of the estimated positions, not {self.pivot}.")

    @property
    def about(self) -> str:
        """The pivot."""
        return f"position {self.pivot}, the pivot"

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        if self.pivot > size:
            raise UsageError(f"the pivot is position {self.pivot}, but pages end at position {size}.")
        others = np.delete(np.arange(size), self.pivot - 1)
        pivot = np.full(size - 1, self.pivot - 1)
        return np.minimum(others, pivot), np.maximum(others, pivot)

    def _solve(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        pivot = self.pivot - 1
        ratio = ratios(sums)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio[:, :pivot] = 1 / ratio[:, :pivot]  # there the pivot is the lower one
            against = np.insert(ratio, pivot, 1.0, axis=1)
            found: NDArray[np.float64] = against / against[:, :1]
        return np.where(np.isfinite(found), found, np.nan)
