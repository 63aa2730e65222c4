"""Measures of orders from estimated relevance, with all that makes them uncertain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import ClickEstimate, Errors
from cldrank.evaluation.ideal import IdealOrder
from cldrank.evaluation.logged import LoggedClicks
from cldrank.evaluation.off_policy import OffPolicy
from cldrank.evaluation.orders import RankOrder, ScoreOrder
from cldrank.evaluation.relevance_learners import RelevanceLearner
from cldrank.evaluation.unseen_model import DEFAULT_LEARNER, FOLDS, UnseenModel, fit_model
from cldrank.measures import Interval
from cldrank.propensity import AffineClicks
from cldrank.propensity.segment_propensities import Curve, drawn_curves

Floats = NDArray[np.float64]
CURVES = 200  # drawn from the distribution of an estimated curve
_ALLOWED = 2 / 3  # of the error on hidden results, for that on unseen ones; what it covers was found in simulations
_FEWEST_HIDDEN = 50  # results in the top of an order by which the model is checked; else all hidden ones are used


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

    def __mul__(self, other: Valued) -> Valued:
        return Valued(self.value * other.value, self.influence * other.value + self.value * other.influence)

    def error(self, queries: int) -> float:
        """The standard error, clustered by query."""
        return float(np.sqrt((queries - 1) / queries * (self.influence**2).sum()))


_Measuring = Callable[[LoggedClicks, Floats, bool], Valued]  # of a log, relevance, and whether to fill in the unseen


@dataclass(frozen=True, eq=False)
class ClickEstimator:
    """Estimates measures of orders from a log.

    log          the clicks
    estimator    what they say about relevance
    model        what features say about it; None where there is no model
    confidence   of intervals
    seed         of draws
    """

    log: LoggedClicks
    estimator: OffPolicy
    model: UnseenModel | None = None
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
        return self._relevance(self.log, None if self.model is None else self.model.predicted)

    @cached_property
    def unseen(self) -> NDArray[np.bool_]:
        """(rows,) which candidates of searched queries were never shown."""
        return ~self.log.seen & (self.log.row_pages > 0)

    # -- values --------------------------------------------------------------------------------------------------

    def value(self, measure: ClickMeasure, order: RankOrder, relevance: Floats | None = None) -> Valued:
        """A measure of an order; with another relevance, if one is given: that of all candidates, unseen ones too."""
        if relevance is None:
            return self._value(self.log, measure, order, self.relevance)
        return self._value(self.log, measure, order, relevance, fill=False)

    def difference(
        self, measure: ClickMeasure, new: RankOrder, old: RankOrder, relevance: Floats | None = None
    ) -> Valued:
        """New minus old."""
        return self.value(measure, new, relevance) - self.value(measure, old, relevance)

    def difference_under(self, curve: Curve, measure: ClickMeasure, new: RankOrder, old: RankOrder) -> float:
        """New minus old under another curve, with the same model of the unseen."""
        log = self.log.with_curve(curve)
        relevance = self._relevance(log, None if self.model is None else self.model.predicted)
        return (self._value(log, measure, new, relevance) - self._value(log, measure, old, relevance)).value

    def weights(self, measure: ClickMeasure, order: RankOrder) -> Floats:
        """(rows,) what the relevance of each candidate counts in the mean over pages; of ARP, in its numerator."""
        return self._weights(self.log, measure, order)

    def _weights(self, log: LoggedClicks, measure: ClickMeasure, order: RankOrder) -> Floats:
        values, share = by_segment(measure.discounts, log), log.row_pages / log.pages.sum()
        if measure.kind == "ARP":
            return np.where(log.seen, share * self._among_seen(order).mean(values), 0.0)
        found: Floats = share * order.on_pages(values, log)
        if measure.kind == "nDCG":
            found *= self._per_ideal(measure, order, found)[log.queries]
        return found

    def _value(
        self, log: LoggedClicks, measure: ClickMeasure, order: RankOrder, relevance: Floats, fill: bool = True
    ) -> Valued:
        """A measure of an order; `fill` lets the estimator fill in the unseen, if it does that by the mean."""
        weights, whole = self._weights(log, measure, order), log.row_pages / log.pages.sum()
        if measure.kind == "ARP":
            return Valued.ratio(
                log.by_query(weights * relevance), log.by_query(np.where(log.seen, whole * relevance, 0.0))
            )
        pages = log.pages / log.pages.sum()
        found = Valued.ratio(log.by_query(weights * relevance), pages)
        if fill and self.estimator.fills_unseen == "mean":
            found = found * Valued.ratio(log.by_query(weights), log.by_query(np.where(log.seen, weights, 0.0)))
        if measure.kind == "Clicks" and log.affine.base.any():
            bases = order.on_pages(by_segment(measure.bases, log), log)
            found = found + Valued.ratio(log.by_query(whole * bases), pages)
        return found

    def _per_ideal(self, measure: ClickMeasure, order: RankOrder, weights: Floats) -> Floats:
        """(queries,) what the DCG of an order is multiplied by: one over the expected ideal, corrected for that."""
        cutoff = measure.cutoff or self.log.longest
        if cutoff not in self._ideals:
            predicted = None if self.model is None else self.model.predicted
            self._ideals[cutoff] = IdealOrder(self.log, predicted, cutoff, self.seed)
        ideal = self._ideals[cutoff]
        if (cutoff, order) not in self._corrections:
            self._corrections[cutoff, order] = ideal.correction(weights)
        factor: Floats = self._corrections[cutoff, order] / ideal.expected
        return factor

    def _among_seen(self, order: RankOrder) -> RankOrder:
        """The order of what was shown, which is the same under every curve."""
        if order not in self._seen_orders:
            self._seen_orders[order] = order.among_seen(self.log)
        return self._seen_orders[order]

    @cached_property
    def _seen_orders(self) -> dict[RankOrder, RankOrder]:
        return {}

    @cached_property
    def _ideals(self) -> dict[int, IdealOrder]:
        return {}

    @cached_property
    def _corrections(self) -> dict[tuple[int, RankOrder], float]:
        return {}

    # -- estimates -----------------------------------------------------------------------------------------------

    def estimate(self, measure: ClickMeasure, order: RankOrder) -> ClickEstimate:
        """A measure of one order with its interval."""
        return self._estimated(
            lambda log, relevance, fill: self._value(log, measure, order, relevance, fill),
            self.weights(measure, order),
        )

    def compare(self, measure: ClickMeasure, new: RankOrder, old: RankOrder) -> ClickEstimate:
        """New minus old with its interval."""
        return self._estimated(
            lambda log, relevance, fill: (
                self._value(log, measure, new, relevance, fill) - self._value(log, measure, old, relevance, fill)
            ),
            self.weights(measure, new) - self.weights(measure, old),
        )

    def learned(
        self, *orders: RankOrder, learner: RelevanceLearner = DEFAULT_LEARNER, folds: int = FOLDS
    ) -> ClickEstimator:
        """The same with a model of relevance for judging some orders, held against results that were hidden from it."""
        ranked = [one for one in orders if isinstance(one, ScoreOrder)]
        model = fit_model(self.log, learner, orders=ranked, folds=folds, seed=self.seed)
        check = replace(self, model=model).hidden_check(*orders)
        if check is not None:
            off, error = check[1].value - check[0], check[1].error(self.n_queries)
            model = replace(model, allowance=_ALLOWED * float(np.hypot(off, error)))
        return replace(self, model=model)

    def hidden_check(self, *orders: RankOrder) -> tuple[float, Valued] | None:
        """Mean relevance of results at the lowest positions: as predicted, and as clicked; by weight in the orders.

        They were hidden from the model that predicts them. None where there are none, or nothing was hidden.
        """
        model, log = self.model, self.log
        if model is None or model.hidden is None:
            return None
        discounts = ClickMeasure("DCG", log.clicks.depth)
        others = [one for one in orders if isinstance(one, ScoreOrder)]  # the log's own has no unseen results
        total = sum((self._weights(log, discounts, one) for one in others), np.zeros(log.data.n_rows))
        weights = np.where(model.lowest, total, 0.0)
        if np.count_nonzero(weights) < _FEWEST_HIDDEN:
            weights = np.where(model.lowest, log.row_pages, 0.0)
        if not weights.any():
            return None
        observed = np.divide(log.surplus, log.exposure, out=np.zeros(len(weights)), where=log.seen)
        mean = Valued.ratio(log.by_query(weights * observed), log.by_query(weights))
        return float((weights * model.hidden).sum() / weights.sum()), mean

    def _estimated(self, value: _Measuring, weights: Floats) -> ClickEstimate:
        """The estimate with its interval and bounds; `weights` is what the relevance of each row counts."""
        found, unseen = value(self.log, self.relevance, True), self.unseen & (weights != 0)
        sampled, curve = found.error(self.n_queries), self._curve_error(value)
        fit = self._fit_error(lambda relevance: value(self.log, relevance, True))
        worst, best = (
            self._bound(value, np.where(unseen, np.where(weights > 0, good, 1 - good), np.nan), curve)
            for good in (0.0, 1.0)
        )
        bias = 0.0
        if self.estimator.fills_unseen == "model" and self.model is not None:
            total = float(np.abs(weights[unseen]).sum())
            bias = self.model.allowance * total
        low, high = _around(found.value, self.quantile * float(np.linalg.norm([sampled, curve, fit])))
        if self.estimator.fills_unseen == "model":
            low, high = max(low - bias, worst.low), min(high + bias, best.high)
        elif unseen.any():
            low, high = worst.low, best.high
        whole = Interval(found.value, low, high, self.confidence, self.n_queries)
        return ClickEstimate(whole, worst, best, Errors(sampled, curve, fit, bias))

    def _bound(self, value: _Measuring, unseen: Floats, curve: float) -> Interval:
        """The interval where the relevance of the unseen is given, and NaN for others; `curve` is that error."""

        def bounded(relevance: Floats) -> Valued:
            return value(self.log, np.where(np.isnan(unseen), relevance, unseen), False)

        found = bounded(self.relevance)
        errors = found.error(self.n_queries), curve, self._fit_error(bounded)
        return self.interval(found.value, float(np.linalg.norm(errors)))

    def _fit_error(self, value: Callable[[Floats], Valued]) -> float:
        """The standard error that the fit of the model brings to what is computed from relevance."""
        if self.model is None or not self.estimator.uses_model:
            return 0.0
        found = [value(self._relevance(self.log, predicted)).value for predicted in self.model.groups]
        return float(np.sqrt(self.model.variance(np.array(found))))

    def interval(self, value: float, error: float) -> Interval:
        """The interval of a value with a standard error."""
        low, high = _around(value, self.quantile * error)
        return Interval(value, low, high, self.confidence, self.n_queries)

    def _curve_error(self, value: _Measuring) -> float:
        """The standard error that the curve brings."""
        if not self._drawn:
            return 0.0
        return float(np.std([value(log, relevance, True).value for log, relevance in self._drawn], ddof=1))

    @cached_property
    def _drawn(self) -> Sequence[tuple[LoggedClicks, Floats]]:
        """The log and the relevance under curves drawn from the distribution of an estimated one."""
        curve, predicted = self.log.curve, None if self.model is None else self.model.predicted
        curves = drawn_curves(curve, CURVES, self.seed)
        # one log for its relevance, and one to keep, without the arrays that only relevance needs
        return [(self.log.with_curve(one), self._relevance(self.log.with_curve(one), predicted)) for one in curves]

    def _relevance(self, log: LoggedClicks, predicted: Floats | None) -> Floats:
        return self.estimator.relevance(log, predicted)


def by_segment(values: Callable[[int, AffineClicks], Floats], log: LoggedClicks) -> Floats:
    """(longest,) what ranks count by the curve of a log; of several curves, a row for each segment."""
    found = [values(log.longest, curve) for curve in log.curves]
    return found[0] if all(np.array_equal(one, found[0]) for one in found) else np.stack(found)


def _around(value: float, half: float) -> tuple[float, float]:
    return value - half, value + half
