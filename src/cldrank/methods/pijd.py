"""PIJD: corrects clicks for selection and position at once, from where candidates were shown, without propensities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.methods.evidence import Evidence
from cldrank.methods.heckman import TwoStageMethod
from cldrank.methods.observing import observe
from cldrank.models.fit import Fit
from cldrank.parameters import described, learned


@described
class PIJD(TwoStageMethod):
    """Propensity-independent joint debiasing, linear: an ordered probit of the position, then a regression of clicks.

        1.  position k if t_k < ω·x + ε ≤ t_{k-1}, not shown below t_K: over all candidates of the queries displayed
        2.  c/n = intercept + β·x + κ E[ε | x, k] + noise, over the cells

    Ranks by β·x. The correction E[ε | x, k], the inverse Mills ratio of an interval, accounts for what put a candidate
    at k beyond its features. With a single position this is HeckmanRank; penalty and weights are as there. It is our
    reading of a method that we know by description only (Ovaisi et al. 2021): see docs/explanation/baselines.md.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = cr.ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> method = cr.PIJD().fit(data, clicks)
    >>> method.predict(data).argsort(), len(method.thresholds_)
    (array([0, 1, 2, 4, 3, 5]), 2)
    """

    name = "pijd"
    label = "PIJD"
    sentence = "corrects both biases from where candidates were shown, without propensities"
    order = 31
    corrects = ("position", "selection")

    positions_: IntArray = learned(about="the positions that the log shows, those of `thresholds_`")

    def _learn(self, evidence: Evidence) -> Fit:
        if evidence.clicks.n_segments > 1:
            raise UsageError(
                f"{self.label} models the positions of one layout, and the clicks are of several segments; give "
                "those of a single segment."
            )
        positions, level = np.unique(evidence.clicks.position, return_inverse=True)
        observed = replace(observe(evidence.data, evidence.clicks), level=level + 1)
        return self.model.fit_two_stages(observed, self._context(evidence.data)).keeping(positions=positions)
