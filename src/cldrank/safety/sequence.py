"""From blends to the one that is kept: a sequence of tests, from production upwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cldrank.errors import DataError
from cldrank.evaluation import ClickJudge
from cldrank.evaluation.click_measures import ClickMeasure
from cldrank.evaluation.orders import PRODUCTION
from cldrank.evaluation.sensitivity import run_placebo
from cldrank.measures import Interval
from cldrank.rankers import Ranker

SHARES = tuple(step / 10 for step in range(11))


class UnsafeError(DataError):
    """The clicks do not show that any ranker is safe, not even an imitation of production; production is to stay."""


@dataclass(frozen=True)
class BlendTrial:
    """A blend, judged against production.

    share     of the learned ranker
    gain      over production, with its interval
    placebo   whether it gains nothing where there is nothing to gain, with clicks permuted within positions; if it
              does, the curve is too steep, and gains are not to be trusted
    """

    share: float
    gain: Interval
    placebo: bool = True

    def is_safe(self, margin: float) -> bool:
        """Whether it is shown that no more than the margin can be lost."""
        return self.placebo and self.gain.low >= -margin


def judge_blends(judge: ClickJudge, measure: ClickMeasure, blends: Mapping[float, Ranker]) -> list[BlendTrial]:
    """The gain of each blend over production."""
    production = judge.order(PRODUCTION, PRODUCTION)
    found = []
    for share, ranker in blends.items():
        order = judge.order(ranker.predict(judge.clicks.log.data), f"{share:.0%} learned")
        gain = judge.clicks.compare(measure, order, production).interval
        placebo = run_placebo(judge.clicks, measure, order, production)
        found.append(BlendTrial(share, gain, placebo is None or placebo.passed))
    return found


def safe_trials(trials: Sequence[BlendTrial], margin: float) -> list[BlendTrial]:
    """Those that are shown to be safe: from the smallest share upwards, up to the first that is not.

    Each is tested at the full level. A test only counts if all before it were passed, so the chance that any unsafe
    blend is among those returned is that of one test (fixed sequence testing).

    >>> lows = {0.0: 0.0, 0.5: -0.2, 1.0: 0.0}
    >>> trials = [BlendTrial(share, Interval(0.0, low, 0.1, 0.9, 50)) for share, low in lows.items()]
    >>> [one.share for one in safe_trials(trials, margin=0.1)]
    [0.0]
    """
    found: list[BlendTrial] = []
    for one in sorted(trials, key=lambda one: one.share):
        if not one.is_safe(margin):
            break
        found.append(one)
    return found


def most_gained(trials: Sequence[BlendTrial]) -> BlendTrial:
    """The trial with the highest gain; of equals, the smallest share."""
    return max(trials, key=lambda one: (one.gain.estimate, -one.share))
