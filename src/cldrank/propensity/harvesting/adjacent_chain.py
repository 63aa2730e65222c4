"""`AdjacentChain`: every position against the one above."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.parameters import value
from cldrank.propensity.harvesting.harvest import Harvesting, ratios


@value
class AdjacentChain(Harvesting):
    """Each position against the one above, on the candidates shown at both, multiplied up (Agarwal et al. 2019).

        rho_k / rho_1 = product over l = 2 … k of rho_l / rho_(l-1)

    It needs swaps of neighbours only, but errors add up along the chain.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> AdjacentChain().fit(clicks)
    Propensities(1, 0.25; AdjacentChain, 60 candidates)
    """

    name = "adjacent-chain"
    label = "Adjacent chain"
    sentence = "Several rankers; each position against the one above, so errors add up"
    order = 21

    @property
    def against(self) -> str:
        """What a position must be compared with."""
        return "the position above"

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        return np.arange(size - 1), np.arange(1, size)

    def _solve(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        first = np.ones((len(sums), 1))
        chained: NDArray[np.float64] = np.cumprod(np.concatenate([first, ratios(sums)], axis=1), axis=1)
        return chained
