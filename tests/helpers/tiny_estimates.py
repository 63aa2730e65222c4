"""Measures of tiny logs in plain loops, and what makes estimators of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tiny_logs import Ranking, Relevance, TinyLog, dcg, expected_clicks

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.exposure import LoggedClicks, RankOrder, order_of
from cldrank.evaluation.relevance_model import HiddenCheck, RelevanceModel
from cldrank.propensity import AffineClicks, Propensities

Floats = np.ndarray[Any, np.dtype[np.float64]]
RHO = Propensities.power(1, 3)
TRUST = AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))
MEASURES = [ClickMeasure("DCG", 3), ClickMeasure("DCG", 2), ClickMeasure("Clicks", 3)]


def parts(curve: Propensities | AffineClicks) -> tuple[list[float], list[float]]:
    affine = curve if isinstance(curve, AffineClicks) else AffineClicks.from_propensities(curve)
    return affine.slope.tolist(), affine.base.tolist()


def plain(
    tiny: TinyLog, measure: ClickMeasure, ranking: Ranking | None, relevance: Relevance, curve: Any = RHO
) -> float:
    """The measure in plain loops over pages."""
    if measure.kind == "Clicks":
        return expected_clicks(tiny, ranking, relevance, *parts(curve), measure.cutoff)
    return dcg(tiny, ranking, relevance, measure.cutoff)


def order(log: LoggedClicks, tiny: TinyLog, ranking: Ranking | None) -> RankOrder:
    return order_of("production" if ranking is None else tiny.scores(ranking), log)


def model_of(predicted: Floats, groups: Floats | None = None, spread: float = 0.0) -> RelevanceModel:
    all_groups = predicted[None] if groups is None else groups
    certain, check = np.zeros(len(predicted)), HiddenCheck(0.5, 0.5, 0.01)
    return RelevanceModel(predicted, spread * predicted, all_groups, certain, check)
