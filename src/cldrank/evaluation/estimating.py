"""Measures of orders from estimated relevance, with all that makes them uncertain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import ClickEstimate, Errors
from cldrank.evaluation.ideal import IdealOrder
from cldrank.evaluation.logged import Curve, LoggedClicks
from cldrank.evaluation.off_policy import OffPolicy
from cldrank.evaluation.orders import Order
from cldrank.evaluation.relevance_model import RelevanceModel
from cldrank.measures import Interval
from cldrank.propensity import AffineClicks, Propensities

Floats = NDArray[np.float64]
CURVES = 200  # drawn from the distribution of an estimated curve
_FEWEST_HIDDEN = 50  # results in the top of an order by which the model is checked; else all hidden ones are used


@dataclass(frozen=True, eq=False)
class Valued:
    """A number, and how much each query moves it.

    error² = n / (n - 1) Σ_q influence_q²     over the n queries that were searched
    """

    value: float
    influence: Floats

    def __sub__(self, other: Valued) -> Valued:
        return Valued(self.value - other.value, self.influence - other.influence)

    def error(self, queries: int) -> float:
        """The standard error, clustered by query."""
        return float(np.sqrt(queries / max(queries - 1, 1) * (self.influence**2).sum()))


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

    def value(self, measure: ClickMeasure, order: Order, relevance: Floats | None = None) -> Valued:
        """A measure of an order; with another relevance, if one is given."""
        return self._value(self.log, measure, order, self.relevance if relevance is None else relevance)

    def difference(self, measure: ClickMeasure, new: Order, old: Order, relevance: Floats | None = None) -> Valued:
        """New minus old."""
        return self.value(measure, new, relevance) - self.value(measure, old, relevance)

    def weights(self, measure: ClickMeasure, order: Order) -> Floats:
        """(rows,) what the relevance of each candidate counts in the mean over pages; of ARP, in its numerator."""
        return self._weights(self.log, measure, order)

    def _weights(self, log: LoggedClicks, measure: ClickMeasure, order: Order) -> Floats:
        if measure.kind == "ARP":
            order = order.among_seen(log)
        found: Floats = log.row_pages / log.pages.sum() * order.mean(measure.discounts(log.longest, log.affine))
        if measure.kind == "ARP":
            return np.where(log.seen, found, 0.0)
        if measure.kind == "nDCG":
            found *= self._per_ideal(measure, order, found)[log.queries]
        return found

    def _value(self, log: LoggedClicks, measure: ClickMeasure, order: Order, relevance: Floats) -> Valued:
        weights, pages = self._weights(log, measure, order), log.pages / log.pages.sum()
        if measure.kind == "ARP":
            whole = np.where(log.seen, log.row_pages / log.pages.sum(), 0.0)
            return _ratio(log.by_query(weights * relevance), log.by_query(whole * relevance))
        sums = log.by_query(weights * relevance)
        if measure.kind == "Clicks" and log.affine.base.any():
            bases = order.mean(measure.bases(log.longest, log.affine))
            sums = sums + log.by_query(log.row_pages / log.pages.sum() * bases)
        found = _ratio(sums, pages)
        if self.estimator.fills_unseen != "mean":
            return found
        rest = _ratio(log.by_query(weights), log.by_query(np.where(log.seen, weights, 0.0)))
        return Valued(found.value * rest.value, found.influence * rest.value + found.value * rest.influence)

    def _per_ideal(self, measure: ClickMeasure, order: Order, weights: Floats) -> Floats:
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

    @cached_property
    def _ideals(self) -> dict[int, IdealOrder]:
        return {}

    @cached_property
    def _corrections(self) -> dict[tuple[int, Order], float]:
        return {}

    # -- estimates -----------------------------------------------------------------------------------------------

    def estimate(self, measure: ClickMeasure, order: Order) -> ClickEstimate:
        """A measure of one order with its interval."""
        return self._estimated(
            lambda log, relevance: self._value(log, measure, order, relevance),
            self.weights(measure, order),
            self.extrapolation(order),
        )

    def compare(self, measure: ClickMeasure, new: Order, old: Order) -> ClickEstimate:
        """New minus old with its interval."""
        return self._estimated(
            lambda log, relevance: (
                self._value(log, measure, new, relevance) - self._value(log, measure, old, relevance)
            ),
            self.weights(measure, new) - self.weights(measure, old),
            self.extrapolation(new),
        )

    def extrapolation(self, order: Order) -> float:
        """How far the model is off in the mean relevance of hidden results, by weight in an order; 1 if unknown."""
        check = self.hidden_check(order)
        if check is None:
            return 1.0
        predicted, observed = check
        return abs(predicted - observed.value)

    def hidden_check(self, order: Order) -> tuple[float, Valued] | None:
        """Mean relevance of results at the hidden positions: as predicted, and as clicked; by weight in the order.

        Only results that were not shown further up count. None where there are none, or nothing was hidden.
        """
        model, log = self.model, self.log
        if model is None or model.hidden is None:
            return None
        above = log.clicks.position <= log.clicks.depth - model.n_hidden
        only_below = log.seen & (log.by_row(above) == 0)
        discounts = ClickMeasure("DCG", log.clicks.depth)
        weights = np.where(only_below, self._weights(log, discounts, order), 0.0)
        if np.count_nonzero(weights) < _FEWEST_HIDDEN:
            weights = np.where(only_below, log.row_pages, 0.0)
        if not weights.any():
            return None
        observed = np.divide(log.surplus, log.exposure, out=np.zeros(len(weights)), where=log.seen)
        mean = _ratio(log.by_query(weights * observed), log.by_query(weights))
        return float((weights * model.hidden).sum() / weights.sum()), mean

    def _estimated(
        self,
        value: Callable[[LoggedClicks, Floats], Valued],
        weights: Floats,
        extrapolation: float,
    ) -> ClickEstimate:
        """The estimate with its interval and bounds; `weights` is what the relevance of each row counts."""
        found, unseen = value(self.log, self.relevance), self.unseen & (weights != 0)
        sampled, curve = found.error(self.n_queries), self._curve_error(value)
        spread = float(np.hypot(sampled, curve))
        ends: list[Interval] = []
        for good in (0.0, 1.0):  # as bad as can be, then as good
            chosen = np.where(weights > 0, good, 1 - good)
            at = value(self.log, np.where(unseen, chosen, self.relevance))
            error = float(np.hypot(at.error(self.n_queries), curve))
            ends.append(self.interval(at.value, error))
        if self.estimator.fills_unseen != "model" or self.model is None:
            low, high = (ends[0].low, ends[1].high) if unseen.any() else _around(found.value, self.quantile * spread)
            whole = Interval(found.value, low, high, self.confidence, self.n_queries)
            return ClickEstimate(whole, ends[0], ends[1], Errors(sampled, curve))
        groups = np.array([value(self.log, self._relevance(self.log, one)).value for one in self.model.groups])
        fit = float(np.sqrt(self.model.variance(groups)))
        shifted = np.clip(self.relevance + np.sign(weights) * extrapolation, 0, 1)
        bias = abs(value(self.log, np.where(unseen, shifted, self.relevance)).value - found.value)
        half = self.quantile * float(np.hypot(spread, fit)) + bias
        low, high = max(found.value - half, ends[0].low), min(found.value + half, ends[1].high)
        whole = Interval(found.value, low, high, self.confidence, self.n_queries)
        return ClickEstimate(whole, ends[0], ends[1], Errors(sampled, curve, fit, bias))

    def interval(self, value: float, error: float) -> Interval:
        """The interval of a value with a standard error."""
        low, high = _around(value, self.quantile * error)
        return Interval(value, low, high, self.confidence, self.n_queries)

    def _curve_error(self, value: Callable[[LoggedClicks, Floats], Valued]) -> float:
        """The standard error that the curve brings."""
        if not self._drawn:
            return 0.0
        return float(np.std([value(log, relevance).value for log, relevance in self._drawn], ddof=1))

    @cached_property
    def _drawn(self) -> Sequence[tuple[LoggedClicks, Floats]]:
        """The log and the relevance under curves drawn from the distribution of an estimated one."""
        curve, predicted = self.log.curve, None if self.model is None else self.model.predicted
        if not curve.uncertain:
            return ()
        curves: list[Curve]
        if isinstance(curve, AffineClicks):
            slopes, bases = curve.draws(CURVES, self.seed)
            curves = [AffineClicks(slope, base) for slope, base in zip(slopes, bases, strict=True)]
        else:
            curves = [Propensities(one, method="drawn") for one in curve.draws(CURVES, self.seed)]
        logs = [self.log.with_curve(one) for one in curves]
        return [(log, self._relevance(log, predicted)) for log in logs]

    def _relevance(self, log: LoggedClicks, predicted: Floats | None) -> Floats:
        return self.estimator.relevance(log, predicted)


def _ratio(above: Floats, below: Floats) -> Valued:
    """Σ above / Σ below over queries; 0 where both are."""
    whole = float(below.sum())
    if whole == 0:
        return Valued(0.0, np.zeros(len(above)))
    value = float(above.sum()) / whole
    return Valued(value, (above - value * below) / whole)


def _around(value: float, half: float) -> tuple[float, float]:
    return value - half, value + half
