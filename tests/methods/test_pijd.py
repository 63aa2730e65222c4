from dataclasses import replace

import numpy as np
import pytest

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods.heckman import HeckmanRank
from cldrank.methods.naive import Naive
from cldrank.methods.observing import observe
from cldrank.methods.pijd import PIJD
from cldrank.models import Linear, Run
from cldrank.models.fit import Context
from cldrank.rankers import Provenance

PLAIN = Linear(l2=0.0, scaling=None)
THRESHOLDS = np.array([1.5, 0.8, 0.0])
CHANCE = 0.4
BETA, OMEGA = np.array([0.02, 0.05]), np.array([0.8, -0.6])


def drawn(rows: int, seed: int = 0, kappa: float = 0.03) -> tuple[RankingDataset, ClickTable]:
    """Candidates placed by an ordered probit, clicked as the second stage says, at 1,000 impressions each."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 2)).astype(np.float32)
    noise = random.normal(size=rows)
    level = np.searchsorted(-THRESHOLDS, -(features @ OMEGA + noise))
    shown = level < 3
    position = np.where(shown, level + 1, 0)
    chance = CHANCE + features @ BETA + kappa * noise
    clicks = random.binomial(1000, np.clip(chance, 0, 1)) * shown
    data = RankingDataset.from_arrays(features, np.arange(rows) // 50)
    return data, ClickTable.from_arrays(data, position=position, impressions=1000 * shown, clicks=clicks)


def one_place(clicks: ClickTable, data: RankingDataset) -> ClickTable:
    return ClickTable.from_arrays(
        data, row=clicks.row, position=np.ones_like(clicks.row), impressions=clicks.impressions, clicks=clicks.clicks
    )


def test_what_the_data_were_drawn_from_is_found() -> None:
    data, clicks = drawn(20_000)
    observed = observe(data, clicks)
    observed = replace(observed, level=clicks.position, absent=np.where(observed.absent > 0, 1000.0, 0.0))
    context = Context(data, Run(), "PIJD", "clicks", Provenance())
    fit = PLAIN.fit_two_stages(observed, context)
    assert fit.diagnostics.status == "converged"
    assert fit.learned["intercept"] == pytest.approx(CHANCE, abs=0.01)
    assert fit.learned["mills_coefficient"] == pytest.approx(0.03, abs=0.005)
    np.testing.assert_allclose(fit.learned["coef"], BETA, atol=0.005)
    np.testing.assert_allclose(fit.learned["selection_coef"], OMEGA, atol=0.05)
    np.testing.assert_allclose(fit.learned["thresholds"], THRESHOLDS, atol=0.05)
    # those who do not know of positions take the ranker's taste for relevance
    assert abs(Naive(model=PLAIN).fit(data, clicks).coef_[0] - BETA[0]) > 0.01


def test_with_one_position_it_is_heckmanrank() -> None:
    data, clicks = drawn(300)
    flat = one_place(clicks, data)
    model, other = PIJD().fit(data, flat), HeckmanRank().fit(data, flat)
    for name in ("coef_", "intercept_", "selection_coef_", "thresholds_", "mills_coefficient_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name))
    assert other.selection_intercept_ == -other.thresholds_[0]


def test_numbers_of_positions_do_not_matter_only_their_order() -> None:
    data, clicks = drawn(300)
    apart = ClickTable.from_arrays(
        data, row=clicks.row, position=3 * clicks.position + 1, impressions=clicks.impressions, clicks=clicks.clicks
    )
    model, other = (PIJD().fit(data, table) for table in (apart, clicks))
    np.testing.assert_array_equal(model.positions_, [4, 7, 10])
    np.testing.assert_array_equal(model.coef_, other.coef_)
    np.testing.assert_array_equal(model.thresholds_, other.thresholds_)


def test_with_everything_shown_the_last_place_has_no_lower_end() -> None:
    data = drawn(300)[0]
    position = np.repeat(1 + np.arange(3), 100)
    table = ClickTable.from_arrays(data, position=position, impressions=np.full(300, 9), clicks=np.arange(300) % 9)
    model = PIJD().fit(data, table)
    assert model.status_ == "converged"
    assert len(model.thresholds_) == 2
    alone = PIJD().fit(data, one_place(table, data))
    assert len(alone.thresholds_) == 0
    np.testing.assert_allclose(alone.coef_, Naive().fit(data, one_place(table, data)).coef_, rtol=1e-8)
