"""Naive: treats clicks as relevance, and so learns where documents were shown as much as what they are."""

from __future__ import annotations

from cldrank.methods.evidence import Evidence
from cldrank.methods.method import TargetMethod
from cldrank.methods.observing import observe
from cldrank.models.targets import Targets
from cldrank.parameters import described


@described
class Naive(TargetMethod):
    """Learns c/n, the click-through rate of each shown candidate, weighted by its impressions n.

    Neither positions nor what was not shown count. With a linear model this is the regression over single impressions,
    each clicked or not; with a network, pairs of candidates in the order of c/n, as the paper's baseline.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> cr.Naive(model=cr.Linear(l2=0)).fit(data, clicks).predict(data).round(3)
    array([0.1, 0.4, 0.7])
    """

    name = "naive"
    label = "Naive"
    sentence = "treats clicks as relevance"
    order = 0
    needs = "clicks"
    learns = "clicks as they are"

    def targets(self, evidence: Evidence) -> Targets:
        """The click-through rate of each shown candidate."""
        return observe(evidence.data, evidence.clicks).shown_rows()
