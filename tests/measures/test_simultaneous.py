from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri, stdtr, stdtrit
from scipy.stats import multivariate_t

from cldrank.measures.simultaneous import confidence_of_each

MANY = 10**6  # degrees of freedom


@pytest.mark.parametrize("estimates", [2, 5])
def test_independent_estimates_have_the_bound_of_sidak(estimates: int) -> None:
    assert confidence_of_each(np.eye(estimates), 0.9, MANY) == pytest.approx(0.9 ** (1 / estimates), abs=2e-3)
    quantile = ndtri(0.9 ** (1 / estimates))
    each = confidence_of_each(np.eye(estimates), 0.9, MANY, two_sided=False)
    assert (1 + each) / 2 == pytest.approx(ndtr(quantile), abs=1e-3)


def test_differences_to_a_common_ranker_have_the_quantile_of_dunnett() -> None:
    common = np.hstack([np.eye(3), np.ones((3, 1))])  # correlations of one half
    each = confidence_of_each(common, 0.95, 20)
    quantile = stdtrit(20, (1 + each) / 2)
    assert quantile == pytest.approx(2.54, abs=0.02)  # Dunnett (1964), table 2
    both = multivariate_t(shape=0.5 * np.eye(3) + 0.5, df=20, seed=0)
    assert both.cdf([quantile] * 3, lower_limit=[-quantile] * 3) == pytest.approx(0.95, abs=3e-3)


def test_what_is_the_same_counts_once_and_what_has_no_error_not_at_all() -> None:
    row = np.random.default_rng(0).normal(size=(1, 30))
    for rows in (row, np.vstack([row, np.zeros_like(row)]), np.vstack([row, 2 * row, -row])):
        assert confidence_of_each(rows, 0.9, 29) == pytest.approx(0.9, abs=3e-3)
    assert confidence_of_each(np.zeros((2, 30)), 0.9, 29) == 0.9
    assert confidence_of_each(row, 0.9, 29, two_sided=False) == pytest.approx(0.8)


@given(seed=st.integers(0, 10**6), estimates=st.integers(1, 4), confidence=st.sampled_from([0.5, 0.9, 0.99]))
def test_it_lies_between_a_single_interval_and_the_bound_of_bonferroni(
    seed: int, estimates: int, confidence: float
) -> None:
    rows = np.random.default_rng(seed).normal(size=(estimates, 5))
    each = confidence_of_each(rows, confidence, 12, seed)
    assert confidence <= each <= 1 - (1 - confidence) / estimates + 1e-12
    assert each == confidence_of_each(2 * rows, confidence, 12, seed)
    one_sided = confidence_of_each(rows, confidence, 12, seed, two_sided=False)
    assert 2 * confidence - 1 <= one_sided <= each
    assert 1 - stdtr(12, stdtrit(12, (1 + one_sided) / 2)) <= 1 - confidence + 1e-12
