"""InterventionAware: corrects clicks for all policies that showed a candidate over time, and for trust in positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.methods.mean_exposure import Exposure, ExposureMethod
from cldrank.parameters import described, parameter


@described
class InterventionAware(ExposureMethod):
    """The intervention-aware estimator: position, trust and selection bias at once (Oosterhuis and de Rijke 2021).

        t_i = (c_i / n_q - β_i) / α_i,    α_i = mean over pages of Σ_k P(i is shown at k) slope_k,  β_i of base_k alike

    The mean goes over all pages of the query, whatever policy drew each: a replaced ranker, a ranker that explores,
    two under test. So a candidate that only a later policy shows still counts, also on the pages without it. A click is
    corrected by all that could have happened, not by its own position alone, which lowers the variance.

    The probabilities come from `ClickTable.with_display` (of several policies, averaged over the pages of each), else
    from the impressions. Where no policy ever shows a candidate it is left out; `n_left_out_` counts these. Without
    trust bias this is `PolicyAwareIPS`, and with a single fixed policy `AffineIPS` for the candidates that it shows.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> shown = {"row": [0, 1, 1, 2], "position": [1, 2, 1, 2], "impressions": [50] * 4, "clicks": [25, 9, 35, 14]}
    >>> trust = cr.propensity.AffineClicks.of(examined=[1, 0.5], relevant=[0.9, 0.9], irrelevant=[0.5, 0.2])
    >>> method = cr.InterventionAware(model=cr.Linear(l2=0)).fit(data, cr.ClickTable.from_arrays(data, **shown), trust)
    >>> method.predict(data).round(2)
    array([0.04, 0.3 , 0.55])
    """

    name = "intervention-aware"
    label = "Intervention-aware"
    sentence = "corrects clicks for all policies that showed a result over time, and for trust"
    order = 33
    needs = "trust"
    corrects = ("position", "trust", "selection")
    learns = "clicks corrected for policies, trust and position"

    clip: float | None = parameter(
        default=None, about="mean slopes below this share of the first position's are raised to it", above=0, most=1
    )

    def least(self, first: float) -> float:
        """A share of the slope at the first position."""
        return 0.0 if self.clip is None else float(self.clip) * first

    def corrected(self, seen: Exposure, slope: NDArray[np.float64]) -> NDArray[np.float64]:
        """The clicks per page less the mean base, over the mean slope."""
        return (seen.clicked / seen.pages - seen.base) / slope
