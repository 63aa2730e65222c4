"""From estimates to a verdict, with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from cldrank.evaluation.click_results import ClickVerdict, Decision, MeasuredPair, Placebo, SensitivityCheck, Unseen
from cldrank.measures import Interval
from cldrank.wording import listed


def decide(gain: Interval, margin: float) -> Decision:
    """What an interval alone says.

    >>> decide(Interval(0.03, 0.01, 0.05, 0.9, 100), margin=0.01)
    'better'
    """
    if gain.low > 0:
        return "better"
    if gain.high < 0:
        return "worse"
    return "no difference" if -margin <= gain.low and gain.high <= margin else "cannot tell"


def judge_pair(
    pair: MeasuredPair,
    margin: float,
    unseen: Unseen,
    checks: Sequence[SensitivityCheck],
    placebo: Placebo | None,
    curve_is_sure: bool,
) -> ClickVerdict:
    """The verdict of the first measure.

    placebo         of the order that is ahead
    curve_is_sure   whether the curve is known, or its uncertainty is: else the decision must hold under other curves,
                    too: under those that make the difference larger, its sign; under the others, the decision itself
    """
    decision = decide(pair.gain, margin)
    depends = decide(pair.bounds, margin) != decision
    reason = _grounds(pair, margin, unseen, depends)
    if decision in ("better", "worse"):
        against = [one for one in checks if one.kind == "curve" and not _holds(one, pair.gain, decision)]
        if placebo is not None and not placebo.passed:
            return ClickVerdict("cannot tell", margin, _PLACEBO.format(placebo.order), depends_on_unseen=depends)
        if against and not curve_is_sure:
            named = listed(one.name for one in against)
            text = f"it would be {decision} with the curve that is assumed, but not with {named}: {_CURVE}"
            return ClickVerdict("cannot tell", margin, text, depends_on_unseen=depends)
    return ClickVerdict(decision, margin, reason, depends_on_unseen=depends)


def _holds(check: SensitivityCheck, gain: Interval, decision: Decision) -> bool:
    """Whether a decision holds under another assumption."""
    sign = 1 if decision == "better" else -1
    found, usual = sign * check.gain.estimate, sign * gain.estimate
    return check.decision == decision or found >= usual


_PLACEBO = (
    "with clicks permuted within positions, {} still seems better than production, so the curve is too steep or "
    "positions differ in more than examination; estimate the propensities before this is trusted."
)
_MEANS = {
    "better": "",
    "worse": "",
    "no difference": ", all within ±{:.3g}",
    "cannot tell": ", which includes 0 and differences larger than {:.3g}",
}
_CURVE = "estimate the propensities, so that their uncertainty is known, or say that they are."


def _grounds(pair: MeasuredPair, margin: float, unseen: Unseen, depends: bool) -> str:
    found = pair.interval
    text = f"{pair.measure} differs by {found.estimate:+.4f} ({found.low:+.4f} to {found.high:+.4f})"
    text += _MEANS[decide(pair.gain, margin)].format(margin)
    if not pair.higher_is_better:
        text += "; lower is better"
    even, model = unseen.break_even, unseen.model
    if even is not None and model is not None and 0 < even.estimate < 1:
        text += (
            f"; new is better if at least {even.estimate:.0%} of the {unseen.results:,} unseen results it shows are "
            f"relevant, and the model says {model.estimate:.0%} ({model.low:.0%} to {model.high:.0%})"
        )
    if depends:
        text += "; this rests on the model of the unseen"
    return f"{text}."
