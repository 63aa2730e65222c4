"""Intervals and tests that hold at every look: people look at an experiment every day, and stop when they like it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from cldrank.arguments import check_number


def every_look_quantile(size: float, planned: float, confidence: float) -> float:
    """How many standard errors an interval reaches that holds at all looks at once, by the law of large samples.

        q(t) = sqrt(2 (t ρ² + 1) / (t ρ²) log(sqrt(t ρ² + 1) / α)),   α = 1 - confidence

    This is the asymptotic confidence sequence of Waudby-Smith et al. (2024), from Robbins' normal mixture. It is
    shortest near `planned`, which must be fixed before the experiment: ρ² = (log(1 - 2 log α) - 2 log α) / planned.
    Sums by person may grow from look to look, as persons come back: where what a person does is like what she did
    before, looks are more alike than those of a random walk, so it holds all the more.

    size      of the sample at the look, in any unit, such as pages
    planned   the size at which the interval is to be shortest, in the same unit

    >>> [round(every_look_quantile(pages, 10_000, 0.95), 2) for pages in (1_000, 10_000, 100_000)]
    [3.86, 3.04, 3.24]
    """
    alpha = 1 - check_number("confidence", confidence, above=0, below=1)
    check_number("planned", planned, above=0)
    if size <= 0:
        return math.inf
    clock = (math.log(1 - 2 * math.log(alpha)) - 2 * math.log(alpha)) * size / planned
    return math.sqrt(2 * (clock + 1) / clock * math.log(math.sqrt(clock + 1) / alpha))


def sample_ratio_evidence(counts: ArrayLike, shares: ArrayLike, strength: float = 1_000.0) -> float:
    """The Bayes factor against the shares that arms were to have, above 1 / α in at most a share α of experiments.

        B(a + counts) / (B(a) Π shares^counts),   a = strength · shares,   B(a) = Π Γ(a) / Γ(Σ a)

    It is a martingale where the shares are right, so that holds however often one looks (Lindon and Malek 2022).

    counts     (arms,) persons in each
    strength   how near other shares are thought to be: as if this many persons had already shown `shares`

    >>> sample_ratio_evidence([5000, 5100], [0.5, 0.5]) < 1 < 1000 < sample_ratio_evidence([5000, 5500], [0.5, 0.5])
    True
    """
    from scipy.special import gammaln

    seen, expected = np.asarray(counts, dtype=np.float64), np.asarray(shares, dtype=np.float64)
    prior = strength * expected / expected.sum()
    log_factor = gammaln(prior + seen).sum() - gammaln(prior.sum() + seen.sum())
    log_factor -= gammaln(prior).sum() - gammaln(prior.sum())
    log_factor -= seen @ np.log(expected / expected.sum())
    return math.exp(min(float(log_factor), 700.0))
