"""What Agarwal et al. (2019) claim of Bayes-IPS, and what Vardasbi et al. (2020) add: exact, by expected clicks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import cldrank as cr
from cldrank.methods.bayes_ips import BayesIPS
from cldrank.methods.evidence import Evidence
from cldrank.propensity import AffineClicks

PAGES = 10_000
EXAMINED = 1 / np.arange(1, 6)
TRUST = AffineClicks.of(EXAMINED, 0.98, 0.65 / np.arange(1, 6))  # the numbers of the paper's simulation
NO_TRUST = AffineClicks.of(EXAMINED, 0.98, 0.0)


def clicks_at(position: NDArray[np.int64], relevance: NDArray[np.float64], trust: AffineClicks) -> cr.ClickTable:
    """Clicks at their expectation, one candidate per query."""
    data = cr.RankingDataset.from_arrays(relevance[:, None], np.arange(len(relevance)))
    slope, base = trust.at(position)
    clicked = np.rint(PAGES * (slope * relevance + base)).astype(int)
    return cr.ClickTable.from_arrays(data, position=position, impressions=np.full(len(position), PAGES), clicks=clicked)


def learned(method: object, relevance: float, trust: AffineClicks = TRUST) -> NDArray[np.float64]:
    """The targets of the same relevance at each position, over the first."""
    position = np.arange(1, 6)
    clicks = clicks_at(position, np.full(5, relevance), trust)
    data = cr.RankingDataset.from_arrays(np.full((5, 1), relevance), np.arange(5))
    evidence = Evidence(data, clicks, trust)
    found: NDArray[np.float64] = method.targets(evidence).target  # type: ignore[attr-defined]
    return np.asarray(found / found[0])


def ips(relevance: float) -> NDArray[np.float64]:
    """The same of IPS, which knows the examination alone."""
    position = np.arange(1, 6)
    clicks = clicks_at(position, np.full(5, relevance), TRUST)
    rate = clicks.clicks / clicks.impressions / EXAMINED
    return np.asarray(rate / rate[0])


class TestClaims:
    def test_without_trust_it_is_ips(self) -> None:
        np.testing.assert_allclose(learned(BayesIPS(), 0.3, NO_TRUST), 1.0, rtol=0.01)

    def test_a_result_as_likely_relevant_as_not_counts_alike_at_all_positions(self) -> None:
        np.testing.assert_allclose(learned(BayesIPS(), 0.5), 1.0, rtol=0.01)

    @pytest.mark.parametrize("relevance", [0.05, 0.2, 0.4, 0.6])
    def test_positions_distort_it_less_than_ips_unless_all_is_relevant(self, relevance: float) -> None:
        assert np.abs(np.log(learned(BayesIPS(), relevance))).max() < np.abs(np.log(ips(relevance))).max()

    def test_it_is_not_unbiased_where_affine_ips_is(self) -> None:
        assert np.abs(np.log(learned(BayesIPS(), 1.0))).max() > 0.2  # where IPS would be right: trust adds nothing
        np.testing.assert_allclose(ips(1.0), 1.0, rtol=0.01)
        np.testing.assert_allclose(learned(cr.AffineIPS(), 1.0), 1.0, rtol=0.01)
