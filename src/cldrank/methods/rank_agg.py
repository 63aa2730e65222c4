"""RankAgg: combines a ranking corrected for position bias and a ranking corrected for selection bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from cldrank.errors import UsageError
from cldrank.methods.evidence import Evidence
from cldrank.methods.heckman import HeckmanRank
from cldrank.methods.ips import IPS
from cldrank.methods.method import CorrectedMethod
from cldrank.methods.relevance import Estimate, target_choice
from cldrank.models import MLP, Linear, Model, Run
from cldrank.models.fit import Fit
from cldrank.models.model import ScaledModel
from cldrank.parameters import described, learned, parameter
from cldrank.rankers import BordaRanker


@described
class RankAgg(CorrectedMethod):
    """Borda count of the rankings of IPS and Heckman^rank (Ovaisi et al. 2020).

        score = Σ weight * number of the query's candidates ranked below

    The model is that of IPS; Heckman^rank, always linear, shares its penalty and scaling if it has them, and cannot use
    missing values. A score depends on the other candidates of the query.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.], [1.], [2.], [4.], [3.], [6.]], [1, 1, 1, 2, 2, 2])
    >>> clicks = cr.ClickTable.from_arrays(
    ...     data, position=[0, 2, 1, 1, 0, 2], impressions=[0, 9, 9, 9, 0, 9], clicks=[0, 2, 3, 5, 0, 8]
    ... )
    >>> cr.RankAgg(model=cr.Linear()).fit(data, clicks, cr.Propensities.power(0.5, 2)).predict(data)
    array([0., 2., 4., 2., 0., 4.])
    """

    name = "rankagg"
    label = "RankAgg"
    sentence = "joins the rankings of IPS and Heckman^rank by votes"
    order = 30
    corrects = ("position", "selection")
    blends = False  # votes depend on the other candidates of a query

    model: Model = parameter(default=MLP(), about="what is fitted", option=False)
    weights: Sequence[float] = parameter(default=(1.0, 1.0), about="votes of IPS and of Heckman^rank", least=0)
    target: Estimate = target_choice()

    ips_: IPS = learned(about="the fitted IPS")
    heckman_: HeckmanRank = learned(about="the fitted Heckman^rank")

    def fit_evidence(self, evidence: Evidence) -> Self:
        """Learn from evidence that has been checked already."""
        evidence.data.check_complete(f"{self.label}, whose Heckman^rank is linear,")
        return super().fit_evidence(evidence)

    def _learn(self, evidence: Evidence) -> Fit:
        if len(self.weights) != 2 or not any(self.weights):
            raise UsageError("`weights` must be two numbers, for IPS and Heckman^rank, not both 0.")
        shared = self.model.get_params() if isinstance(self.model, ScaledModel) else {}
        linear = Linear(**{name: shared[name] for name in ("l2", "scaling") if name in shared})
        heckman = HeckmanRank(model=linear, run=Run(seed=self.run.seed, block_rows=self.run.block_rows))
        heckman.fit_evidence(Evidence(evidence.data, evidence.clicks))
        ips = IPS(model=self.model, run=self.run, target=self.target, clip=self.clip, envelope=self.envelope)
        ips.fit_evidence(evidence)
        ranker = BordaRanker(
            feature_names=evidence.data.feature_names,
            members=(ips.ranker_, heckman.ranker_),
            weights=tuple(map(float, self.weights)),
            provenance=self._provenance(evidence.data),
        )
        return replace(ips.fit_, ranker=ranker).keeping(ips=ips, heckman=heckman)

    def summary(self) -> str:
        """The summaries of both fits."""
        self._check_fitted()
        return f"{self.ips_.summary()}\n\n{self.heckman_.summary()}"
