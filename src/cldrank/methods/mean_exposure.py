"""How much a candidate was exposed over all pages of its query, whatever policies drew them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankWarning, warn
from cldrank.feature_blocks import RemoteFeatures
from cldrank.methods.evidence import Evidence
from cldrank.methods.method import TargetMethod
from cldrank.models.fit import Fit
from cldrank.models.targets import Targets
from cldrank.parameters import described, learned
from cldrank.propensity import AffineClicks, SegmentPropensities
from cldrank.propensity.segment_propensities import slopes_and_bases

Floats = NDArray[np.float64]
_MANY = 0.5  # of the candidates; where more were left out, selection bias is hardly corrected


class Exposure(NamedTuple):
    """The candidates that can be shown, and what a page of their query gives them on average.

        P(click on i | a page of its query) = slope_i relevance_i + base_i

    rows         (rows,) of the dataset, rising
    queries      (rows,)
    pages        (rows,) how often the query was displayed
    clicked      (rows,) clicks at any position, by what they were worth
    slope        (rows,) Σ_k P(i is shown at k) slope_k, above 0; with propensities, P(i is shown and examined)
    base         (rows,) Σ_k P(i is shown at k) base_k
    n_left_out   candidates of displayed queries that cannot be shown
    """

    rows: IntArray
    queries: IntArray
    pages: Floats
    clicked: Floats
    slope: Floats
    base: Floats
    n_left_out: int


def exposure(evidence: Evidence, curve: AffineClicks | SegmentPropensities) -> Exposure:
    """The exposure of all candidates: by the display probabilities of the clicks if known, else by the impressions.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [8, 2, 2, 8], "clicks": [2, 1, 1, 2]}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown)
    >>> exposed = exposure(Evidence(data, clicks), cr.propensity.AffineClicks.of([1, 0.5], 1, 0))
    >>> exposed.rows, exposed.slope, exposed.n_left_out
    (array([0, 1]), array([0.9, 0.6]), 1)
    """
    data, clicks = evidence.data, evidence.clicks
    pages = clicks.query_impressions[data.row_queries].astype(np.float64)
    slope, base = _means(clicks, curve, pages)
    kept = np.flatnonzero((pages > 0) & (slope > 0))
    features: Any = data.features
    n_elsewhere = features.n_unseen if isinstance(features, RemoteFeatures) else 0
    return Exposure(
        kept,
        data.row_queries[kept],
        pages[kept],
        np.bincount(clicks.row, clicks.credit, len(pages))[kept].astype(np.float64, copy=False),
        slope[kept],
        base[kept],
        int((pages > 0).sum()) + n_elsewhere - len(kept),
    )


def _means(clicks: ClickTable, curve: AffineClicks | SegmentPropensities, pages: Floats) -> tuple[Floats, Floats]:
    """Mean slope and base of each candidate; impressions at k over the pages of the query stand for P(shown at k)."""
    if clicks.display is None:
        slope, base = (
            np.bincount(clicks.row, clicks.impressions * values, len(pages)) / np.maximum(pages, 1.0)
            for values in slopes_and_bases(curve, clicks)
        )
        return slope, base
    if isinstance(curve, SegmentPropensities):  # the only segment: display probabilities are of a single policy
        curve = AffineClicks.from_propensities(curve[clicks.segment_names[0]])
    slopes, bases = curve.at(np.arange(1, clicks.display.shape[1] + 1))
    return clicks.display @ slopes, clicks.display @ bases


@described
class ExposureMethod(TargetMethod):
    """A method that divides clicks per page by the exposure of a candidate, over all pages of its query."""

    n_left_out_: int = learned(about="candidates left out, since they cannot have been shown")
    n_clipped_: int = learned(about="candidates whose probability of being seen was clipped")

    @abstractmethod
    def least(self, first: float) -> float:
        """The least exposure; anything smaller is raised to it. `first` is the slope at the first position."""

    @abstractmethod
    def corrected(self, seen: Exposure, slope: Floats) -> Floats:
        """The target of each candidate; `slope` is its exposure, clipped."""

    def targets(self, evidence: Evidence) -> Targets:
        """The corrected clicks per page of each candidate that can be shown."""
        return self._exposed(evidence)[0]

    def _learn(self, evidence: Evidence) -> Fit:
        targets, counts = self._exposed(evidence)
        return self.model.fit_targets(targets, self._context(evidence.data)).keeping(**counts)

    def _exposed(self, evidence: Evidence) -> tuple[Targets, dict[str, int]]:
        segmented = isinstance(evidence.propensities, SegmentPropensities)
        curve = evidence.propensities if segmented else evidence.affine
        seen = exposure(evidence, curve)
        everyone = seen.n_left_out + len(seen.rows)
        if seen.n_left_out > _MANY * everyone:
            warn(
                CldrankWarning(
                    f"{seen.n_left_out:,} of {everyone:,} candidates were never shown, and are left out: the log says "
                    "nothing about them, so selection bias is corrected among the others only. CLD models the "
                    "selection of a policy that does not vary."
                )
            )
        least = self.least(1.0 if segmented else float(curve.slope[0]))
        slope = np.maximum(seen.slope, least)
        counts = {"n_left_out": seen.n_left_out, "n_clipped": int((seen.slope < least).sum())}
        targets = Targets(seen.rows, self.corrected(seen, slope), seen.pages, seen.queries)
        return targets.weighted(evidence.data.query_weights), counts

    def _about(self) -> dict[str, str]:
        left_out = f"{self.n_left_out_:,} candidates that cannot be shown; {self.n_clipped_:,} exposures clipped"
        return {**super()._about(), "left out": left_out}
