from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from cldrank.errors import UsageError
from cldrank.measures.confidence_sequences import every_look_quantile, sample_ratio_evidence


@pytest.mark.parametrize("size", [50.0, 1_000.0, 40_000.0])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_at_the_end_of_the_interval_the_mixture_of_martingales_is_one_over_alpha(
    size: float, confidence: float
) -> None:
    planned, alpha = 1_000.0, 1 - confidence
    rho = np.sqrt((np.log(1 - 2 * np.log(alpha)) - 2 * np.log(alpha)) / planned)
    walk = every_look_quantile(size, planned, confidence) * np.sqrt(size)

    def mixed(slope: float) -> float:
        return float(np.exp(slope * walk - slope**2 * size / 2) * stats.norm.pdf(slope, 0, rho))

    value, _ = integrate.quad(mixed, -10 * rho, 10 * rho, points=[walk / size], limit=500)
    assert value == pytest.approx(1 / alpha, rel=1e-4)


def test_the_interval_is_shortest_near_the_plan() -> None:
    planned = {plan: every_look_quantile(1_000, plan, 0.95) for plan in (100, 1_000, 10_000)}
    assert min(planned, key=planned.__getitem__) == 1_000
    assert every_look_quantile(0, 1_000, 0.95) == np.inf
    assert every_look_quantile(1_000, 1_000, 0.95) > stats.norm.ppf(0.975)


def test_random_walks_leave_the_interval_at_some_look_less_often_than_alpha() -> None:
    walks = np.random.default_rng(0).standard_normal((4_000, 500)).cumsum(axis=1)
    sizes = np.arange(1, 501)
    reach = np.array([every_look_quantile(float(size), 200, 0.9) for size in sizes]) * np.sqrt(sizes)
    left = (np.abs(walks) > reach).any(axis=1).mean()
    assert 0.01 < left < 0.1
    assert (np.abs(walks) > 1.645 * np.sqrt(sizes)).any(axis=1).mean() > 0.4


@pytest.mark.parametrize("share", [0.5, 0.1])
def test_evidence_against_shares_is_a_ratio_of_likelihoods(share: float) -> None:
    prior = 1_000 * np.array([share, 1 - share])
    for new, old in ((3, 5), (300, 900)):
        expected = stats.betabinom.pmf(new, new + old, *prior) / stats.binom.pmf(new, new + old, share)
        assert sample_ratio_evidence([new, old], [share, 1 - share]) == pytest.approx(expected, rel=1e-6)


def test_evidence_of_a_sound_experiment_stays_small_at_every_look() -> None:
    random, crossed = np.random.default_rng(1), 0
    for _ in range(300):
        new = random.binomial(20, 0.3, 60).cumsum()
        looks = [sample_ratio_evidence([n, 20 * at - n], [0.3, 0.7]) for at, n in enumerate(new, start=1)]
        crossed += max(looks) > 20
    assert crossed / 300 <= 0.05
    assert sample_ratio_evidence([10**6, 2 * 10**6], [1, 1]) > 1e300


@pytest.mark.parametrize("arguments", [(10, 0, 0.9), (10, 10, 1.0), (10, 10, 0.0)])
def test_what_cannot_be_planned_is_refused(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError):
        every_look_quantile(*arguments)
