"""InterventionAware: corrects clicks for all policies that showed a candidate over time, and for trust in positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cldrank.estimators.evidence import Evidence
from cldrank.estimators.exposure import exposure
from cldrank.estimators.method import TargetMethod
from cldrank.estimators.policy_aware_ips import warn_of_left_out
from cldrank.models.fit import Facts
from cldrank.models.targets import Targets
from cldrank.parameters import described, learned, parameter
from cldrank.propensity import AffineClicks


@described
class InterventionAware(TargetMethod):
    """The intervention-aware estimator: position, trust and selection bias at once (Oosterhuis and de Rijke 2021).

        t_i = (c_i / n_q - β_i) / α_i,    α_i = mean over pages of Σ_k P(i is shown at k) slope_k,  β_i of base_k alike

    The mean goes over all pages of the query, whatever policy drew each: a ranker that was replaced, one that explores,
    two under test. So a candidate that only a later policy shows still counts, also on the pages without it. A click is
    corrected by all that could have happened, not by its own position alone, which lowers the variance.

    The probabilities come from `ClickTable.with_display` (of several policies, averaged over the pages of each), else
    from the impressions. Where no policy ever shows a candidate it is left out; `n_left_out_` counts these. Without
    trust bias this is `PolicyAwareIPS`, and with a single fixed policy `AffineIPS` for the candidates that it shows.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> from cldrank.models import Linear
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> shown = {"row": [0, 1, 1, 2], "position": [1, 2, 1, 2], "impressions": [50] * 4, "clicks": [25, 9, 35, 14]}
    >>> trust = AffineClicks.of(examined=[1, 0.5], relevant=[0.9, 0.9], irrelevant=[0.5, 0.2])
    >>> method = InterventionAware(model=Linear(l2=0)).fit(data, ClickTable.from_arrays(data, **shown), trust)
    >>> method.predict(data).round(2)
    array([0.04, 0.3 , 0.55])
    """

    name = "intervention-aware"
    label = "Intervention-aware"
    sentence = "corrects clicks for all policies that showed a result over time, and for trust"
    needs = "trust"
    corrects = ("position", "trust", "selection")
    learns = "clicks corrected for policies, trust and position"

    clip: float | None = parameter(
        default=None, about="mean slopes below this share of the first position's are raised to it", above=0, most=1
    )

    affine_: AffineClicks = learned()
    n_left_out_: int = learned()
    n_clipped_: int = learned()

    @property
    def propensity_clip(self) -> None:
        """The slopes of positions are not clipped, only their mean over pages."""

    def targets(self, evidence: Evidence) -> tuple[Targets, Mapping[str, Any]]:
        """The clicks per page less the mean base, over the mean slope, of each candidate that can be shown."""
        affine = evidence.affine
        seen = exposure(evidence, affine)
        warn_of_left_out(seen)
        least = 0.0 if self.clip is None else float(self.clip) * float(affine.slope[0])
        slope = np.maximum(seen.slope, least)
        kept = {"affine_": affine, "n_left_out_": seen.n_left_out, "n_clipped_": int((seen.slope < least).sum())}
        return seen.targets((seen.clicked / seen.pages - seen.base) / slope, 1 / slope), kept

    def _facts(self) -> Facts:
        left_out = f"{self.n_left_out_:,} candidates that no policy shows; {self.n_clipped_:,} slopes clipped"
        return [("affine clicks", repr(self.affine_)), ("left out", left_out)]
