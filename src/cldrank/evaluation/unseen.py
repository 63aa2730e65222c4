"""The unseen: results that an order lifts into its top and nobody ever saw."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import Unseen
from cldrank.evaluation.estimating import ClickEstimator, Valued
from cldrank.evaluation.orders import RankOrder
from cldrank.measures import Interval

Floats = NDArray[np.float64]


def look_at_unseen(
    clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder | None, reason: str = ""
) -> Unseen:
    """Count the unseen, and find the relevance of theirs at which two orders are level.

        difference = known + level Σ_i weight_i    over the unseen i that the new order lifts; break-even at 0

    For nDCG it is that of DCG. ARP has none, since the unseen do not count in it.

    reason   why there is no model, if there is none
    """
    log, k = clicks.log, measure.cutoff or clicks.log.clicks.depth
    by = measure if measure.kind in ("DCG", "Clicks") else ClickMeasure("DCG", k)
    gained = clicks.weights(by, new) - (0.0 if old is None else clicks.weights(by, old))
    weights = np.where(clicks.unseen, np.maximum(gained, 0.0), 0.0)
    lifted = weights > 0
    counts = bool(lifted.any()) and measure.kind != "ARP"  # which leaves them out
    pages = log.pages.sum()
    check = clicks.hidden_check(*([new] if old is None else [new, old]))
    return Unseen(
        results=int(lifted.sum()),
        per_page=float(log.row_pages[lifted].sum() / pages),
        break_even=None if old is None or not counts else _break_even(clicks, by, new, old, weights),
        model=None if clicks.model is None or not weights.any() else _predicted(clicks, weights),
        hidden_predicted=None if check is None else check[0],
        hidden_observed=None if check is None else clicks.interval(check[1].value, check[1].error(clicks.n_queries)),
        hidden_positions=0 if clicks.model is None else clicks.model.n_hidden,
        without_model=reason,
    )


def _break_even(
    clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder, weights: Floats
) -> Interval:
    known = clicks.difference(measure, new, old, np.where(weights > 0, 0.0, clicks.relevance))
    total = float(weights.sum())
    return clicks.interval(-known.value / total, known.error(clicks.n_queries) / total)


def _predicted(clicks: ClickEstimator, weights: Floats) -> Interval:
    """The mean relevance that the model predicts, by weight."""
    model = clicks.model
    if model is None:
        raise AssertionError("without a model nothing is predicted")
    log = clicks.log
    mean = Valued.ratio(log.by_query(weights * model.predicted), log.by_query(weights))
    fit = np.sqrt(model.variance(model.groups @ weights / weights.sum()))
    half = clicks.quantile * float(np.hypot(mean.error(clicks.n_queries), fit)) + model.allowance
    low, high = max(mean.value - half, 0.0), min(mean.value + half, 1.0)
    return Interval(mean.value, low, high, clicks.confidence, clicks.n_queries)
