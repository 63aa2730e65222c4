"""The distribution behind counts: known mixtures come back, and nothing makes the counts more likely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import binom

from cldrank.deconvolution import RateCounts, most_likely_mass, posterior_mass


def quantile_of(rates: Any, mass: Any, share: float) -> float:
    """The rate that this share of the candidates lies below."""
    return float(np.interp(share, np.cumsum(mass) - mass / 2, rates))


def drawn(rates: Any, impressions: Any, seed: int = 0) -> RateCounts:
    n = np.broadcast_to(impressions, np.shape(rates))
    return RateCounts.of(np.random.default_rng(seed).binomial(n, rates), n)


def test_a_known_mixture_comes_back() -> None:
    counts = drawn(np.repeat([0.1, 0.5], [3000, 1000]), 200)
    found = rates, mass = counts.fit()
    near = np.abs(rates - 0.5) < 0.06
    assert mass[near].sum() == pytest.approx(0.25, abs=0.01)
    assert mass @ rates == pytest.approx(0.2, abs=0.005)
    assert quantile_of(*found, 0.5) == pytest.approx(0.1, abs=0.02)
    assert quantile_of(*found, 0.9) == pytest.approx(0.5, abs=0.03)


def test_expectations_are_those_of_bayes() -> None:
    counts = drawn(np.random.default_rng(3).beta(2, 5, 300), np.random.default_rng(4).integers(1, 9, 300))
    rates, mass = counts.fit()
    chance = binom.pmf(counts.clicks[:, None], counts.impressions[:, None], rates) * mass
    expected = (chance @ rates / chance.sum(axis=1))[counts.pair]
    np.testing.assert_allclose(counts.expected(), expected, rtol=1e-10)


def test_a_largest_rate_is_kept() -> None:
    rates, _ = RateCounts.of([8, 9], [10, 10]).fit(most=0.5)
    assert rates.max() == 0.5


def test_very_many_pairs_are_made_fewer_and_keep_their_rates() -> None:
    random = np.random.default_rng(0)
    n = random.integers(1, 10**6, 50_000)
    counts = RateCounts.of(random.binomial(n, 0.3), n)
    assert len(counts.number) < 40_000
    assert counts.number.sum() == 50_000
    assert (counts.clicks <= counts.impressions).all()
    assert (counts.impressions >= 1).all()
    assert quantile_of(*counts.fit(), 0.5) == pytest.approx(0.3, abs=0.02)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), min_size=1, max_size=40))
def test_pairs_hold_every_candidate_and_masses_add_up(cells: list[tuple[int, int]]) -> None:
    clicks, impressions = np.array(cells).T
    counts = RateCounts.of(clicks, impressions)
    np.testing.assert_array_equal(counts.clicks[counts.pair], np.minimum(clicks, impressions))
    np.testing.assert_array_equal(counts.impressions[counts.pair], impressions)
    rates, mass = counts.fit()
    assert mass.sum() == pytest.approx(1)
    assert (mass >= 0).all()
    expected = counts.expected()
    assert (expected >= 0).all()
    assert (expected <= 1).all()
    quantiles = [quantile_of(rates, mass, share) for share in (0.1, 0.5, 0.9)]
    assert quantiles == sorted(quantiles)


def test_what_is_known_counts_as_more_candidates() -> None:
    """The masses maximise Σ log(likelihood) + Σ known log(mass), found here by a general optimiser."""
    random = np.random.default_rng(3)
    likelihood, number, known = random.random((6, 4)), random.integers(1, 5, 6).astype(float), np.array([0.5, 2, 0, 1])

    def loss(free: Any) -> float:
        mass = np.exp(free - logsumexp(free))
        return -float(number @ np.log(likelihood @ mass) + known @ np.log(mass))

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    found = most_likely_mass(likelihood, number, known=known, steps=20_000)
    np.testing.assert_allclose(found, np.exp(best - logsumexp(best)), atol=2e-3)
    assert found.sum() == pytest.approx(1)


def test_a_posterior_is_prior_times_likelihood() -> None:
    found = posterior_mass(np.array([[0.2, 0.4], [0.5, 0.0]]), np.array([0.75, 0.25]))
    np.testing.assert_allclose(found, [[0.6, 0.4], [1.0, 0.0]])
    own = posterior_mass(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.1, 0.9], [0.7, 0.3]]))
    np.testing.assert_allclose(own, [[0.1, 0.9], [0.7, 0.3]])  # a prior for each candidate


def test_a_rate_is_clicked_by_its_share() -> None:
    """Two kinds of candidates, each seen by some at a share of 1 and by others at 0.2."""
    rates, share = np.tile([0.2, 0.8], 100), np.repeat([1.0, 0.2], 100)
    n = np.full(200, 10_000)
    counts = RateCounts.of(np.rint(n * rates * share), n, share)
    np.testing.assert_allclose(counts.expected(), rates, atol=0.01)


def test_no_rate_would_gain_by_more_mass() -> None:
    """At the maximum the directional derivative towards any rate is at most 0 (Lindsay 1983)."""
    counts = drawn(np.random.default_rng(1).beta(2, 5, 2000), 20)
    rates, mass = counts.fit()
    chance = binom.pmf(counts.clicks[:, None], counts.impressions[:, None], rates)
    slope = (counts.number / counts.number.sum() / (chance @ mass)) @ chance
    assert slope.max() - 1 < 0.01
