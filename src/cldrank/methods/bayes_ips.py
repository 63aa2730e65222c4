"""BayesIPS: weights a click by the probability that it was made on a relevant result, then divides as IPS does."""

from __future__ import annotations

import numpy as np

from cldrank.methods.evidence import Evidence
from cldrank.methods.method import TargetMethod
from cldrank.methods.observing import observe
from cldrank.models.targets import Targets
from cldrank.parameters import described
from cldrank.propensity import AffineClicks


@described
class BayesIPS(TargetMethod):
    """Bayes-IPS for trust bias (Agarwal et al. 2019): IPS whose clicks count as far as they mean relevance.

        t = P(relevant | clicked, examined, k) c / (n θ_k),    P(relevant | …) = ε⁺_k / (ε⁺_k + ε⁻_k)

    ε⁺_k and ε⁻_k are the probabilities of a click on a relevant and on an irrelevant result that is examined at k, as
    likely relevant as irrelevant. It takes `AffineClicks`, slope θ (ε⁺ - ε⁻) and base θ ε⁻, from which ε⁺_k / (ε⁺_k
    + ε⁻_k) = (slope + base) / (slope + 2 base); θ_k follows up to its scale, which ranks alike, where ε⁺ is the same at
    all positions: θ_k ∝ slope + base. So t ∝ c / (n (slope_k + 2 base_k)). Without a base this is `IPS`.

    It corrects what trust adds on average, not the constant that `AffineIPS` subtracts: less bias than IPS as long as
    few results are surely relevant, less variance than AffineIPS, but not unbiased (Vardasbi et al. 2020). `affine_`
    are the slopes and bases used.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> clicks = cr.ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[3, 7, 0])
    >>> trust = cr.propensity.AffineClicks.of(examined=[1, 0.5], relevant=[1, 1], irrelevant=[0.4, 0.2])
    >>> cr.BayesIPS(model=cr.Linear(l2=0)).fit(data, clicks, trust).predict(data).round(2)
    array([0.5, 0.5, 0.5])
    """

    name = "bayes-ips"
    label = "Bayes-IPS"
    sentence = "counts a click as far as it means relevance at its position, then divides as IPS does"
    order = 12
    needs = "trust"
    corrects = ("position", "trust")
    learns = "clicks weighted by what they mean, over propensity"

    def targets(self, evidence: Evidence) -> Targets:
        """The click-through rate of each shown candidate, over slope + 2 base of its position."""
        affine = evidence.affine
        weight = AffineClicks(affine.slope + 2 * affine.base, np.zeros(len(affine)))
        return observe(evidence.data, evidence.clicks, weight).shown_rows()
