"""From blends to the one that is kept: sequences of tests, from both ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from cldrank.errors import DataError
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.orders import PRODUCTION, ScoreOrder
from cldrank.evaluation.sensitivity import run_placebo
from cldrank.measures import Interval
from cldrank.rankers import Ranker

SHARES = tuple(step / 10 for step in range(11))
_UPWARDS = 0.8  # of the chance of an error that is allowed: the way up has more to do with small gains


class UnsafeError(DataError):
    """The clicks do not show that any ranker is safe, not even an imitation of production; production is to stay.

    >>> from cldrank.errors import CldrankError
    >>> issubclass(UnsafeError, CldrankError)
    True
    """


@dataclass(frozen=True)
class BlendTrial:
    """A blend, judged against production.

    share     of the learned ranker
    gain      over production, less that by placebo, with the interval that counts on the way up from production
    strict    the lower end that counts on the way down from the learned ranker, at a higher confidence
    placebo   what it seems to gain with clicks permuted within positions, where there is nothing to gain: as much is
              due to a curve that is too steep; at least 0

    >>> trial = BlendTrial(0.5, Interval(0.02, -0.01, 0.05, 0.92, n=500), strict=-0.02)
    >>> trial.gain.low
    -0.01
    """

    share: float
    gain: Interval
    strict: float
    placebo: float = 0.0


def confidences(confidence: float) -> tuple[float, float]:
    """Of two-sided intervals, on the way up and on the way down: their lower ends share the chance of an error.

    >>> [round(one, 9) for one in confidences(0.95)]
    [0.92, 0.98]
    """
    error = 2 * (1 - confidence)
    return 1 - _UPWARDS * error, 1 - (1 - _UPWARDS) * error


def judge_blends(
    judge: ClickJudge, measure: ClickMeasure, blends: Mapping[float, Ranker], strict: float
) -> tuple[list[BlendTrial], float]:
    """The gain of each blend over production, and production's own value; `strict` is the higher confidence."""
    production, data = judge.order(PRODUCTION, PRODUCTION), judge.clicks.log.data
    orders = {
        share: ScoreOrder.of(f"{share:.0%} learned", one.predict(data), judge.clicks.log)
        for share, one in blends.items()
    }
    clicks, _ = judge.learned(orders[min(orders)], orders[max(orders)])
    stricter = replace(clicks, confidence=strict)
    found = []
    for share, order in orders.items():
        gain, wider = (one.compare(measure, order, production).interval for one in (clicks, stricter))
        permuted = run_placebo(clicks, measure, order)
        placebo = 0.0 if permuted is None else max(permuted.gain.estimate, 0.0)
        ends = (gain.estimate - placebo, gain.low - placebo, gain.high - placebo)
        found.append(BlendTrial(share, Interval(*ends, gain.confidence, gain.n), wider.low - placebo, placebo))
    return found, clicks.value(measure, production).value


def safe_trials(trials: Sequence[BlendTrial], margin: float) -> list[BlendTrial]:
    """Those that are shown to be safe: from production upwards, and from the learned ranker downwards.

    On either way, a test only counts if all before it were passed, so the chance that any unsafe blend passes is that
    of one test (fixed sequence testing); the two ways share the chance that is allowed. The way up finds how far a
    ranker that gains little may depart; the way down, the one that gains much, whatever the imitation does.

    >>> lows = {0.0: 0.0, 0.5: -0.2, 1.0: 0.0}
    >>> trials = [BlendTrial(share, Interval(0.0, low, 0.1, 0.9, 50), low - 0.05) for share, low in lows.items()]
    >>> [one.share for one in safe_trials(trials, margin=0.04)], [one.share for one in safe_trials(trials, margin=0.1)]
    ([0.0], [0.0, 1.0])
    """
    ordered = sorted(trials, key=lambda one: one.share)
    upwards = list(takewhile(lambda one: one.gain.low >= -margin, ordered))
    downwards = list(takewhile(lambda one: one.strict >= -margin, reversed(ordered)))
    return [one for one in ordered if one in upwards or one in downwards]


def most_gained(trials: Sequence[BlendTrial]) -> BlendTrial:
    """The trial with the highest gain; of equals, the smallest share."""
    return max(trials, key=lambda one: (one.gain.estimate, -one.share))
