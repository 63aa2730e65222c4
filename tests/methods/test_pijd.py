from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UsageError
from cldrank.methods.heckman import HeckmanRank
from cldrank.methods.naive import Naive
from cldrank.methods.pijd import PIJD
from cldrank.models import Linear, Run

PLAIN = Linear(l2=0.0, scaling=None)
THRESHOLDS = np.array([1.5, 0.8, 0.0])
EFFECTS = np.array([0.5, 0.3, 0.2])
BETA, OMEGA = np.array([0.02, 0.05]), np.array([0.8, -0.6])


def drawn(rows: int, seed: int = 0, kappa: float = 0.03) -> tuple[RankingDataset, ClickTable]:
    """Candidates placed by an ordered probit, clicked as the second stage says, at 1,000 impressions each."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 2)).astype(np.float32)
    noise = random.normal(size=rows)
    level = np.searchsorted(-THRESHOLDS, -(features @ OMEGA + noise))
    shown = level < 3
    position = np.where(shown, level + 1, 0)
    chance = EFFECTS[np.minimum(level, 2)] + features @ BETA + kappa * noise
    clicks = random.binomial(1000, np.clip(chance, 0, 1)) * shown
    data = RankingDataset.from_arrays(features, np.arange(rows) // 50)
    return data, ClickTable.from_arrays(data, position=position, impressions=1000 * shown, clicks=clicks)


def one_place(clicks: ClickTable, data: RankingDataset) -> ClickTable:
    return ClickTable.from_arrays(
        data, row=clicks.row, position=np.ones_like(clicks.row), impressions=clicks.impressions, clicks=clicks.clicks
    )


def test_what_the_data_were_drawn_from_is_found() -> None:
    data, clicks = drawn(20_000)
    model = PIJD(weighting="candidates", position_effects=True, model=replace(PLAIN, cluster="query")).fit(data, clicks)
    assert model.status_ == "converged"
    np.testing.assert_array_equal(model.positions_, [1, 2, 3])
    truth = np.concatenate([BETA, EFFECTS, [0.03], OMEGA, THRESHOLDS])
    away = (model.estimates_.values - truth) / model.estimates_.standard_errors
    assert np.abs(away).max() < 3.5, away
    np.testing.assert_allclose(model.coef_, BETA, atol=0.005)
    np.testing.assert_allclose(model.thresholds_, THRESHOLDS, atol=0.05)
    np.testing.assert_allclose(model.effects_, EFFECTS, atol=0.02)
    # those who do not know of positions take the ranker's taste for relevance
    assert abs(Naive(model=PLAIN).fit(data, clicks).coef_[0] - BETA[0]) > 0.03
    assert abs(HeckmanRank(model=PLAIN).fit(data, clicks).coef_[0] - BETA[0]) > 0.02


@pytest.mark.parametrize("position_effects", [True, False])
@pytest.mark.parametrize("cluster", [None, "query"])
def test_with_one_position_it_is_heckmanrank(position_effects: bool, cluster: Any) -> None:
    data, clicks = drawn(300)
    flat = one_place(clicks, data)
    model = PIJD(position_effects=position_effects, model=Linear(cluster=cluster)).fit(data, flat)
    other = HeckmanRank(model=Linear(cluster=cluster)).fit(data, flat)
    signs = np.append(np.ones(6), -1.0)  # a threshold is minus an intercept
    np.testing.assert_allclose(model.estimates_.values, signs * other.estimates_.values, rtol=1e-9)
    expected = np.outer(signs, signs) * other.estimates_.covariance
    np.testing.assert_allclose(model.estimates_.covariance, expected, rtol=1e-8, atol=1e-15)
    assert (model.rho_, model.sigma_) == (other.rho_, other.sigma_)


def test_one_intercept_for_all_positions_unless_asked() -> None:
    data, clicks = drawn(300)
    model = PIJD().fit(data, clicks)
    assert model.effects_.shape == (1,)
    assert model.thresholds_.shape == (3,)
    assert "(intercept)" in model.estimates_.of("relevance").names


def test_numbers_of_positions_do_not_matter_only_their_order() -> None:
    data, clicks = drawn(300)
    apart = ClickTable.from_arrays(
        data, row=clicks.row, position=3 * clicks.position + 1, impressions=clicks.impressions, clicks=clicks.clicks
    )
    model, other = (PIJD(position_effects=True).fit(data, table) for table in (apart, clicks))
    np.testing.assert_array_equal(model.positions_, [4, 7, 10])
    np.testing.assert_array_equal(model.estimates_.values, other.estimates_.values)
    assert "(position 7)" in model.summary()
    assert "(below position 10)" in model.summary()


def test_a_candidate_shown_in_several_places_counts_in_each() -> None:
    data, clicks = drawn(300)
    row = np.append(clicks.row, clicks.row[:20])
    position = np.append(clicks.position, clicks.position[:20] % 3 + 1)
    counts = np.append(clicks.impressions, np.full(20, 10)), np.append(clicks.clicks, np.full(20, 4))
    table = ClickTable.from_arrays(data, row=row, position=position, impressions=counts[0], clicks=counts[1])
    model = PIJD(run=Run(block_rows=7)).fit(data, table)
    np.testing.assert_allclose(model.estimates_.values, PIJD().fit(data, table).estimates_.values, rtol=1e-9)
    assert model.n_rows_ == len(row) + int((~table.shown).sum())
    weighed = PIJD(weighting="candidates").fit(data, table)
    assert weighed.weight_ == pytest.approx(data.n_rows)


def test_with_everything_shown_the_last_place_has_no_lower_end() -> None:
    data = drawn(300)[0]
    position = np.repeat(1 + np.arange(3), 100)
    table = ClickTable.from_arrays(data, position=position, impressions=np.full(300, 9), clicks=np.arange(300) % 9)
    model = PIJD().fit(data, table)
    assert model.status_ == "converged"
    assert len(model.thresholds_) == 2
    assert np.isfinite(model.estimates_.covariance).all()
    alone = PIJD().fit(data, one_place(table, data))
    assert len(alone.thresholds_) == 0
    np.testing.assert_allclose(alone.coef_, Naive().fit(data, one_place(table, data)).coef_, rtol=1e-8)


def test_without_clicks_it_says_what_it_needs() -> None:
    with pytest.raises(UsageError, match="PIJD needs `clicks`, .*not None"):
        PIJD().fit(drawn(20)[0])
