from __future__ import annotations

import numpy as np
import pytest

from cldrank.evaluation.click_results import NeverShown, PermutationCheck, SensitivityCheck
from cldrank.evaluation.decision_rule import ClickVerdict, decide, judge_pair, largest_error
from cldrank.evaluation.experiment_planning import pages_to_show
from cldrank.evaluation.intervals import ClickEstimate, Errors, MeasuredPair
from cldrank.measures import Interval

BETTER, WORSE, LEVEL, OPEN = (0.05, 0.02, 0.08), (-0.05, -0.08, -0.02), (0.0, -0.005, 0.005), (0.05, -0.02, 0.1)
NONE_UNSEEN = NeverShown(0, 0.0, None, None)


def interval(estimate: float, low: float, high: float) -> Interval:
    return Interval(estimate, low, high, 0.9, 100)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.001, 0.002, "no difference"),  # a gain, and none that matters
        (0.001, 0.0100001, "better"),
        (-0.0100001, -0.001, "worse"),
        (-0.01, -0.001, "no difference"),
        (0.0, 0.0, "no difference"),
        (-0.01, 0.01, "no difference"),  # the margin itself included
        (0.0, 0.0100001, "cannot tell"),
        (-0.0100001, 0.0, "cannot tell"),
        (float("nan"), float("nan"), "cannot tell"),
    ],
)
def test_what_an_interval_says(low: float, high: float, expected: str) -> None:
    assert decide(interval((low + high) / 2, low, high), margin=0.01) == expected


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.0002, 0.07, "better, but perhaps by less than 0.05"),
        (0.05, 0.07, "better, but perhaps by less than 0.05"),
        (0.0501, 0.07, "better"),
        (-0.07, -0.01, "worse, but perhaps by less than 0.05"),
    ],
)
def test_a_difference_that_may_not_matter_is_called_so(low: float, high: float, words: str) -> None:
    assert judge_pair(pair(((low + high) / 2, low, high)), 0.05, NONE_UNSEEN, (), None).words == words


def test_without_a_margin_only_no_difference_at_all_is_none() -> None:
    assert decide(interval(0, 0, 0), margin=0) == "no difference"
    assert decide(interval(0, -1e-12, 1e-12), margin=0) == "cannot tell"


def pair(gain: tuple[float, float, float], bounds: tuple[float, float] | None = None) -> MeasuredPair:
    """A pair with a gain, and bounds of it."""
    _, low, high = gain
    worst, best = bounds or (low, high)
    difference = ClickEstimate(interval(*gain), interval(worst, worst, worst), interval(best, best, best), Errors(0.01))
    value = ClickEstimate(interval(1, 0.9, 1.1), interval(1, 0.9, 1.1), interval(1, 0.9, 1.1), Errors(0.01))
    return MeasuredPair("DCG@5", value, value, difference)


def check(gain: tuple[float, float, float], name: str = "η + 0.5") -> SensitivityCheck:
    whole = interval(*gain)
    return SensitivityCheck(name, whole, decide(whole, 0.01))


def judged(
    given: MeasuredPair,
    checks: tuple[SensitivityCheck, ...] = (),
    permuted: PermutationCheck | None = None,
    never_shown: NeverShown = NONE_UNSEEN,
) -> ClickVerdict:
    return judge_pair(given, 0.01, never_shown, checks, permuted, "trees")


@pytest.mark.parametrize(
    ("gain", "decision"), [(BETTER, "better"), (WORSE, "worse"), (LEVEL, "no difference"), (OPEN, "cannot tell")]
)
def test_the_decision_is_that_of_the_gain(gain: tuple[float, float, float], decision: str) -> None:
    found = judged(pair(gain))
    assert (found.decision, found.depends_on_never_shown, found.margin) == (decision, False, 0.01)
    estimate, low, high = gain
    assert f"DCG@5 differs by {estimate:+.4f} ({low:+.4f} to {high:+.4f})".replace("-", "−") in found.reason
    assert ("±0.01" in found.reason) == (decision == "no difference")


@pytest.mark.parametrize(
    ("gain", "bounds", "depends"),
    [
        (BETTER, (-0.1, 0.3), True),
        (WORSE, (-0.3, -0.01), False),
        (LEVEL, (-0.1, 0.1), True),
        (OPEN, (-0.1, 0.1), False),  # an open verdict depends on nothing
    ],
)
def test_a_verdict_that_bounds_would_leave_open_depends_on_the_unseen(
    gain: tuple[float, float, float], bounds: tuple[float, float], depends: bool
) -> None:
    found = judged(pair(gain, bounds))
    assert found.depends_on_never_shown == depends
    assert ("rests on the model of never-shown results" in found.reason) == depends


@pytest.mark.parametrize(
    ("gain", "other", "holds"),
    [
        (BETTER, (0.03, 0.01, 0.05), True),  # less, and still better
        (BETTER, (0.03, -0.01, 0.07), False),  # less, and open
        (BETTER, (0.09, -0.01, 0.19), True),  # more: an open one does not speak against it
        (WORSE, (-0.03, -0.07, 0.01), False),
        (WORSE, (-0.09, -0.19, 0.01), True),
    ],
)
def test_an_assumed_curve_must_hold_under_others(
    gain: tuple[float, float, float], other: tuple[float, float, float], holds: bool
) -> None:
    decision = "better" if gain is BETTER else "worse"
    found = judged(pair(gain), (check(other), check(gain, "η − 0.5")))
    assert found.decision == (decision if holds else "cannot tell")
    if not holds:
        assert "η + 0.5" in found.reason


def test_a_difference_within_the_margin_is_checked_as_one_beyond_it() -> None:
    small = (0.004, 0.001, 0.007)
    assert judged(pair(small)).decision == "no difference"
    assert judged(pair(small), (check(WORSE),)).decision == "cannot tell"
    failed = PermutationCheck(interval(0.03, 0.01, 0.05), passed=False, order="trees")
    assert judged(pair(small), permuted=failed).decision == "cannot tell"


def test_checks_do_not_decide_where_no_sign_is_claimed() -> None:
    assert judged(pair(LEVEL), (check(WORSE),)).decision == "no difference"
    assert judged(pair(OPEN), (check(WORSE),)).decision == "cannot tell"


@pytest.mark.parametrize("gain", [BETTER, WORSE])
def test_a_permuted_that_gains_withholds_the_verdict(gain: tuple[float, float, float]) -> None:
    failed = PermutationCheck(interval(0.03, 0.01, 0.05), passed=False, order="trees")
    found = judged(pair(gain, (-0.1, 0.3)), permuted=failed)
    assert (found.decision, found.depends_on_never_shown) == ("cannot tell", True)
    assert "trees still seems better" in found.reason
    assert judged(pair(LEVEL), permuted=failed).decision == "no difference"
    passed = PermutationCheck(interval(-0.03, -0.05, -0.01), passed=True)
    assert judged(pair(gain), permuted=passed).decision == decide(interval(*gain), 0.01)


def test_break_even_is_told_where_it_can_matter() -> None:
    model = interval(0.41, 0.33, 0.49)
    found = judged(pair(BETTER), never_shown=NeverShown(1204, 0.8, interval(0.23, 0.2, 0.26), model))
    for number in ("at least 23% of the 1,204 never-shown results", "41% (33% to 49%)"):
        assert number in found.reason
    for even in (-0.2, 0.0, 1.0, 1.4):
        quiet = judged(pair(BETTER), never_shown=NeverShown(1204, 0.8, interval(even, even - 0.1, even + 0.1), model))
        assert "never-shown results" not in quiet.reason


Q = 1.645


def test_no_error_is_small_enough_for_a_bias_that_reaches_over_0() -> None:
    assert largest_error(-0.01, 0.05, 0.0, Q) is None
    assert largest_error(-0.01, 0.05, 0.02, Q) is None
    assert largest_error(-0.01, 0.015, 0.02, Q) is not None  # but within the margin
    assert largest_error(0.0, 0.0, 0.0, Q) is None


@pytest.mark.parametrize(
    ("low", "high", "margin", "most"),
    [
        (0.05, 0.05, 0.0, 0.82),
        (0.03, 0.07, 0.01, 0.82),  # with a bias
        (0.0, 0.0, 0.05, 0.86),  # within the margin
        (0.03, 0.03, 0.05, 1.0),  # there, and better as well
    ],
)
def test_with_the_largest_error_four_of_five_drawn_intervals_decide(
    low: float, high: float, margin: float, most: float
) -> None:
    error, middle = largest_error(low, high, margin, Q), (low + high) / 2
    assert error is not None
    half = (high - low) / 2 + Q * error
    drawn = np.random.default_rng(0).normal(middle, error, 20_000)
    right = {"better" if middle >= 0 else "worse"} | ({"no difference"} if abs(middle) <= margin else set())
    decided = np.mean([decide(Interval(one, one - half, one + half, 0.9, 9), margin) in right for one in drawn])
    assert 0.79 < decided < most


def test_half_the_difference_takes_four_times_the_pages() -> None:
    assert pages_to_show(0.05, 1.0) == pytest.approx(4 * (pages_to_show(0.1, 1.0) or 0), rel=0.01)
    assert pages_to_show(0.0, 1.0) is None
    assert pages_to_show(100.0, 1.0) == 30
