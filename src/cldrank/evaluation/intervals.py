"""Measures of orders from estimated relevance, with intervals for all sources of uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import LoggedClicks, RankOrder
from cldrank.evaluation.off_policy import off_policy_relevance
from cldrank.evaluation.relevance_model import FOLDS, RelevanceModel, fit_model
from cldrank.measures import Interval
from cldrank.propensity import AffineClicks
from cldrank.propensity.segment_propensities import drawn_curves

Floats = NDArray[np.float64]
_CURVES = 200  # drawn from the distribution of an estimated curve


@dataclass(frozen=True)
class Errors:
    """Where the uncertainty of an estimate comes from, as standard errors in the units of the measure.

    queries        which queries were searched, and what was clicked
    propensities   the curve, estimated from finite data; 0 where it is assumed
    model          the fit that predicts the relevance of never-shown results
    extrapolation  that never-shown results differ from shown ones with the same features
    """

    queries: float
    propensities: float = 0.0
    model: float = 0.0
    extrapolation: float = 0.0


@dataclass(frozen=True)
class ClickEstimate:
    """One measure of one ranker, or the difference of two.

    interval          with never-shown results as relevant as the model predicts; without a model, between both bounds
    lowest, highest   with never-shown results chosen to be as bad, or as good, for it as they can be
    """

    interval: Interval
    lowest: Interval
    highest: Interval
    errors: Errors

    def __format__(self, spec: str) -> str:
        return format(self.interval, spec)

    @property
    def rests_on_never_shown(self) -> bool:
        """Whether it depends on what results that were never shown are worth."""
        return self.lowest.estimate != self.highest.estimate

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "estimate": self.interval.estimate,
            "low": self.interval.low,
            "high": self.interval.high,
            "confidence": self.interval.confidence,
            "lowest": self.lowest.low,
            "highest": self.highest.high,
            "errors": asdict(self.errors),
        }


@dataclass(frozen=True)
class MeasuredPair:
    """A measure of both rankers, and their difference, new minus old."""

    measure: str
    new: ClickEstimate
    old: ClickEstimate
    difference: ClickEstimate

    @property
    def interval(self) -> Interval:
        """That of the difference, as a comparison by labels has it."""
        return self.difference.interval

    @property
    def bounds(self) -> Interval:
        """The difference, whatever never-shown results are worth: from the worst case for new to the best."""
        return replace(self.interval, low=self.difference.lowest.low, high=self.difference.highest.high)

    def as_dict(self) -> dict[str, Any]:
        """As plain values; `low` and `high` are those of the difference."""
        values = self.difference.as_dict()
        return {
            "new": self.new.interval.estimate,
            "old": self.old.interval.estimate,
            "difference": values.pop("estimate"),
            **values,
            "new_interval": [self.new.interval.low, self.new.interval.high],
            "old_interval": [self.old.interval.low, self.old.interval.high],
        }


@dataclass(frozen=True, eq=False)
class Valued:
    """A number, and how far each query moves it: by how much it would be lower without that query.

    error² = (n - 1) / n Σ_q influence_q²     over the n queries that were searched: the jackknife
    """

    value: float
    influence: Floats

    @classmethod
    def ratio(cls, above: Floats, below: Floats) -> Valued:
        """Σ above / Σ below over queries; 0 where both are.

        >>> Valued.ratio(np.array([3.0, 1.0]), np.array([1.0, 1.0]))
        Valued(value=2.0, influence=array([ 1., -1.]))
        """
        whole = float(below.sum())
        if whole == 0:
            return cls(0.0, np.zeros(len(above)))
        value = float(above.sum()) / whole
        others = whole - below
        return cls(value, np.divide(above - value * below, others, out=np.zeros(len(above)), where=others != 0))

    def __add__(self, other: Valued) -> Valued:
        return Valued(self.value + other.value, self.influence + other.influence)

    def __sub__(self, other: Valued) -> Valued:
        return Valued(self.value - other.value, self.influence - other.influence)

    def error(self, queries: int) -> float:
        """The standard error, clustered by query."""
        return float(np.sqrt((queries - 1) / queries * (self.influence**2).sum()))


_Measuring = Callable[[LoggedClicks, Floats], Valued]  # from a log and relevance


@dataclass(frozen=True, eq=False)
class ClickEstimator:
    """Estimates measures of orders from a log.

    log          the clicks
    model        what features say about relevance; None where there is no model
    confidence   of intervals
    seed         of draws
    """

    log: LoggedClicks
    model: RelevanceModel | None = None
    confidence: float = 0.9
    seed: int = 0

    @cached_property
    def n_queries(self) -> int:
        """The queries that were searched."""
        return int((self.log.pages > 0).sum())

    @cached_property
    def quantile(self) -> float:
        """How many standard errors an interval reaches to either side."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.n_queries - 1, 1), (1 + self.confidence) / 2))

    @cached_property
    def relevance(self) -> Floats:
        """(rows,) the relevance of each candidate."""
        return self._relevance(self.log)

    @cached_property
    def never_shown(self) -> NDArray[np.bool_]:
        """(rows,) which candidates of searched queries were never shown."""
        return ~self.log.seen & (self.log.row_pages > 0)

    # -- values --------------------------------------------------------------------------------------------------

    def value(
        self, measure: ClickMeasure, new: RankOrder, old: RankOrder | None = None, relevance: Floats | None = None
    ) -> Valued:
        """A measure of an order, or new minus old; `relevance` of all candidates replaces the estimated relevance."""
        return self._value(self.log, measure, new, old, self.relevance if relevance is None else relevance)

    def weights(self, measure: ClickMeasure, new: RankOrder, old: RankOrder | None = None) -> Floats:
        """(rows,) what the relevance of each candidate counts in it."""
        weights = self._weights(self.log, measure, new)
        return weights if old is None else weights - self._weights(self.log, measure, old)

    def _relevance(self, log: LoggedClicks) -> Floats:
        return off_policy_relevance(log, None if self.model is None else self.model.predicted)

    def _weights(self, log: LoggedClicks, measure: ClickMeasure, order: RankOrder) -> Floats:
        weights: Floats = log.row_pages / log.pages.sum() * order.on_pages(by_segment(measure.discounts, log), log)
        return weights

    def _value(
        self, log: LoggedClicks, measure: ClickMeasure, new: RankOrder, old: RankOrder | None, relevance: Floats
    ) -> Valued:
        if old is not None:
            ours, theirs = (self._value(log, measure, order, None, relevance) for order in (new, old))
            return ours - theirs
        pages = log.pages / log.pages.sum()
        value = Valued.ratio(log.by_query(self._weights(log, measure, new) * relevance), pages)
        if measure.kind == "Clicks" and log.affine.base.any():
            bases = new.on_pages(by_segment(measure.bases, log), log)
            bases = log.clicks.click_value * log.row_pages / log.pages.sum() * bases
            value = value + Valued.ratio(log.by_query(bases), pages)
        return value

    # -- the model -----------------------------------------------------------------------------------------------

    def learned(self, folds: int = FOLDS) -> ClickEstimator:
        """The same with a model of relevance, checked on results that were hidden from it."""
        return replace(self, model=fit_model(self.log, folds=folds, seed=self.seed))

    # -- estimates -----------------------------------------------------------------------------------------------

    def interval(self, value: float, error: float) -> Interval:
        """The interval of a value with a standard error."""
        half = self.quantile * error
        return Interval(value, value - half, value + half, self.confidence, self.n_queries)

    def estimate(self, measure: ClickMeasure, new: RankOrder, old: RankOrder | None = None) -> ClickEstimate:
        """A measure of an order, or new minus old, with its interval and bounds."""

        def value(log: LoggedClicks, relevance: Floats) -> Valued:
            return self._value(log, measure, new, old, relevance)

        weights = self.weights(measure, new, old)
        estimate, never_shown = value(self.log, self.relevance), self.never_shown & (weights != 0)
        drawn = self._drawn_values(measure, new, old)
        curve = float(np.hypot(np.std(drawn, ddof=1) if len(drawn) else 0.0, self.doubt_error(weights)))
        sampled = estimate.error(self.n_queries)
        fit = self._fit_error(lambda relevance: value(self.log, relevance))
        most = self.log.clicks.most_value
        worst, best = (
            self._bound(value, np.where(never_shown, np.where(weights > 0, good, most - good), np.nan), curve)
            for good in (0.0, most)
        )
        off = self.extrapolation_error(weights)
        whole = self.interval(estimate.value, float(np.linalg.norm([sampled, curve, fit, off])))
        if self.model is not None:
            whole = replace(whole, low=max(whole.low, worst.low), high=min(whole.high, best.high))
        elif never_shown.any():
            whole = replace(whole, low=worst.low, high=best.high)
        return ClickEstimate(whole, worst, best, Errors(sampled, curve, fit, off))

    def _bound(self, value: _Measuring, given: Floats, curve: float) -> Interval:
        """The interval with a given relevance of never-shown results, NaN for others; `curve` is that error."""

        def bounded(relevance: Floats) -> Valued:
            return value(self.log, np.where(np.isnan(given), relevance, given))

        bound = bounded(self.relevance)
        errors = bound.error(self.n_queries), curve, self._fit_error(bounded)
        return self.interval(bound.value, float(np.linalg.norm(errors)))

    def _fit_error(self, value: Callable[[Floats], Valued]) -> float:
        """The standard error that the fit of the model brings to what is computed from relevance."""
        if self.model is None:
            return 0.0
        relevances = (off_policy_relevance(self.log, predicted) for predicted in self.model.groups)
        return float(np.sqrt(self.model.variance(np.array([value(relevance).value for relevance in relevances]))))

    def deviations(self, measure: ClickMeasure, new: RankOrder, old: RankOrder | None = None) -> Floats:
        """How far each query, drawn curve and fit moves a measure, or a difference: squares add up to their variance.

        Products with those of another measure add up to the covariance. The errors of extrapolation and of doubt come
        on top.
        """
        n, model = self.n_queries, self.model
        queries = np.sqrt((n - 1) / n) * self.value(measure, new, old).influence
        drawn = self._drawn_values(measure, new, old)
        curves = (drawn - drawn.mean()) / np.sqrt(len(drawn) - 1) if len(drawn) else drawn
        fits = np.zeros(0)
        if model is not None:
            relevances = (off_policy_relevance(self.log, predicted) for predicted in model.groups)
            fits = np.array([self.value(measure, new, old, relevance).value for relevance in relevances])
            fits = fits - fits.mean()
        return np.concatenate([queries, curves, fits])

    def extrapolation_error(self, weights: Floats) -> float:
        """How far the model's relevance of never-shown results may be off in a sum with some weights."""
        if self.model is None:
            return 0.0
        return self.model.off(np.where(self.never_shown, weights, 0.0))

    def doubt_error(self, weights: Floats) -> float:
        """How far a sum with some weights may be off, since a click changes what people examine below it."""
        return float(np.abs(weights * self.relevance) @ self.log.doubt)

    def _drawn_values(self, measure: ClickMeasure, new: RankOrder, old: RankOrder | None) -> Floats:
        """(draws,) a measure under each drawn curve; what ranks count in DCG does not depend on curves."""
        if measure.kind == "DCG":
            weights = self.weights(measure, new, old)
            return np.array([float(relevance @ weights) for _, relevance in self._drawn])
        return np.array([self._value(log, measure, new, old, relevance).value for log, relevance in self._drawn])

    @cached_property
    def _drawn(self) -> Sequence[tuple[LoggedClicks, Floats]]:
        """The log and the relevance under curves drawn from the distribution of an estimated curve."""
        logs = [self.log.with_curve(curve) for curve in drawn_curves(self.log.curve, _CURVES, self.seed)]
        if self.log.after is not None:
            logs = logs or [self.log] * _CURVES
            pairs = zip(logs, self.log.after.drawn(_CURVES, self.seed), strict=True)
            logs = [self.log.with_curve(log.curve, drawn) for log, drawn in pairs]
        # relevance is computed on a log of its own: the log that is kept lacks the arrays that only relevance needs
        return [(self.log.with_curve(log.curve, log.after), self._relevance(log)) for log in logs]


def by_segment(values: Callable[[int, AffineClicks], Floats], log: LoggedClicks) -> Floats:
    """(longest,) what ranks count by the curve of a log; of several curves, a row for each segment."""
    rows = [values(log.longest, curve) for curve in log.curves]
    return rows[0] if all(np.array_equal(row, rows[0]) for row in rows) else np.stack(rows)
