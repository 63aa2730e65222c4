"""`Pivot`: every position against one and the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import UsageError, setting
from cldrank.parameters import parameter, value
from cldrank.propensity.harvesting.harvest import Harvesting, ratios


@value
class Pivot(Harvesting):
    """Each position against a pivot, on the candidates shown at both (Agarwal et al. 2019).

        rho_k / rho_p = sum_i w_i c_ik / n_ik / sum_i w_i c_ip / n_ip,   i in S_kp

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> Pivot().fit(clicks)
    Propensities(1, 0.25; Pivot, 60 candidates)
    """

    pivot: int = parameter(default=1, least=1, about="The position that all others are compared with", kw_only=False)

    name = "pivot"
    label = "Pivot"
    sentence = "Several rankers; each position against the same one"
    order = 22

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth is not None and self.pivot > self.depth:
            raise UsageError("{} must be one of the first {} positions.", setting("pivot", self.pivot), self.depth)

    @property
    def against(self) -> str:
        """The pivot."""
        return f"position {self.pivot}, the pivot"

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        if self.pivot > size:
            raise UsageError("{} is too deep: pages end at position {}.", setting("pivot", self.pivot), size)
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
