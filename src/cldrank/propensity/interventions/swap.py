"""`Swap`: an experiment in which two results of a page change places at random."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.parameters import parameter, value
from cldrank.propensity.harvesting.adjacent_chain import AdjacentChain
from cldrank.propensity.harvesting.harvest import Harvesting
from cldrank.propensity.harvesting.pivot import Pivot


@value
class Swap(Harvesting):
    """From pages on which the first result changes places with another, or neighbours do (Joachims et al. 2017).

    Candidates count by how much their impressions at the two places tell, so that any share of swapped pages will do:

        rho_k / rho_1 = sum_i w_i c_ik / n_ik / sum_i w_i c_i1 / n_i1,   w_i = n_ik n_i1 / (n_ik + n_i1)

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [300] * 60 + [100] * 60}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[120] * 60 + [10] * 60)
    >>> Swap("first").fit(clicks)
    Propensities(1, 0.25; Swap, 60 candidates)
    """

    kind: Literal["first", "neighbours"] = parameter(
        default="first",
        about="What changes places: results with the `first`, or `neighbours`, whose ratios are multiplied up",
        kw_only=False,
    )

    name = "swap"
    label = "Swap"
    sentence = "Pages on which results changed places, compared on those results"
    compared = False  # the same as Pivot, or as AdjacentChain
    order = 12

    @property
    def against(self) -> str:
        """What a position is swapped with."""
        return "position 1" if self.kind == "first" else self._design.against

    @property
    def _design(self) -> Harvesting:
        return Pivot() if self.kind == "first" else AdjacentChain()

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        return self._design._links(size)

    def _solve(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._design._solve(sums)
