"""The rule: what an interval of the gain decides, the verdict that follows, and the precision that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cldrank.documents.numbers import minus, span
from cldrank.evaluation.click_results import NeverShown, PermutationCheck, SensitivityCheck
from cldrank.evaluation.intervals import MeasuredPair
from cldrank.measures import Interval
from cldrank.wording import listed

Decision = Literal["better", "worse", "no difference", "cannot tell"]
POWER = 0.8


def decide(gain: Interval, margin: float) -> Decision:
    """What an interval alone says; the margin is the smallest difference that matters.

    no difference   all of it lies within the margin, even where it leaves out 0
    better, worse   all of it lies above 0, or below
    cannot tell     it holds 0, and differences that matter

    >>> [decide(Interval(0.03, low, 0.05, 0.9, 100), margin) for low, margin in ((0.02, 0.01), (0.02, 0.1), (-1, 0.1))]
    ['better', 'no difference', 'cannot tell']
    """
    if -margin <= gain.low and gain.high <= margin:
        return "no difference"
    if gain.low > 0:
        return "better"
    return "worse" if gain.high < 0 else "cannot tell"


def exceeds_margin(gain: Interval, margin: float) -> bool:
    """Whether all of an interval lies beyond the margin; else a better ranker may be so by less than matters."""
    return gain.low > margin or gain.high < -margin


@dataclass(frozen=True)
class ClickVerdict:
    """The answer.

    decision         better, worse, no difference (larger than the margin), cannot tell
    margin           the smallest difference that matters, in the units of the first measure
    reason           in a sentence or two
    depends_on_never_shown    whether it would differ without the model of never-shown results
    exceeds_margin   whether a difference is surely larger than the margin
    """

    decision: Decision
    margin: float
    reason: str
    depends_on_never_shown: bool
    exceeds_margin: bool = True

    @property
    def words(self) -> str:
        """The decision in words.

        >>> ClickVerdict("better", 0.01, "", False, exceeds_margin=False).words
        'better, but perhaps by less than 0.01'
        """
        if self.decision == "no difference":
            return f"no difference larger than {self.margin:.3g}"
        if self.decision == "cannot tell" or self.exceeds_margin:
            return self.decision
        return f"{self.decision}, but perhaps by less than {self.margin:.3g}"

    def headline(self, new: str, old: str, measure: str, evidence: str = "clicks") -> str:
        """The answer in a sentence.

        >>> ClickVerdict("cannot tell", 0.01, "", False).headline("trees", "production", "DCG@5")
        'These clicks cannot tell whether trees is better than production, by DCG@5.'
        """
        if self.is_open:
            return f"These {evidence} cannot tell whether {new} is better than {old}, by {measure}."
        if self.decision == "no difference":
            return f"{new} and {old} do not differ by more than {self.margin:.3g} in {measure}."
        return f"{new} is {self.decision} than {old}, by {measure}."

    @property
    def is_open(self) -> bool:
        """Whether it cannot tell."""
        return self.decision == "cannot tell"

    @property
    def settling(self) -> Literal["settle", "confirm"]:
        """What an experiment would do about it."""
        return "settle" if self.is_open else "confirm"


def judge_pair(
    pair: MeasuredPair,
    margin: float,
    never_shown: NeverShown,
    checks: Sequence[SensitivityCheck],
    permuted: PermutationCheck | None,
    new: str = "new",
) -> ClickVerdict:
    """The verdict of the first measure.

    checks     the difference under other curves, where the curve is only assumed: under those that make it larger, its
               sign must hold; under the others, the decision itself
    permuted   the permutation check of the order that is ahead
    new        what the new ranker is called
    """
    gain = pair.interval
    decision = decide(gain, margin)
    depends = decide(pair.bounds, margin) != decision
    if decision != "cannot tell" and not gain.low <= 0 <= gain.high:  # it claims to know the sign
        against = [check.name for check in checks if not _holds(check, gain, decision)]
        if permuted is not None and not permuted.passed:
            return ClickVerdict("cannot tell", margin, _TOO_STEEP.format(permuted.order), depends)
        if against:
            text = f"it would be {decision} with the curve that is assumed, but not with {listed(against)}: {_CURVE}"
            return ClickVerdict("cannot tell", margin, text, depends)
    reason = _grounds(pair, decision, margin, never_shown, depends, new)
    return ClickVerdict(decision, margin, reason, depends, exceeds_margin(gain, margin))


def _holds(check: SensitivityCheck, gain: Interval, decision: Decision) -> bool:
    """Whether a decision holds under another assumption: it is the same, or a difference that only grows."""
    sign = {"better": 1, "worse": -1}.get(decision)
    grows = sign is not None and sign * check.gain.estimate >= sign * gain.estimate
    return check.decision == decision or grows


_TOO_STEEP = (
    "with clicks permuted within positions, {} still seems better than the order of the log, so the curve is too steep "
    "or positions differ in more than examination; estimate the propensities before this is trusted."
)
_MEANS = {
    "better": "",
    "worse": "",
    "no difference": ", all within ±{:.3g}",
    "cannot tell": ", which includes 0 and differences larger than {:.3g}",
}
_CURVE = "estimate the propensities, so that their uncertainty is known, or say that they are."


def _grounds(
    pair: MeasuredPair, decision: Decision, margin: float, never_shown: NeverShown, depends: bool, new: str
) -> str:
    """The numbers that a decision rests on."""
    text = f"{pair.measure} differs by {worded_interval(pair.interval, decision, margin)}"
    even, model = never_shown.break_even, never_shown.model
    most = never_shown.most
    if even is not None and model is not None and most != 1 and 0 < even.estimate < most:
        text += (
            f"; {new} is better if the {never_shown.results:,} never-shown results in its top are worth at least "
            f"{even.estimate:.3f} when examined, and the model says {model.estimate:.3f} ({model.low:.3f} to "
            f"{model.high:.3f})"
        )
    elif even is not None and model is not None and 0 < even.estimate < 1:
        text += (
            f"; {new} is better if at least {even.estimate:.0%} of the {never_shown.results:,} never-shown results in "
            f"its top are relevant, and the model says {model.estimate:.0%} ({model.low:.0%} to {model.high:.0%})"
        )
    if depends:
        text += "; this rests on the model of never-shown results"
    return f"{text}."


def worded_interval(interval: Interval, decision: Decision, margin: float) -> str:
    """An estimate with its interval, and why that decides so.

    >>> worded_interval(Interval(0.2, -0.1, 0.5, 0.9, 100), "cannot tell", 0.01)
    '+0.2000 (−0.1000 to +0.5000), which includes 0 and differences larger than 0.01'
    """
    ends = span(interval.low, interval.high)
    return f"{minus(f'{interval.estimate:+.4f}')} ({ends}){_MEANS[decision].format(margin)}"


def largest_error(low: float, high: float, margin: float, quantile: float) -> float | None:
    """The largest standard error with which an interval decides with 80% power; None where no error is small enough.

        low / (quantile + z_80%)               for it to lie above 0 (below 0, if the middle does)
        (margin - high) / (quantile + z_90%)   for it to lie within the margin, either end of which it may miss
        (margin - high + low) / (2 quantile)   for it to be so short that it must do either

    whichever is largest.

    low, high   where the interval would end without any error: the gain, less and plus its bias
    quantile    how many standard errors the interval reaches

    >>> round(largest_error(0.05, 0.05, 0.0, 1.645), 4), largest_error(-0.01, 0.05, 0.0, 1.645)
    (0.0201, None)
    """
    from scipy.special import ndtri

    if low + high < 0:
        low, high = -high, -low
    above, within = low / (quantile + ndtri(POWER)), (margin - high) / (quantile + ndtri((1 + POWER) / 2))
    error = float(max(above, within, (margin - high + low) / (2 * quantile)))
    return error if error > 0 else None
