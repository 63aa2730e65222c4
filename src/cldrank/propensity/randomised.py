"""`Randomised`: click-through rates of pages in random order."""

from __future__ import annotations

from dataclasses import dataclass

from cldrank.clicks.table import ClickTable
from cldrank.errors import UnidentifiableError
from cldrank.propensity.cells import Cells
from cldrank.propensity.stratified import Stratified


@dataclass(frozen=True, repr=False)
class Randomised(Stratified):
    """From pages in random order, where every position has results of the same relevance (Wang et al. 2016).

        rho_k = click-through rate at k / click-through rate at 1, over the queries whose pages reach k

    The table must hold the shuffled sessions alone. Queries are compared with themselves only, so lists may differ in
    length.

    check_order   refuse a log whose order is not random

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> Randomised().fit(clicks)
    Propensities(1, 0.25; Randomised, 60 candidates)
    """

    check_order: bool = True

    def _cells(self, clicks: ClickTable) -> Cells:
        from cldrank.clicks.audit.overlap import display_order

        cells = super()._cells(clicks)
        order = display_order(clicks) if self.check_order else None
        if order is not None and order.looks in ("mixed", "fixed"):
            raise UnidentifiableError(
                f"{self.name} needs pages in random order, but here the candidate tells the position (strength "
                f"{order.strength:.2f}, where 0 is random and 1 fixed): click-through rates mix relevance with "
                "position. Give it the shuffled sessions alone; a log of several rankers is for AllPairs. "
                "check_order=False goes on regardless.",
                positions=tuple(range(1, cells.size + 1)),
            )
        return cells
