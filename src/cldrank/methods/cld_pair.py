"""CLD-pair: causal likelihood decomposition by pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.methods.evidence import Evidence
from cldrank.methods.method import CorrectedMethod
from cldrank.methods.observing import observe
from cldrank.methods.relevance import Estimate, target_choice
from cldrank.models import MLP, Model
from cldrank.models.fit import Fit
from cldrank.parameters import described, learned, parameter


@described
class CLDPair(CorrectedMethod):
    """A model of relevance and a linear model of selection, trained together on pairs (SIGIR-AP 2023).

        Δ = f(x_i) - f(x_j);  both shown, r̄_i > r̄_j, with weight (r̄_i - r̄_j) n:
            log σ(Δ) + C [log σ(ω·x_i + Δ) + log σ(ω·x_j + Δ)]
        i shown, j not, drawn anew in each epoch:
            C [log σ(ω·x_i + Δ) + log σ(-ω·x_j)]

    Candidates are ranked by f alone: an `MLP`, `Linear` (CLD-pair-L), which is fitted to its unique
    optimum over all pairs, or `Trees`, for which ω = 0 and all pairs count. r̄ is the relevance of a cell as `target`
    estimates it; in the paper, c / (n ρ).

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[3, 1], [2, 0], [1, 2], [0, 0]] * 2, [7] * 4 + [8] * 4)
    >>> clicks = cr.ClickTable.from_arrays(
    ...     data, position=[1, 2, 0, 0] * 2, impressions=[9, 9, 0, 0] * 2, clicks=[4, 1, 0, 0, 5, 1, 0, 0]
    ... )
    >>> method = cr.CLDPair(model=cr.MLP(epochs=50)).fit(data, clicks, cr.Propensities.power(1, k=2))
    >>> scores = method.predict(data)
    >>> method.status_, bool(scores[0] > scores[1] > scores[3])
    ('completed', True)
    """

    name = "cld-pair"
    label = "CLD-pair"
    sentence = "corrects both biases with pairs of results, shown and not shown"
    order = 41
    corrects = ("position", "selection")
    way = "fit_pairs"

    model: Model = parameter(default=MLP(), about="what is fitted", option=False)
    selection_weight: float = parameter(
        default=0.05, about="C, the weight of selection; the paper has 1", least=0, tried="0.02:1.0:log"
    )
    unshown_ratio: float = parameter(
        default=1.0, about="pairs with an unshown candidate for each pair of two shown ones", least=0
    )
    target: Estimate = target_choice()

    selection_coef_: NDArray[np.float64] = learned(about="the coefficients ω of selection; not of trees")
    selection_intercept_: float = learned(about="its intercept; not of trees")

    def _learn(self, evidence: Evidence) -> Fit:
        observed = observe(evidence.data, evidence.clicks, evidence.propensities, self.target)
        settings = {"share": float(self.selection_weight), "unshown_ratio": float(self.unshown_ratio)}
        return self.model.fit_pairs(observed, self._context(evidence.data), **settings)
