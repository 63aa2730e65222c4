"""The first measure under a steeper and a flatter curve, and with clicks permuted within positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import PermutationCheck, SensitivityCheck
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.exposure import LoggedClicks, RankOrder, ScoreOrder
from cldrank.evaluation.intervals import ClickEstimator, Valued
from cldrank.evaluation.off_policy import off_policy_relevance
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.segment_propensities import Curve

Floats = NDArray[np.float64]
_FOLDS = 2  # of models under other curves
_OTHER_CURVES = {"η + 0.5": -0.5, "η − 0.5": 0.5}  # steeper and flatter: times position to this power
_PERMUTATIONS = 20
_MANY = 10**9  # impressions of a position: as many can only be dealt out with replacement, which is hardly different


def check_curves(
    clicks: ClickEstimator, measure: ClickMeasure, new: RankOrder, old: RankOrder, margin: float
) -> tuple[SensitivityCheck, ...]:
    """The difference under other curves, each with a model of relevance of its own."""
    checks = []
    for name, step in _OTHER_CURVES.items():
        other = replace(clicks, log=clicks.log.with_curve(_tilted(clicks.log.curve, step)))
        if clicks.model is not None:
            other = other.learned(folds=_FOLDS)
        gain = other.estimate(measure, new, old).interval
        checks.append(SensitivityCheck(name, gain, decide(gain, margin)))
    return tuple(checks)


def _tilted(curve: Curve, step: float) -> Curve:
    """A curve times position^step, taken as certain; a flatter curve does not rise above its first position."""
    if isinstance(curve, SegmentPropensities):
        return curve.mapped(lambda _, rho: Propensities(_times_power(rho.values, step), method="assumed"))
    if isinstance(curve, Propensities):
        return Propensities(_times_power(curve.values, step), method="assumed")
    return AffineClicks(_times_power(curve.slope, step), curve.base)


def _times_power(slope: Floats, step: float) -> Floats:
    tilted: Floats = slope * np.arange(1, len(slope) + 1, dtype=np.float64) ** step
    return np.minimum(tilted, slope[0]) if step > 0 else tilted


def check_permuted(clicks: ClickEstimator, measure: ClickMeasure, order: RankOrder) -> PermutationCheck | None:
    """Permute clicks among the impressions of each position, and see whether an order still seems to gain on the log's.

    Where events have weights, clicks alone count here: position acts on the click.

    Results that were shown are ranked among themselves, by the order and by where they were shown, on average over
    what people examined. Whatever a permutation leaves is due to positions: with the right curve, better results lie
    further up, so that no order gains on that of the log. A gain means that the curve is too steep, or that production
    puts better results further down. Its interval has the spread of permutations, and which queries were searched. None
    where there is nothing to compare.
    """
    log = clicks.log
    slope, _ = log.by_cell
    places = log.by_row(log.clicks.impressions * slope * log.clicks.position)
    shown = ScoreOrder.of("the log", -np.divide(places, log.exposure, out=places, where=log.seen), log)
    by = ClickMeasure("DCG", measure.cutoff)
    ours, theirs = (np.where(log.seen, clicks.weights(by, each.among_seen(log)), 0.0) for each in (order, shown))
    gained = ours - theirs
    if not gained.any():
        return None
    random = np.random.default_rng([clicks.seed, 3])
    gains = np.array([gained @ off_policy_relevance(_permuted(log, random)) for _ in range(_PERMUTATIONS)])
    sampled = _expected_gain(log, gained).error(clicks.n_queries)
    gain = clicks.interval(float(gains.mean()), float(np.hypot(gains.std(ddof=1), sampled)))
    return PermutationCheck(gain, passed=gain.low <= 0, order=order.name)


def _expected_gain(log: LoggedClicks, gained: Floats) -> Valued:
    """The mean of a gain over all permutations, Σ_k a_k (clicks / impressions at k - base_k), and how queries move it.

    a_k = Σ_i gained_i n_ik / exposure_i
    """
    table = log.clicks
    each = np.divide(gained, log.exposure, out=np.zeros(len(gained)), where=log.seen)[table.row] * log.readable
    total, place, bases = Valued(0.0, np.zeros(log.data.n_queries)), table.segment_position, log.by_cell[1]
    for position in np.unique(place):
        at = place == position
        clicked, shown = (log.by_query(log.by_row(at * part)) for part in (table.clicks, log.readable))
        weight, rate, base = float(each[at].sum()), Valued.ratio(clicked, shown), float(bases[at][0])
        total += Valued(weight * (rate.value - base), weight * rate.influence)
    return total


def _permuted(log: LoggedClicks, random: np.random.Generator) -> LoggedClicks:
    """The log with the clicks of each position dealt out anew among its impressions."""
    table = log.clicks
    dealt, place = np.array(table.clicks), table.segment_position
    for position in np.unique(place):
        at = np.flatnonzero(place == position)
        shown, read = table.impressions[at], log.readable[at]
        total = min(int(table.clicks[at].sum()), int(shown.sum()))
        if log.after is not None and read.any():
            dealt[at] = np.minimum(random.multinomial(total, read / read.sum()), shown)
        elif shown.sum() < _MANY:
            dealt[at] = random.multivariate_hypergeometric(shown, total, method="marginals")
        else:
            dealt[at] = np.minimum(random.multinomial(total, shown / shown.sum()), shown)
    alone = replace(table.clicks_alone(), clicks=dealt, contexts=None)
    return LoggedClicks(log.data, alone, log.curve, log.after)
