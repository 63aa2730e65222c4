"""The sequence of tests."""

from __future__ import annotations

import numpy as np
import pytest

from cldrank.measures import Interval
from cldrank.safety.safe import BlendTrial, confidences, safe_trials


def trial(share: float, low: float, estimate: float = 0.0, strict: float = -1.0) -> BlendTrial:
    return BlendTrial(share, Interval(estimate, low, 1.0, 0.9, 100), strict)


def test_the_way_up_ends_at_the_first_that_is_not_safe() -> None:
    trials = [trial(0.0, -0.01), trial(0.1, 0.02), trial(0.2, -0.02), trial(0.3, 0.5)]
    assert safe_trials(trials, 0.01) == trials[:2]
    assert safe_trials(trials[::-1], 0.01) == trials[:2]
    assert safe_trials(trials, 0.02) == trials
    assert safe_trials(trials, 0.009) == []


def test_the_way_down_ends_there_too() -> None:
    """The imitation may be worse than production, where the learned ranker is much better."""
    trials = [trial(0.0, -0.5), trial(0.1, 0.5, strict=0.4), trial(0.2, 0.5, strict=-0.02), trial(0.3, 0.5, strict=0.0)]
    assert safe_trials(trials, 0.01) == trials[3:]
    assert safe_trials(trials, 0.02) == trials[1:]
    assert safe_trials([*trials, trial(1.0, 0.5, strict=-0.03)], 0.02) == []


def test_both_ways_meet() -> None:
    trials = [trial(0.0, 0.0), trial(0.1, -0.5), trial(0.2, 0.5, strict=0.4)]
    assert safe_trials(trials, 0.01) == [trials[0], trials[2]]


def test_the_two_ways_share_the_chance_of_an_error() -> None:
    for confidence in (0.5, 0.9, 0.99):
        one_sided = [(1 - two_sided) / 2 for two_sided in confidences(confidence)]
        assert sum(one_sided) == pytest.approx(1 - confidence)


@pytest.mark.parametrize("low", [np.nan, -np.inf])
def test_what_cannot_be_estimated_is_not_safe(low: float) -> None:
    assert safe_trials([trial(0.0, low, strict=low)], 0.01) == []
