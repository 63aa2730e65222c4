"""The first measure under other assumptions: other curves, another model of relevance, and two controls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.click_results import PermutationCheck, SensitivityCheck
from cldrank.evaluation.decision_rule import decide
from cldrank.evaluation.exposure import LoggedClicks, RankOrder, ScoreOrder
from cldrank.evaluation.intervals import ClickEstimator, Valued, turned
from cldrank.evaluation.off_policy import Affine
from cldrank.evaluation.relevance_model import CLDPairRelevance, CLDRelevance, RelevanceLearner
from cldrank.propensity import AffineClicks, Propensities, SegmentPropensities
from cldrank.propensity.curve_checks import proven_bound
from cldrank.propensity.segment_propensities import Curve

Floats = NDArray[np.float64]
_FOLDS = 2  # of models under other assumptions
_OTHER_MODELS: list[tuple[str, str, RelevanceLearner]] = [
    *((f"γ = {gamma:g}", f"CLD with gamma {gamma:g}", CLDRelevance(gamma)) for gamma in (0.0, 0.1, 0.3)),
    *((f"C = {weight:g}", f"CLD-pair with C {weight:g}", CLDPairRelevance(weight)) for weight in (0.02, 1.0)),
]
_PERMUTATIONS = 20
_MANY = 10**9  # impressions of a position: as many can only be dealt out with replacement, which is hardly different


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Compares two orders by a measure under assumptions other than those of `clicks`."""

    clicks: ClickEstimator
    measure: ClickMeasure
    new: RankOrder
    old: RankOrder
    margin: float

    def curves(self) -> Iterator[SensitivityCheck]:
        """The difference under steeper and flatter curves, and under one raised to the bound that the clicks give."""
        for name, about, curve in _other_curves(self.clicks.log):
            yield self._check(name, about, "curve", self._with_curve(curve))

    def models(self) -> tuple[list[SensitivityCheck], list[str]]:
        """The difference with other models of relevance, CLD and CLD-pair at the ends of their usual ranges; and notes.

        A model that cannot be learned is left out, with a note.
        """
        checks, notes = [], []
        for name, about, learner in _OTHER_MODELS:
            try:
                other = self.clicks.learned(self.new, self.old, learner=learner, folds=_FOLDS)
            except CldrankError as error:
                notes.append(f"{about} was not tried as a model of relevance: {error}")
                continue
            checks.append(self._check(name, about, "model", other))
        return checks, notes

    def naive(self) -> SensitivityCheck:
        """The difference as clicks have it, as if every position were examined alike."""
        flat = Propensities.power(0, max(self.clicks.log.clicks.depth, 1))
        about = "clicks as they are, uncorrected: what the log favours"
        return self._check("Naive", about, "control", self._with_curve(flat))

    def _with_curve(self, curve: Curve) -> ClickEstimator:
        """The estimator under another curve, with a model of its own; the curve counts as certain."""
        if isinstance(curve, Propensities):
            curve = replace(curve, replicates=None, covariance=None)
        elif isinstance(curve, SegmentPropensities):
            curve = curve.mapped(lambda _, rho: replace(rho, replicates=None, covariance=None))
        other, model = replace(self.clicks, log=self.clicks.log.with_curve(curve)), self.clicks.model
        return other if model is None else other.learned(self.new, self.old, learner=model.learner, folds=_FOLDS)

    def _check(
        self, name: str, about: str, kind: Literal["curve", "model", "control"], clicks: ClickEstimator
    ) -> SensitivityCheck:
        difference = clicks.compare(self.measure, self.new, self.old).interval
        gain = turned(difference, self.measure.higher_is_better)
        return SensitivityCheck(name, about, kind, gain, decide(gain, self.margin))


def _other_curves(log: LoggedClicks) -> Iterator[tuple[str, str, Curve]]:
    for sign, step, word in (("+", -0.5, "steeper"), ("−", 0.5, "flatter")):
        yield f"η {sign} 0.5", f"a {word} curve: slopes times position^{step:g}", _tilted(log.curve, step)
    try:
        raised = _raised(log.curve, log.clicks)
    except CldrankError:
        return
    if raised is not None:
        yield "envelope", "the curve, raised to the lower bound that the clicks themselves give", raised


def _tilted(curve: Curve, step: float) -> Curve:
    """A curve times position^step; one that is made flatter stays below its first position."""
    if isinstance(curve, SegmentPropensities):
        return curve.mapped(lambda _, rho: Propensities(_times_power(rho.values, step), method="assumed"))
    if isinstance(curve, Propensities):
        return Propensities(_times_power(curve.values, step), method="assumed")
    return AffineClicks(_times_power(curve.slope, step), curve.base)


def _times_power(slope: Floats, step: float) -> Floats:
    tilted: Floats = slope * np.arange(1, len(slope) + 1, dtype=np.float64) ** step
    return np.minimum(tilted, slope[0]) if step > 0 else tilted


def _raised(curve: Curve, clicks: ClickTable) -> Curve | None:
    """A curve raised to what the clicks prove, each by those of its segment; None of slopes and bases."""
    if isinstance(curve, Propensities):
        return curve.raised_to(proven_bound(clicks, max(clicks.depth, 1)))
    if isinstance(curve, SegmentPropensities):
        parts = clicks.by_segment()
        return curve.mapped(
            lambda name, rho: rho.raised_to(proven_bound(parts[name], parts[name].depth)) if name in parts else rho
        )
    return None


# -- the permutation check -----------------------------------------------------------------------------------------


def check_permuted(clicks: ClickEstimator, measure: ClickMeasure, order: RankOrder) -> PermutationCheck | None:
    """Permute clicks among the impressions of each position, and see whether an order still seems to gain on the log's.

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
    by = ClickMeasure("DCG", measure.cutoff or log.clicks.depth)
    ours, theirs = (np.where(log.seen, clicks.weights(by, each.among_seen(log)), 0.0) for each in (order, shown))
    gained = ours - theirs
    if not gained.any():
        return None
    random = np.random.default_rng([clicks.seed, 3])
    gains = np.array([gained @ Affine().relevance(_permuted(log, random), None) for _ in range(_PERMUTATIONS)])
    sampled = _expected_gain(log, gained).error(clicks.n_queries)
    gain = clicks.interval(float(gains.mean()), float(np.hypot(gains.std(ddof=1), sampled)))
    return PermutationCheck(gain, _PERMUTATIONS, passed=gain.low <= 0, order=order.name)


def _expected_gain(log: LoggedClicks, gained: Floats) -> Valued:
    """The mean of a gain over all permutations, Σ_k a_k (clicks / impressions at k - base_k), and how queries move it.

    a_k = Σ_i gained_i n_ik / exposure_i
    """
    table = log.clicks
    each = np.divide(gained, log.exposure, out=np.zeros(len(gained)), where=log.seen)[table.row] * table.impressions
    total, place, bases = Valued(0.0, np.zeros(log.data.n_queries)), table.segment_position, log.by_cell[1]
    for position in np.unique(place):
        at = place == position
        clicked, shown = (log.by_query(log.by_row(at * part)) for part in (table.clicks, table.impressions))
        weight, rate, base = float(each[at].sum()), Valued.ratio(clicked, shown), float(bases[at][0])
        total += Valued(weight * (rate.value - base), weight * rate.influence)
    return total


def _permuted(log: LoggedClicks, random: np.random.Generator) -> LoggedClicks:
    """The log with the clicks of each position dealt out anew among its impressions."""
    table = log.clicks
    dealt, place = np.array(table.clicks), table.segment_position
    for position in np.unique(place):
        at = np.flatnonzero(place == position)
        shown = table.impressions[at]
        total = min(int(table.clicks[at].sum()), int(shown.sum()))
        if shown.sum() < _MANY:
            dealt[at] = random.multivariate_hypergeometric(shown, total, method="marginals")
        else:
            dealt[at] = np.minimum(random.multinomial(total, shown / shown.sum()), shown)
    return LoggedClicks(log.data, replace(table, clicks=dealt), log.curve)
