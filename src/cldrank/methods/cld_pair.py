"""CLD-pair: causal likelihood decomposition by pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError
from cldrank.methods.evidence import Evidence
from cldrank.methods.method import CorrectedMethod
from cldrank.methods.observing import observe
from cldrank.methods.relevance import Estimate, target_choice
from cldrank.methods.unshown_weight import weight_of_unshown
from cldrank.models import MLP, Model
from cldrank.models.fit import Fit
from cldrank.models.targets import Unshown
from cldrank.parameters import described, learned, parameter


@described
class CLDPair(CorrectedMethod):
    """Pairs of shown candidates, and of shown candidates with those that production left out.

        maximise  Σ (r̄_i - r̄_j)₊ min(n_i, n_j) log σ(f(x_i) - f(x_j))

    r̄ is the relevance of a candidate as `target` estimates it, n its impressions. One that was not shown counts as
    irrelevant, and the less, the better clicks teach what production does not know: `unshown_weight_` says how much
    (`weight_of_unshown`). The model is an `MLP`, `Trees`, or `Linear`, which is fitted to its unique optimum.

    With `selection_weight`, C, it is the paper's instead (SIGIR-AP 2023): a linear model of selection is trained beside
    f, and what was shown is preferred whatever its clicks; the paper has C = 1 and `target="ips"`.

        Δ = f(x_i) - f(x_j);  both shown, r̄_i > r̄_j, with weight (r̄_i - r̄_j) n:
            log σ(Δ) + C [log σ(ω·x_i + Δ) + log σ(ω·x_j + Δ)]
        i shown, j not, drawn anew in each epoch:
            C [log σ(ω·x_i + Δ) + log σ(-ω·x_j)]

    Of `Trees`, ω is 0, and all pairs count.

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
    selection_weight: float | None = parameter(
        default=None,
        about="C, the weight of a linear model of selection, 1 in the paper; by default unshown candidates count as "
        "irrelevant, as much as the log says",
        least=0,
    )
    unshown_ratio: float = parameter(
        default=1.0,
        about="with `selection_weight`: pairs with an unshown candidate for each pair of two shown ones",
        least=0,
    )
    target: Estimate = target_choice()

    unshown_weight_: float = learned(about="what all unshown candidates of a query weigh, over those shown; not with C")
    selection_coef_: NDArray[np.float64] = learned(about="with C: the coefficients ω of selection; not of trees")
    selection_intercept_: float = learned(about="with C: its intercept; not of trees")

    def check(self) -> None:
        """Refuse also what only one of both forms has a use for."""
        super().check()
        if self.selection_weight is None and self.unshown_ratio != 1:
            raise UsageError("`unshown_ratio` has an effect with `selection_weight` only.")
        form = getattr(self.model, "loss", "pairs")
        if self.selection_weight is not None and form != "pairs":
            raise UsageError(f"`loss={form!r}` is for CLD-pair without `selection_weight`.")

    def _learn(self, evidence: Evidence) -> Fit:
        observed = observe(evidence.data, evidence.clicks, evidence.propensities, self.target)
        context = self._context(evidence.data)
        if self.selection_weight is not None:
            share, ratio = float(self.selection_weight), float(self.unshown_ratio)
            return self.model.fit_pairs(observed, context, unshown=Unshown(share=share, ratio=ratio))
        weight = weight_of_unshown(evidence.data, evidence.clicks, evidence.propensities, seed=int(self.run.seed))
        fit = self.model.fit_pairs(observed, context, unshown=Unshown(weight)).keeping(unshown_weight=weight)
        return replace(fit, diagnostics=fit.diagnostics.replaced(unshown_weight=weight))
