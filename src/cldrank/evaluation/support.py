"""How much of an order a log can see, on how few impressions an estimate rests, and what was never shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import NeverShown, Support
from cldrank.evaluation.exposure import RankOrder
from cldrank.evaluation.intervals import ClickEstimator, Valued
from cldrank.measures import Interval

Floats = NDArray[np.float64]


def look_at_support(clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder | None) -> Support:
    """What share of the top the log has seen, and how evenly its impressions count.

    weight of an impression of i = weight of i in the order / exposure of i
    effective = (Σ n weight)² / Σ n weight²
    """
    log, k = clicks.log, measure.cutoff
    weights = clicks.weights(ClickMeasure("DCG", k), new)
    each = np.divide(weights, log.exposure, out=np.zeros(len(weights)), where=log.seen)
    shown = log.clicks.row_impressions.astype(np.float64)
    total, squares = float((shown * each).sum()), float((shown * each**2).sum())
    return Support(
        k=k,
        queries=clicks.n_queries,
        pages=int(log.pages.sum()),
        impressions=int(shown.sum()),
        clicks=int(log.clicks.clicks.sum()),
        events=log.clicks.events_in_words,
        shown=_shown(clicks, new, k),
        shown_old=None if old is None else _shown(clicks, old, k),
        effective=total**2 / squares if squares else 0.0,
    )


def _shown(clicks: ClickEstimator, order: RankOrder, k: int) -> float:
    """Of the first k results on all pages of an order, the share that was ever shown."""
    log = clicks.log
    first = np.where(np.arange(log.longest) < k, 1.0, 0.0)
    places = log.row_pages * order.on_pages(first, log)
    return float(places[log.seen].sum() / max(places.sum(), 1e-300))


def look_at_never_shown(
    clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder | None, reason: str = ""
) -> NeverShown:
    """Count never-shown results in the new top, and find the relevance of theirs at which two orders are level.

        difference = known + level Σ_i weight_i    over the never-shown i that the new order lifts; break-even at 0

    reason   why there is no model, if there is none
    """
    log = clicks.log
    gained = clicks.weights(measure, new, old)
    weights = np.where(clicks.never_shown, np.maximum(gained, 0.0), 0.0)
    lifted = weights > 0
    check = None if clicks.model is None else clicks.model.hidden
    return NeverShown(
        results=int(lifted.sum()),
        per_page=float(log.row_pages[lifted].sum() / log.pages.sum()),
        break_even=None if old is None or not lifted.any() else _break_even(clicks, measure, new, old, weights),
        model=_predicted(clicks, weights) if lifted.any() else None,
        hidden_predicted=None if check is None else check.predicted,
        hidden_observed=None if check is None else clicks.interval(check.observed, check.error),
        without_model=reason,
        most=log.clicks.most_value,
    )


def _break_even(
    clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder, weights: Floats
) -> Interval:
    known = clicks.value(measure, new, old, np.where(weights > 0, 0.0, clicks.relevance))
    total = float(weights.sum())
    return clicks.interval(-known.value / total, known.error(clicks.n_queries) / total)


def _predicted(clicks: ClickEstimator, weights: Floats) -> Interval | None:
    """The mean relevance that the model predicts, by weight; None without a model."""
    model, log = clicks.model, clicks.log
    if model is None:
        return None
    mean = Valued.ratio(log.by_query(weights * model.predicted), log.by_query(weights))
    fit = np.sqrt(model.variance(model.groups @ weights / weights.sum()))
    off = model.off(weights / weights.sum())
    half = clicks.quantile * float(np.linalg.norm([mean.error(clicks.n_queries), fit, off]))
    low, high = max(mean.value - half, 0.0), min(mean.value + half, log.clicks.most_value)
    return Interval(mean.value, low, high, clicks.confidence, clicks.n_queries)
