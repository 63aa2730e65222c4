"""AffineIPS: subtracts the clicks that trust in a position brings, then divides by what relevance adds there."""

from __future__ import annotations

from typing import Any

from cldrank.methods.evidence import Evidence, collect
from cldrank.methods.method import TargetMethod
from cldrank.methods.observing import observe
from cldrank.models.targets import Targets
from cldrank.parameters import described, parameter


@described
class AffineIPS(TargetMethod):
    """IPS for trust bias: learns the relevance that explains the clicks (Vardasbi et al. 2020).

        t = (c/n - base_k) / slope_k

    In place of propensities it takes `AffineClicks`, given or from `propensity.TrustBias().fit(clicks)`; propensities
    count as slopes without a base, which makes it `IPS`. Rankings do not depend on how relevance is scaled, so any
    affine clicks that explain the same log will do. `affine_` are those used.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 7, 0])
    >>> trust = cr.propensity.AffineClicks.of(examined=[1, 0.5], relevant=[0.9, 0.9], irrelevant=[0.5, 0.2])
    >>> cr.AffineIPS(model=cr.Linear(l2=0)).fit(data, clicks, trust).predict(data).round(3)
    array([0. , 0.5, 1. ])
    """

    name = "affine-ips"
    label = "Affine-IPS"
    sentence = "subtracts clicks made out of trust in a position, then divides as IPS does"
    order = 11
    needs = "trust"
    corrects = ("position", "trust")
    learns = "clicks corrected for trust and position"

    clip: float | None = parameter(
        default=None, about="slopes below this share of the first are raised to it", above=0, most=1
    )

    def _collected(self, dataset: Any, clicks: Any, propensities: Any) -> Evidence:
        return collect(self.label, self.needs, dataset, clicks, propensities, clip=self.clip)

    def targets(self, evidence: Evidence) -> Targets:
        """The click-through rate less the base, over the slope, of each shown candidate."""
        return observe(evidence.data, evidence.clicks, evidence.affine).shown_rows()
