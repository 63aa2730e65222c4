"""`ModelledRelevance`: estimators that model relevance by features, for logs in which nothing changes places."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import draw_weights
from cldrank.data.dataset import RankingDataset
from cldrank.data.query_hash import hashes_of
from cldrank.errors import CldrankWarning, Spelling, UnidentifiableError, warn
from cldrank.parameters import parameter, value
from cldrank.propensity.checks.attraction import compared_by_attraction
from cldrank.propensity.checks.confounding import DETERMINED, confounding, explained_order
from cldrank.propensity.checks.goodness import goodness_of_fit
from cldrank.propensity.checks.refusal import counts_every_click
from cldrank.propensity.counts import Cells, PairSums
from cldrank.propensity.estimator import CurveEstimator
from cldrank.propensity.modelled.training import RelevanceModel, ShownCandidates
from cldrank.propensity.propensities import Propensities
from cldrank.wording import positions

if TYPE_CHECKING:
    from cldrank.rankers import Ranker

Floats = NDArray[np.float64]
_FILLED = Spelling("missing=0.0", "`cldrank data convert FILE --missing 0 --out NEW.parquet`")


@dataclass(frozen=True, eq=False)
class ModelledCurve:
    """An estimate: log ρ, the same resampled, and what scores the candidates.

    draws         (replicates, k) log ρ
    sensitivity   to the penalty; None where it was not looked for
    """

    logs: Floats
    draws: Floats
    ranker: Ranker
    sensitivity: float | None = None


@value
class ModelledRelevance(CurveEstimator, RelevanceModel):
    """Estimators that need the features of the candidates: `fit(clicks, dataset)`.

    The result has `ranker`, which scores by the model of relevance.
    """

    warn: bool = parameter(
        default=True, about="Whether a doubtful result warns; its notes say so in any case", option=False
    )

    needs = "features"
    caution = (
        "relevance is modelled, not held fixed: what the features do not know of it counts as position wherever the "
        "order follows relevance"
    )

    def quiet(self) -> Self:
        """The same without the warning of a doubtful result."""
        return replace(self, warn=False)

    def _fit(self, clicks: ClickTable, dataset: RankingDataset | None) -> Propensities:
        shown, explained = self._prepared(clicks, dataset)
        return self._result(shown, self._estimate(shown), explained)

    def _check(self, clicks: ClickTable, dataset: RankingDataset | None) -> None:
        self._prepared(clicks, dataset)

    @abstractmethod
    def _estimate(self, shown: ShownCandidates) -> ModelledCurve:
        """The estimate."""

    # -- what the log must have ----------------------------------------------------------------------------------

    def _prepared(self, clicks: ClickTable, dataset: RankingDataset | None) -> tuple[ShownCandidates, float]:
        """The shown candidates, and how much of their order features explain; a refusal where that is all of it."""
        cells = self._cells(clicks)
        if (cells.clicks > cells.impressions).any():
            raise counts_every_click(self.spelling)
        if dataset is None:
            raise AssertionError("`fit` and `check` refuse to go on without features")
        clicks.check_same(dataset)
        dataset.check_complete(self.spelling, filled=_FILLED)
        self._refuse_silent(np.flatnonzero(cells.rates() == 0), cells, "nothing was clicked there")
        shown = ShownCandidates.of(dataset, cells, scalings.fit(self.model.scaling, dataset.features))
        explained = explained_order(shown.features, cells, shown.row)
        if explained > DETERMINED:
            raise UnidentifiableError(
                "{} cannot separate relevance from position: the features explain {:.1%} of a contrast of positions, "
                "so any curve along it can be had from them as well. What is needed: pages in another order (a second "
                "ranker, or neighbours that change places on a share of pages), or features without the position and "
                "without the score of the ranker.",
                self.spelling,
                explained,
                positions=tuple(range(1, cells.size + 1)),
            )
        return shown, explained

    # -- what the result says ------------------------------------------------------------------------------------

    def _result(self, shown: ShownCandidates, found: ModelledCurve, explained: float) -> Propensities:
        cells, values = shown.cells, np.exp(found.logs)
        few = len(found.draws) < self.replicates
        weights = draw_weights(cells.n_groups, self.replicates, self.seed)
        pairs = PairSums.of(cells, "impressions")
        draws = np.exp(found.draws)
        errors = self._network_errors(found) if few else self._errors(draws, cells)
        low, high = self._interval(found, errors, few)
        check = confounding(values, *_click_through(cells, weights, found), explained, found.sensitivity)
        attraction = compared_by_attraction(cells, values, self.replicates, self.seed)
        notes = (*self._notes(values, errors, cells, attraction), str(check))
        if few:
            count = len(found.draws)
            notes = (*notes, f"the intervals rest on {count} networks, each with its own queries and its own seed")
        if check.doubtful and self.warn:
            warn(CldrankWarning("{}: {}.", self.spelling, str(check)))
        return self._curve(
            cells,
            values,
            (low, high),
            covariance=np.cov(found.draws, rowvar=False),
            comparisons=np.asarray(np.bincount(cells.place, cells.impressions, cells.size), dtype=np.float64),
            goodness=None if few else goodness_of_fit(pairs, values, draws, weights),
            confounding=check,
            notes=notes,
            replicates=None if few else draws,
            ranker=found.ranker,
        )

    def _interval(self, found: ModelledCurve, errors: Floats, few: bool) -> tuple[Floats, Floats]:
        tail = (1 - self.confidence) / 2
        if not few:
            low, high = np.quantile(np.exp(found.draws), [tail, 1 - tail], axis=0)
            return low, high
        from scipy.stats import t

        half = t.ppf(1 - tail, len(found.draws) - 1) * errors
        return np.exp(found.logs - half), np.exp(found.logs + half)

    def _network_errors(self, found: ModelledCurve) -> Floats:
        errors: Floats = found.draws.std(axis=0, ddof=1)
        weak = np.flatnonzero(errors > self.refuse_above)
        if len(weak):
            worst = int(weak[errors[weak].argmax()])
            raise UnidentifiableError(
                "{} cannot estimate {}: networks trained on resampled queries differ by {:.2f} in the log propensity "
                "of position {} (standard deviation). More pages, a simpler model or more epochs may help; else use "
                "{}, which is exact.",
                self.spelling,
                positions((weak + 1).tolist()),
                errors[worst],
                worst + 1,
                Spelling("RegressionEM()", "regression-em"),
                positions=tuple((weak + 1).tolist()),
                depth=int(weak[0]),
            )
        return errors

    # -- what scores the candidates ------------------------------------------------------------------------------

    def _by_networks(self, shown: ShownCandidates) -> ModelledCurve:
        """Train on the log, and on `refits` logs of resampled queries."""
        from cldrank.rankers.from_torch import ranker_of

        logs, draws, network = self._train_all(shown, self.seed)
        return ModelledCurve(logs, draws, ranker_of(network, **self._ranker_parts(shown)))

    def _ranker_parts(self, shown: ShownCandidates) -> dict[str, Any]:
        """What every ranker is made of, whatever scores."""
        from cldrank.rankers import Provenance

        dataset = shown.dataset
        return {
            "feature_names": dataset.feature_names,
            "scaling": shown.scaling,
            "provenance": Provenance.of(type(self).__name__, self.get_params(), dataset),
            "trained_on": np.unique(
                hashes_of(dataset.query_ids[np.unique(dataset.row_queries[shown.cells.candidate])])
            ),
        }


def _click_through(cells: Cells, weights: Floats, found: ModelledCurve) -> tuple[Floats, Floats]:
    """Click-through rates over the first, and the error of log ρ less their log, by replicates where there are any."""
    rates = cells.rates()
    clicks, shown = (cells.by_group(cells.place, part, cells.size) for part in (cells.clicks, cells.impressions))
    with np.errstate(divide="ignore", invalid="ignore"):
        resampled = np.log((weights @ clicks) / (weights @ shown))
        plain = resampled - resampled[:, :1]
    whole = np.isfinite(plain).all(axis=1)
    if len(weights) == len(found.draws):
        return rates / rates[0], (found.draws - plain)[whole].std(axis=0)
    return rates / rates[0], np.hypot(found.draws.std(axis=0, ddof=1), plain[whole].std(axis=0))
