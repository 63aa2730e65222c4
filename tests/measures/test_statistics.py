from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cldrank.errors import DataError, UsageError
from cldrank.measures import bootstrap_interval, mean_interval, paired_comparison

stats: Any = importlib.import_module("scipy.stats")  # which has no types

VALUES = st.sampled_from([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0])  # whose sums are exact, also in scipy


# -- intervals ---------------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats(-10, 10), min_size=2, max_size=8), confidence=st.sampled_from([0.5, 0.9, 0.99]))
def test_t_interval_equals_scipy(values: list[float], confidence: float) -> None:
    interval = mean_interval(values, confidence)
    half = stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stats.sem(values)
    assert (interval.high - np.mean(values), np.mean(values) - interval.low) == pytest.approx((half, half), abs=1e-9)


def test_bootstrap_of_two_queries_by_hand() -> None:
    """The mean of two draws from {0, 1} is 0, 1/2, 1 with probability 1/4, 1/2, 1/4."""
    assert dataclasses.astuple(bootstrap_interval([0.0, 1.0], 0.4))[:3] == (0.5, 0.5, 0.5)
    assert dataclasses.astuple(bootstrap_interval([0.0, 1.0], 0.6))[:3] == (0.5, 0.0, 1.0)


def test_bootstrap_skips_queries_without_a_value() -> None:
    values = np.array([0.1, 0.4, np.nan, 0.9, np.nan])
    assert bootstrap_interval(values) == bootstrap_interval([0.1, 0.4, 0.9])
    assert bootstrap_interval(values, seed=1).n == 3


@pytest.mark.parametrize("values", [[], [0.5]])
def test_too_few_values_are_refused(values: list[float]) -> None:
    with pytest.raises(DataError, match="at least 2"):
        mean_interval(values)
    with pytest.raises(DataError):
        bootstrap_interval([*values, np.nan])
    with pytest.raises(DataError, match="at least 2"):
        paired_comparison(values, values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.1, np.nan, 0.2], "value 1 .* is NaN; leave out"),
        ([0.1, np.inf], "entry 1 .* is infinite"),
        ([[0.1, 0.2]], r"\(1, 2\)"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_bad_values_are_refused(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        mean_interval(values)


@pytest.mark.parametrize("confidence", [0, 1, float("nan")])
def test_confidence_lies_between_zero_and_one(confidence: float) -> None:
    for function in (mean_interval, bootstrap_interval):
        with pytest.raises(UsageError, match="`confidence`"):
            function([0.1, 0.2], confidence)


def test_counts_must_be_positive() -> None:
    with pytest.raises(UsageError, match="`replicates` must be a whole number of at least 1"):
        bootstrap_interval([0.1, 0.2], replicates=0)
    with pytest.raises(UsageError, match="`permutations` must be a whole number of at least 1"):
        paired_comparison([0.1, 0.2], [0.2, 0.2], permutations=0)


# -- comparisons -------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=9))
def test_p_value_nears_that_of_all_ways_to_swap(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert paired_comparison(a, b).p_value == pytest.approx(expected.pvalue, abs=0.02)


def test_comparison_by_hand() -> None:
    comparison = paired_comparison([0.6, 0.8, 0.5, 0.9], [0.5, 0.5, 0.5, 1.0])
    assert comparison.difference == pytest.approx(0.075)
    assert (comparison.n, comparison.wins, comparison.ties, comparison.losses) == (4, 2, 1, 1)
    # |±0.1 ±0.3 ±0.1| is at least 0.3 for 6 of 8 signs: all but those with 0.3 - 0.1 - 0.1
    assert comparison.p_value == pytest.approx(0.75, abs=0.02)
    assert str(comparison).endswith("p = 0.75; 2 wins, 1 tie, 1 loss over 4 queries")


def test_p_value_is_never_zero() -> None:
    a = np.random.default_rng(0).uniform(1, 2, size=200)
    assert paired_comparison(a, a - 1, permutations=999).p_value == 1 / 1000


def test_rounding_of_sums_does_not_make_a_difference_of_nothing_rare() -> None:
    """0.1 + 0.2 + 0.3 - 0.6 is not 0 in floating point, and depends on the order of the sum."""
    assert paired_comparison([0.1, 0.2, 0.3, 0.0], [0.0, 0.0, 0.0, 0.6]).p_value == 1


def test_a_ranker_against_itself() -> None:
    a = np.random.default_rng(0).uniform(size=50)
    comparison = paired_comparison(a, a)
    assert (comparison.difference, comparison.p_value, comparison.ties) == (0, 1, 50)
    assert (comparison.interval.low, comparison.interval.high) == (0, 0)


def test_comparison_skips_what_both_skip_and_refuses_what_one_skips() -> None:
    skipped = paired_comparison([0.1, np.nan, 0.3], [0.2, float("nan"), 0.1])
    assert skipped == paired_comparison([0.1, 0.3], [0.2, 0.1])
    with pytest.raises(DataError, match="query 1 "):
        paired_comparison([0.1, np.nan], [0.1, 0.2])
    with pytest.raises(DataError, match="a has 2 queries and b 3"):
        paired_comparison([0.1, 0.2], [0.1, 0.2, 0.3])
