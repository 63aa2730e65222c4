from __future__ import annotations

from typing import Any

import pytest

from cldrank.evaluation.click_results import (
    ClickEstimate,
    ClickVerdict,
    Errors,
    MeasuredPair,
    Placebo,
    SensitivityCheck,
    Unseen,
)
from cldrank.evaluation.deciding import decide, judge_pair
from cldrank.measures import Interval

BETTER, WORSE, LEVEL, OPEN = (0.05, 0.02, 0.08), (-0.05, -0.08, -0.02), (0.0, -0.005, 0.005), (0.05, -0.02, 0.1)
NONE_UNSEEN = Unseen(0, 0.0, None, None)


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate, low, high, 0.9, 100)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1e-9, 0.5, "better"),
        (0.001, 0.002, "better"),  # however small
        (-0.5, -1e-9, "worse"),
        (0.0, 0.0, "no difference"),
        (-0.01, 0.01, "no difference"),  # the margin itself included
        (0.0, 0.01, "no difference"),
        (0.0, 0.0100001, "cannot tell"),
        (-0.0100001, 0.0, "cannot tell"),
        (-0.5, 0.5, "cannot tell"),
        (float("nan"), float("nan"), "cannot tell"),
        (float("-inf"), float("inf"), "cannot tell"),
    ],
)
def test_what_an_interval_says(low: float, high: float, expected: str) -> None:
    assert decide(interval((low + high) / 2, low, high), margin=0.01) == expected


def test_without_a_margin_only_no_difference_at_all_is_none() -> None:
    assert decide(interval(0, 0, 0), margin=0) == "no difference"
    assert decide(interval(0, -1e-12, 1e-12), margin=0) == "cannot tell"


def pair(
    gain: tuple[float, float, float], bounds: tuple[float, float] | None = None, higher_is_better: bool = True
) -> MeasuredPair:
    """A pair with a gain, and bounds of it; of a measure of which less is better, the difference is turned."""
    estimate, low, high = gain
    worst, best = bounds or (low, high)
    ends = [interval(worst, worst, worst), interval(best, best, best)]
    whole = interval(*gain)
    if not higher_is_better:
        whole, ends = (
            interval(-estimate, -high, -low),
            [interval(-best, -best, -best), interval(-worst, -worst, -worst)],
        )
    difference = ClickEstimate(whole, ends[0], ends[1], Errors(0.01))
    value = ClickEstimate(interval(1, 0.9, 1.1), interval(1, 0.9, 1.1), interval(1, 0.9, 1.1), Errors(0.01))
    name = "DCG@5" if higher_is_better else "ARP"
    return MeasuredPair(name, higher_is_better, value, value, difference)


def check(gain: tuple[float, float, float], name: str = "η + 0.5", kind: Any = "curve") -> SensitivityCheck:
    whole = interval(*gain)
    return SensitivityCheck(name, "another assumption", kind, whole, decide(whole, 0.01))


def judged(
    given: MeasuredPair,
    checks: tuple[SensitivityCheck, ...] = (),
    placebo: Placebo | None = None,
    sure: bool = True,
    unseen: Unseen = NONE_UNSEEN,
) -> ClickVerdict:
    return judge_pair(given, 0.01, unseen, checks, placebo, sure)


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(
    ("gain", "decision"), [(BETTER, "better"), (WORSE, "worse"), (LEVEL, "no difference"), (OPEN, "cannot tell")]
)
def test_the_decision_is_that_of_the_gain(gain: tuple[float, float, float], decision: str, higher: bool) -> None:
    found = judged(pair(gain, higher_is_better=higher))
    assert (found.decision, found.depends_on_unseen, found.margin) == (decision, False, 0.01)
    estimate, low, high = gain if higher else (-gain[0], -gain[2], -gain[1])  # as tables have it
    name = "DCG@5" if higher else "ARP"
    assert f"{name} differs by {estimate:+.4f} ({low:+.4f} to {high:+.4f})" in found.reason
    assert ("; lower is better" in found.reason) != higher
    assert ("all within ±0.01" in found.reason) == (decision == "no difference")
    assert ("which includes 0 and differences larger than 0.01" in found.reason) == (decision == "cannot tell")


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize(
    ("gain", "bounds", "depends"),
    [
        (BETTER, (-0.1, 0.3), True),
        (BETTER, (0.01, 0.3), False),
        (WORSE, (-0.1, 0.3), True),
        (WORSE, (-0.3, -0.01), False),
        (LEVEL, (-0.1, 0.1), True),
        (OPEN, (-0.1, 0.1), False),  # an open verdict depends on nothing
    ],
)
def test_a_verdict_that_bounds_would_leave_open_depends_on_the_unseen(
    gain: tuple[float, float, float], bounds: tuple[float, float], depends: bool, higher: bool
) -> None:
    found = judged(pair(gain, bounds, higher))
    assert found.depends_on_unseen == depends
    assert ("rests on the model of the unseen" in found.reason) == depends


@pytest.mark.parametrize(
    ("gain", "other", "holds"),
    [
        (BETTER, (0.03, 0.01, 0.05), True),  # less, and still better
        (BETTER, (0.03, -0.01, 0.07), False),  # less, and open
        (BETTER, (-0.05, -0.08, -0.02), False),
        (BETTER, (0.09, -0.01, 0.19), True),  # more: an open one does not speak against it
        (WORSE, (-0.03, -0.05, -0.01), True),
        (WORSE, (-0.03, -0.07, 0.01), False),
        (WORSE, (-0.09, -0.19, 0.01), True),
        (WORSE, (0.05, 0.02, 0.08), False),
    ],
)
def test_an_assumed_curve_must_hold_under_others(
    gain: tuple[float, float, float], other: tuple[float, float, float], holds: bool
) -> None:
    decision = "better" if gain is BETTER else "worse"
    found = judged(pair(gain), (check(other), check(gain, "envelope")), sure=False)
    assert found.decision == (decision if holds else "cannot tell")
    if not holds:
        assert f"it would be {decision} with the curve that is assumed, but not with η + 0.5" in found.reason
        assert "estimate the propensities" in found.reason
    assert judged(pair(gain), (check(other),), sure=True).decision == decision


def test_checks_of_models_and_controls_do_not_decide() -> None:
    against = (check(WORSE, kind="model"), check(WORSE, "Naive", "control"))
    assert judged(pair(BETTER), against, sure=False).decision == "better"
    assert judged(pair(LEVEL), (check(WORSE),), sure=False).decision == "no difference"
    assert judged(pair(OPEN), (check(WORSE),), sure=False).decision == "cannot tell"


@pytest.mark.parametrize("sure", [True, False])
@pytest.mark.parametrize("gain", [BETTER, WORSE])
def test_a_placebo_that_gains_withholds_the_verdict(gain: tuple[float, float, float], sure: bool) -> None:
    failed = Placebo(interval(0.03, 0.01, 0.05), 20, passed=False, order="trees")
    found = judged(pair(gain, (-0.1, 0.3)), placebo=failed, sure=sure)
    assert (found.decision, found.depends_on_unseen) == ("cannot tell", True)
    assert "with clicks permuted within positions, trees still seems better than production" in found.reason
    assert judged(pair(LEVEL), placebo=failed, sure=sure).decision == "no difference"
    passed = Placebo(interval(-0.03, -0.05, -0.01), 20, passed=True)
    assert judged(pair(gain), placebo=passed, sure=sure).decision == decide(interval(*gain), 0.01)


def test_break_even_is_told_where_it_can_matter() -> None:
    model = interval(0.41, 0.33, 0.49)
    found = judged(pair(BETTER), unseen=Unseen(1204, 0.8, interval(0.23, 0.2, 0.26), model))
    assert (
        "new is better if at least 23% of the 1,204 unseen results it shows are relevant, and the model says 41% "
        "(33% to 49%)"
    ) in found.reason
    for even in (-0.2, 0.0, 1.0, 1.4):
        quiet = judged(pair(BETTER), unseen=Unseen(1204, 0.8, interval(even, even - 0.1, even + 0.1), model))
        assert "unseen results" not in quiet.reason
