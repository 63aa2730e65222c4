"""PolicyAwareIPS: divides clicks by the probability that a candidate was shown and examined, over a varying policy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.methods.mean_exposure import Exposure, ExposureMethod
from cldrank.parameters import described, parameter


@described
class PolicyAwareIPS(ExposureMethod):
    """IPS over a policy that draws its pages: corrects selection bias too (Oosterhuis and de Rijke 2020).

        t_i = c_i / (n_q p_i),    p_i = Σ_k P(i is shown at k) ρ_k,    weight n_q

    c_i are the clicks on candidate i anywhere, n_q the pages of its query. Where display probabilities are known
    (`ClickTable.with_display`), a candidate that might have been shown counts, with t = 0, even if it never was; else
    they are estimated as impressions at k over n_q. A candidate that cannot be shown is left out, and so is, where they
    are estimated, a candidate never shown: `n_left_out_` counts them, and above half there is a warning. `n_clipped_`
    counts the p_i that were clipped.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [5, 5, 5, 5], "clicks": [2, 1, 4, 2]}
    >>> method = cr.PolicyAwareIPS(model=cr.Linear(l2=0))
    >>> method = method.fit(data, cr.ClickTable.from_arrays(data, **shown), cr.Propensities.power(1, k=2))
    >>> method.predict(data).round(3), method.n_left_out_
    (array([0.4, 0.8, 1.2]), 1)
    """

    name = "policy-aware-ips"
    label = "Policy-aware-IPS"
    sentence = "divides clicks by the probability of being shown and examined, where pages vary"
    order = 32
    corrects = ("position", "selection")
    learns = "clicks over the probability of being shown and examined"

    clip: float | None = parameter(
        default=None, about="smaller probabilities of being shown and examined are raised to it", above=0, most=1
    )

    def least(self, first: float) -> float:
        """The least probability of being shown and examined."""
        del first
        return 0.0 if self.clip is None else float(self.clip)

    def corrected(self, seen: Exposure, slope: NDArray[np.float64]) -> NDArray[np.float64]:
        """The clicks per page over the probability of being shown and examined."""
        return seen.clicked / (seen.pages * slope)
