"""PolicyAwareIPS: divides clicks by the probability that a candidate was shown and examined, over a varying policy."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from cldrank.errors import CldrankWarning
from cldrank.estimators.evidence import Evidence
from cldrank.estimators.exposure import Exposure, exposure
from cldrank.estimators.method import TargetMethod
from cldrank.models.fit import Facts
from cldrank.models.targets import Targets
from cldrank.parameters import described, learned, parameter
from cldrank.propensity import AffineClicks, Propensities

_MANY = 0.5  # of the candidates; where more were left out, selection bias is hardly corrected


@described
class PolicyAwareIPS(TargetMethod):
    """IPS over a policy that draws its pages: corrects selection bias too (Oosterhuis and de Rijke 2020).

        t_i = c_i / (n_q p_i),    p_i = Σ_k P(i is shown at k) ρ_k,    weight n_q

    c_i are the clicks on candidate i anywhere, n_q the pages of its query. Where display probabilities are known
    (`ClickTable.with_display`), a candidate that might have been shown counts, with t = 0, even if it never was; else
    they are estimated as impressions at k over n_q. A candidate that cannot be shown is left out, and so is, where they
    are estimated, one that never was: `n_left_out_` counts them, and above one half there is a warning. `n_clipped_`
    counts the p_i that were clipped.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> from cldrank.models import Linear
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [5, 5, 5, 5], "clicks": [2, 1, 4, 2]}
    >>> method = PolicyAwareIPS(model=Linear(l2=0))
    >>> method = method.fit(data, ClickTable.from_arrays(data, **shown), Propensities.power(1, k=2))
    >>> method.predict(data).round(3), method.n_left_out_
    (array([0.4, 0.8, 1.2]), 1)
    """

    name = "policy-aware-ips"
    label = "Policy-aware-IPS"
    sentence = "divides clicks by the probability of being shown and examined, where pages vary"
    corrects = ("position", "selection")
    learns = "clicks over the probability of being shown and examined"

    clip: float | None = parameter(
        default=None, about="smaller probabilities of being shown and examined are raised to it", above=0, most=1
    )

    propensities_: Propensities = learned()
    n_left_out_: int = learned()
    n_clipped_: int = learned()

    @property
    def propensity_clip(self) -> None:
        """Propensities are not clipped themselves."""

    def targets(self, evidence: Evidence) -> tuple[Targets, Mapping[str, Any]]:
        """The clicks per page over the probability of being shown and examined, of each candidate that can be."""
        seen = exposure(evidence, AffineClicks.from_propensities(evidence.propensities))
        warn_of_left_out(seen)
        chance = seen.slope if self.clip is None else np.maximum(seen.slope, float(self.clip))
        kept = {
            "propensities_": evidence.propensities,
            "n_left_out_": seen.n_left_out,
            "n_clipped_": int((seen.slope < chance).sum()),
        }
        return seen.targets(seen.clicked / (seen.pages * chance), 1 / chance), kept

    def _facts(self) -> Facts:
        left_out = f"{self.n_left_out_:,} candidates that cannot be shown; {self.n_clipped_:,} probabilities clipped"
        return [("propensities", repr(self.propensities_)), ("left out", left_out)]


def warn_of_left_out(seen: Exposure) -> None:
    """Warn if more than half of the candidates were never shown."""
    everyone = seen.n_left_out + len(seen.rows)
    if seen.n_left_out > _MANY * everyone:
        warnings.warn(
            f"{seen.n_left_out:,} of {everyone:,} candidates were never shown, and are left out: the log says nothing "
            "about them, so selection bias is corrected among the others only. CLD models the selection of a policy "
            "that does not vary.",
            CldrankWarning,
            stacklevel=5,
        )
