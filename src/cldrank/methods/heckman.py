"""HeckmanRank: a probit of what is shown, then a regression of clicks that knows how each came to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError
from cldrank.methods.evidence import Evidence, chosen_features
from cldrank.methods.method import Method, Result, clipping, features_seen, raising
from cldrank.methods.needs import Needs
from cldrank.methods.observing import observe
from cldrank.models import Linear
from cldrank.models.linear.ordered import Entries
from cldrank.models.linear.stages import TwoStageProblem
from cldrank.models.targets import Observations
from cldrank.parameters import described, learned, parameter
from cldrank.propensity.curve_checks import EnvelopeUse

Weighting = Literal["impressions", "candidates"]


@described
class TwoStageMethod(Method):
    """A regression corrected for selection, in two stages; `log_likelihood_` is that of the first."""

    needs = "clicks"
    learns = "clicks as they are"
    way = "fit_stages"

    model: Linear = parameter(default=Linear(), about="what is fitted", option=False)
    weighting: Weighting = parameter(
        default="impressions",
        about="weight of a candidate: its impressions (of one not shown, those of its query), or 1",
    )
    relevance_features: Sequence[str] | None = features_seen("relevance")
    selection_features: Sequence[str] | None = features_seen("selection")

    selection_coef_: NDArray[np.float64] = learned(
        about="the coefficients ω of the first stage, for the scaled features"
    )
    selection_standard_errors_: NDArray[np.float64] = learned(about="their standard errors")
    thresholds_: NDArray[np.float64] = learned(
        about="the thresholds of the first stage: of PIJD, the t_k of `positions_`"
    )
    mills_coefficient_: float = learned(about="κ, the coefficient of the inverse Mills ratio")
    sigma_: float = learned(about="the noise of a target in the whole population")
    rho_: float = learned(about="its correlation with that of selection, κ / σ; outside -1 … 1 the model does not fit")
    separated_: bool = learned(
        about="whether features predict without error what is shown: then only the penalty bounds ω"
    )

    def _problem(self, evidence: Evidence, observed: Observations, entries: Entries) -> TwoStageProblem:
        data = evidence.data
        return TwoStageProblem(
            observed.rows,
            entries,
            chosen_features(self.relevance_features, data, "relevance_features"),
            chosen_features(self.selection_features, data, "selection_features"),
        )


@described
class HeckmanRank(TwoStageMethod):
    """Heckman's two stages for rankings (Ovaisi et al. 2020): clicks regressed on features and the inverse Mills ratio.

        1.  shown if ω·x + ε > 0, ε Gaussian: a probit over all candidates of the queries displayed
        2.  c/n = intercept + β·x + κ m(ω·x) + noise, over the candidates shown; m = φ/Φ

    Ranks by β·x. Each stage is a weighted mean less l2 ‖ω‖² or l2 ‖β‖²; intercepts and κ bear no penalty. Position bias
    is left in, as in the paper, unless `position_correction` divides clicks by the propensities. With
    `selection_features` that are not `relevance_features`, the correction rests on more than the curvature of m.

    >>> from cldrank.clicks.table import ClickTable
    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> method = HeckmanRank().fit(data, clicks)
    >>> method.predict(data).argsort(), method.status_
    (array([0, 1, 2, 4, 3, 5]), 'converged')
    """

    name = "heckman"
    label = "Heckman^rank"
    sentence = "models which results are shown at all"
    order = 20
    corrects = ("selection",)

    position_correction: bool = parameter(default=False, about="divide clicks by the propensities")
    clip: float | None = clipping()
    envelope: EnvelopeUse = raising()

    selection_intercept_: float = learned(about="the intercept of the first stage")

    @property
    def required(self) -> Needs:
        """Propensities only where clicks are divided by them."""
        return "propensities" if self.position_correction else "clicks"

    def _learn(self, evidence: Evidence) -> Result:
        for name, usual in (("clip", None), ("envelope", "raise")) if not self.position_correction else ():
            if getattr(self, name) != usual:
                raise UsageError(f"`{name}` is for the propensities; it needs `position_correction=True`.")
        observed = observe(evidence.data, evidence.clicks, evidence.propensities if self.position_correction else None)
        problem = self._problem(evidence, observed, shown_entries(observed, self.weighting))
        found = self.model.fit_stages(problem, self._context(evidence.data))
        intercept = float(found.thresholds[-1]) if len(found.thresholds) else np.inf  # infinite where all are shown
        return Result(found, {"selection_intercept_": intercept})


def shown_entries(observed: Observations, weighting: Weighting) -> Entries:
    """Each shown candidate once, in one place."""
    mean, weight, spread = observed.by_row()
    level = np.ones(len(observed.shown), dtype=np.int64)
    if weighting == "candidates":
        weight, spread = np.ones_like(weight), np.zeros_like(spread)
    return Entries(observed.shown, level, weight, mean, spread, *unshown_weights(observed, weighting))


def unshown_weights(observed: Observations, weighting: Weighting) -> tuple[Any, Any, Any]:
    """The weight of the candidates not shown, all queries, and what a candidate not shown weighs in each."""
    absent, pages = observed.absent, observed.pages
    if weighting == "candidates":
        absent, pages = np.minimum(absent, 1.0), None if pages is None else np.minimum(pages, 1.0)
    return absent, observed.queries, pages
