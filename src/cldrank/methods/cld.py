"""CLD: causal likelihood decomposition, row by row. Corrects position bias, then selection bias."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError, UsageError
from cldrank.methods.evidence import Evidence
from cldrank.methods.method import CorrectedMethod
from cldrank.methods.observing import Target, observe
from cldrank.models.fit import Fit
from cldrank.parameters import described, learned, parameter


@described
class CLD(CorrectedMethod):
    """Relevance and selection, fitted together to clicks and to what was not shown (SIGIR-AP 2023).

        Σ_shown -(r̄ - x·β)² + log Φ((x·ω + γ (r̄ - x·β)) / √(1 - γ²)) + Σ_not shown log Φ(-x·ω)

    with r̄ as `target` estimates it (in the paper c / (n ρ), in its code c / ρ of each impression); as the mean over
    impressions, less l2 (‖β‖² + ‖ω‖²); intercepts bear no penalty. Candidates are ranked by x·β. With a network in
    place of x·β this is CLD-N; selection stays linear.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3, 1], [2, 0], [1, 2], [0, 0]] * 2, [7] * 4 + [8] * 4)
    >>> clicks = cr.ClickTable.from_arrays(
    ...     data, position=[1, 2, 0, 0] * 2, impressions=[9, 9, 0, 0] * 2, clicks=[4, 2, 0, 0, 5, 1, 0, 0]
    ... )
    >>> method = cr.CLD(gamma=0.2).fit(data, clicks, cr.Propensities.power(1, k=2))
    >>> method.status_, method.predict(data)[:4].argsort()[::-1]
    ('converged', array([0, 2, 1, 3]))
    """

    name = "cld"
    label = "CLD"
    sentence = "corrects both biases with one likelihood of clicks and of what was not shown"
    order = 40
    corrects = ("position", "selection")
    way = "fit_points"

    gamma: float = parameter(
        default=0.1, about="correlation of the noise of selection and of relevance", above=-1, below=1, tried="0.05:0.3"
    )
    target: Target = parameter(
        default="mixed",
        about="relevance of a cell: c/(nρ), clipped to 2, its posterior mean, or the last two mixed; or clicks, c/ρ of "
        "each impression",
    )
    unshown_ratio: float = parameter(
        default=1.0, about="unshown candidates per pair of shown ones", least=0, models=("network",)
    )

    selection_coef_: NDArray[np.float64] = learned(about="the coefficients ω of selection")
    selection_intercept_: float = learned(about="its intercept")
    separated_: bool = learned(
        about="linear: whether features predict without error what is shown: then only the penalty bounds ω"
    )

    def _learn(self, evidence: Evidence) -> Fit:
        if self.target == "clicks":
            if self.model.family != "linear":
                raise UsageError("`target='clicks'` is for a linear model; choose another target for a network.")
            if (evidence.clicks.clicks > evidence.clicks.impressions).any():
                raise DataError("`target='clicks'` needs at most one click per impression; count first clicks.")
            if evidence.clicks.event_weights:
                raise UsageError(
                    "`target='clicks'` learns from impressions that were clicked or not, without weights of events; "
                    "choose another target."
                )
        observed = observe(evidence.data, evidence.clicks, evidence.propensities, self.target)
        settings = {"gamma": float(self.gamma), "unshown_ratio": float(self.unshown_ratio)}
        return self.model.fit_points(observed, self._context(evidence.data), **settings)
