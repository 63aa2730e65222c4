"""HeckmanRank: a probit of what is shown, then a regression of clicks that knows how each came to be shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.methods.evidence import Evidence
from cldrank.methods.method import Method
from cldrank.methods.observing import observe
from cldrank.models import Linear
from cldrank.models.fit import Fit
from cldrank.parameters import described, learned, parameter


@described
class TwoStageMethod(Method):
    """A regression corrected for selection, in two stages; `log_likelihood_` is that of the first."""

    needs = "clicks"
    learns = "clicks as they are"
    way = "fit_two_stages"

    model: Linear = parameter(default=Linear(), about="what is fitted", option=False)

    selection_coef_: NDArray[np.float64] = learned(
        about="the coefficients ω of the first stage, for the scaled features"
    )
    thresholds_: NDArray[np.float64] = learned(about="the thresholds of the first stage")
    mills_coefficient_: float = learned(about="κ, the coefficient of the inverse Mills ratio")


@described
class HeckmanRank(TwoStageMethod):
    """Heckman's two stages for rankings (Ovaisi et al. 2020): clicks regressed on features and the inverse Mills ratio.

        1.  shown if ω·x + ε > 0, ε Gaussian: a probit over all candidates of the queries displayed
        2.  c/n = intercept + β·x + κ m(ω·x) + noise, over the candidates shown; m = φ/Φ

    Ranks by β·x. Each stage is a weighted mean less l2 ‖ω‖² or l2 ‖β‖²; intercepts and κ bear no penalty. A candidate
    has the weight of its impressions, or of its query's if it was never shown. Position bias is left in, as in the
    paper. As both stages see the same features, the correction rests on the curvature of m.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = cr.ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> method = cr.HeckmanRank().fit(data, clicks)
    >>> method.predict(data).argsort(), method.status_
    (array([0, 1, 2, 4, 3, 5]), 'converged')
    """

    name = "heckman"
    label = "Heckman^rank"
    sentence = "models which results are shown at all"
    order = 20
    corrects = ("selection",)

    selection_intercept_: float = learned(about="the intercept of the first stage; infinite where all are shown")

    def _learn(self, evidence: Evidence) -> Fit:
        observed = observe(evidence.data, evidence.clicks).together()
        fit = self.model.fit_two_stages(observed, self._context(evidence.data))
        thresholds = fit.learned["thresholds"]
        return fit.keeping(selection_intercept=-float(thresholds[-1]) if len(thresholds) else np.inf)
