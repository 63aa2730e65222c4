"""IPS: divides clicks by the propensity of their position, which removes position bias but not selection bias."""

from __future__ import annotations

from cldrank.methods.evidence import Evidence
from cldrank.methods.method import CorrectedMethod, TargetMethod
from cldrank.methods.observing import observe
from cldrank.methods.relevance import Estimate, target_choice
from cldrank.models.targets import Targets
from cldrank.parameters import described


@described
class IPS(TargetMethod, CorrectedMethod):
    """Inverse propensity scoring: learns c/(n ρ) of each candidate, shrunk as `target` says (Joachims et al. 2017).

    `propensities_` are those used, and say which positions were clipped. With a network: pairs in the order of c/(n ρ),
    as the paper's baseline.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> cr.IPS(model=cr.Linear(l2=0)).fit(data, clicks, cr.Propensities.power(1, k=2)).predict(data).round(3)
    array([0.2, 0.4, 0.6])
    """

    name = "ips"
    label = "IPS"
    sentence = "divides clicks by the propensity of their position"
    order = 10
    corrects = ("position",)

    target: Estimate = target_choice()

    def targets(self, evidence: Evidence) -> Targets:
        """The relevance of each shown candidate as `target` estimates it."""
        return observe(evidence.data, evidence.clicks, evidence.propensities, self.target).shown_rows()
