"""How much of an order a log can see, and on how few impressions an estimate rests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import Support
from cldrank.evaluation.estimating import ClickEstimator
from cldrank.evaluation.off_policy import DirectMethod
from cldrank.evaluation.orders import RankOrder

Floats = NDArray[np.float64]
_CLIP = 0.1  # of the pages: the least exposure of the trial with clipping


def look_at_support(clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder | None) -> Support:
    """What share of the top the log has seen, and how evenly its impressions count.

    weight of an impression of i = weight of i in the order / exposure of i
    effective = (Σ n weight)² / Σ n weight²
    """
    log, k = clicks.log, measure.cutoff or clicks.log.clicks.depth
    top = ClickMeasure("DCG", k)
    weights = clicks.weights(top, new)
    each = np.divide(weights, log.exposure, out=np.zeros(len(weights)), where=log.seen)
    shown = log.clicks.row_impressions.astype(np.float64)
    total, squares = float((shown * each).sum()), float((shown * each**2).sum())
    return Support(
        k=k,
        queries=clicks.n_queries,
        pages=int(log.pages.sum()),
        impressions=int(shown.sum()),
        clicks=int(log.clicks.clicks.sum()),
        shown=_shown(clicks, new, k),
        shown_old=None if old is None else _shown(clicks, old, k),
        effective=total**2 / squares if squares else 0.0,
        largest_weight=float(each.max(initial=0.0)) * float(shown[each > 0].sum()) / total if total else 0.0,
        top_percent=_heaviest(each, shown, total),
        clip=_CLIP,
        clipped=_moved(clicks, measure, new, old),
    )


def _shown(clicks: ClickEstimator, order: RankOrder, k: int) -> float:
    """Of the first k results on all pages of an order, the share that was ever shown."""
    log = clicks.log
    first = np.zeros(log.longest)
    first[:k] = 1.0
    places = log.row_pages * order.on_pages(first, log)
    return float(places[log.seen].sum() / max(places.sum(), 1e-300))


def _heaviest(each: Floats, shown: Floats, total: float) -> float:
    """The share of all weight that the heaviest 1% of the impressions that count have."""
    if not total:
        return 0.0
    order = np.argsort(-each)
    counted = np.cumsum(shown[order] * (each[order] > 0))
    within = np.minimum(counted, 0.01 * counted[-1])
    return float((np.diff(within, prepend=0.0) * each[order]).sum() / total)


def _moved(clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder | None) -> float:
    """How far clipping moves the estimate."""
    if isinstance(clicks.estimator, DirectMethod):
        return 0.0
    clipped = replace(clicks, estimator=replace(clicks.estimator, clip=_CLIP))
    values = [one.value(measure, new).value for one in (clipped, clicks)]
    if old is not None:
        values = [value - one.value(measure, old).value for value, one in zip(values, (clipped, clicks), strict=True)]
    return values[0] - values[1]
