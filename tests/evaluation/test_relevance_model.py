from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from simulated_clicks import Floats, SimulatedClicks, simulated

import cldrank as cr
from cldrank.clicks.simulate import FirstSwaps
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.evaluation import relevance_model
from cldrank.evaluation.exposure import LoggedClicks, ScoreOrder
from cldrank.evaluation.relevance_model import RelevanceModel, fit_model
from cldrank.propensity import AffineClicks


@dataclass
class Spy:
    """Stands in for fits: predicts how many there were before, and keeps what they were given."""

    given: list[tuple[RankingDataset, ClickTable, RankingDataset]] = field(default_factory=list)
    fails_at_depth: int = 0

    def __call__(self, log: LoggedClicks, wanted: RankingDataset, seed: int) -> Floats:
        del seed
        if log.clicks.depth == self.fails_at_depth:
            raise DataError("nothing to learn from.")
        self.given.append((log.data, log.clicks, wanted))
        return np.full(wanted.n_rows, 0.1 * len(self.given))


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    spy = Spy()
    monkeypatch.setattr(relevance_model, "_predictions", spy)
    return spy


@pytest.fixture(scope="module")
def world() -> SimulatedClicks:
    return simulated()


def test_nothing_is_predicted_from_clicks_on_itself(world: SimulatedClicks, spy: Spy) -> None:
    found = fit_model(world.log, folds=5)
    assert len(spy.given) == 5 + 2  # two more for the check
    assert found.groups.shape == (5, world.data.n_rows)
    groups = np.rint(found.predicted / 0.1).astype(int) - 1  # which fit each prediction is of
    for fit, (data, clicks, wanted) in enumerate(spy.given[:5]):
        learned = set(data.query_ids.tolist())
        own = set(world.data.query_ids[np.unique(world.log.queries[groups == fit])].tolist())
        assert not learned & own
        assert len(own) == 12
        assert learned | own == set(world.data.query_ids.tolist())
        assert len(clicks) == data.n_queries
        assert wanted.n_rows == world.data.n_rows


@pytest.mark.parametrize(("depth", "n_hidden"), [(2, 1), (4, 1), (5, 2)])
def test_the_check_learns_from_the_upper_positions_alone(depth: int, n_hidden: int, spy: Spy) -> None:
    found: Any = fit_model(simulated(depth=depth, sessions=2000).log, folds=2)
    depths = [clicks.depth for _, clicks, _ in spy.given]
    assert depths == [depth] * 2 + [depth - n_hidden] * 2
    assert set(np.rint(10 * found.hidden).tolist()) == {3, 4}  # of the third and fourth fit
    own = np.rint(10 * found.predicted)
    assert np.rint(10 * found.hidden).tolist() == (own + 2).tolist()  # each leaves out the same queries


def test_results_that_are_mostly_shown_below_are_hidden_with_all_their_clicks(spy: Spy) -> None:
    world = simulated(sessions=30_000, policy=FirstSwaps(0.6))
    found = fit_model(world.log, folds=2)
    for row in range(world.data.n_rows):
        own = world.clicks.row == row
        shown, position = world.clicks.impressions[own], world.clicks.position[own]
        assert found.lowest[row] == bool(len(shown) and (shown @ position) / shown.sum() > 3)
    assert 20 < found.lowest.sum() < 80
    for _, clicks, _ in spy.given[2:]:
        assert len(clicks.row)
    learned = sum(clicks.shown.sum() for _, clicks, _ in spy.given[2:])
    assert learned == world.clicks.shown.sum() - found.lowest.sum()


def test_orders_that_are_judged_are_features(world: SimulatedClicks, spy: Spy) -> None:
    orders = [ScoreOrder.of(name, scores, world.log) for name, scores in (("a", world.good), ("b", world.bad))]
    fit_model(world.log, orders=orders, folds=2)
    assert len(spy.given) == 4
    for data, _, wanted in spy.given:
        assert data.n_features == wanted.n_features == 3 + 4
        assert wanted.features[:, :3].tolist() == world.data.features.tolist()
        for at, one in enumerate(orders):
            discounts = [1 / math.log2(rank + 1) for rank in one.ranks]
            on_page = [value if rank <= 4 else 0.0 for value, rank in zip(discounts, one.ranks, strict=True)]
            assert wanted.features[:, 3 + 2 * at] == pytest.approx(discounts)
            assert wanted.features[:, 4 + 2 * at] == pytest.approx(on_page)


def test_a_check_that_cannot_be_made_is_left_out(world: SimulatedClicks, spy: Spy) -> None:
    spy.fails_at_depth = 3
    found = fit_model(world.log, folds=2)
    assert found.hidden is None
    spy.fails_at_depth = 4
    with pytest.raises(DataError, match="nothing to learn from"):
        fit_model(world.log, folds=2)


def test_too_few_queries_are_refused(spy: Spy) -> None:
    del spy
    small = simulated(queries=19, sessions=500)
    with pytest.raises(DataError, match="20 queries, and there are 19"):
        fit_model(small.log)
    fit_model(simulated(queries=20, sessions=500).log)


def test_queries_that_were_never_searched_are_not_learned_from(world: SimulatedClicks, spy: Spy) -> None:
    clicks = world.clicks.where(world.log.queries[world.clicks.row] < 30)
    fit_model(LoggedClicks(world.data, clicks, world.rho), folds=2)
    assert sum(data.n_queries for data, _, _ in spy.given[:2]) == 30


def test_many_queries_are_drawn_from(world: SimulatedClicks, spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cldrank.evaluation.relevance_model._MOST_QUERIES", 7)
    fit_model(world.log, folds=3)
    assert [data.n_queries for data, _, _ in spy.given] == [7] * 5


def test_missing_values_count_as_the_mean_of_their_feature(world: SimulatedClicks, spy: Spy) -> None:
    features = np.array(world.data.features)
    features[::7, 0] = np.nan
    features[:, 2] = np.nan
    ids = world.data.query_ids[world.log.queries]
    data = RankingDataset.from_arrays(features, ids, missing="keep")
    fit_model(LoggedClicks(data, ClickTable.from_arrays(data, **cells(world.clicks)), world.rho), folds=2)
    assert len(spy.given) == 4
    for learned, _, wanted in spy.given:
        assert not learned.has_missing
        assert not wanted.has_missing
        assert wanted.features[::7, 0] == pytest.approx(np.nanmean(features[:, 0]), abs=1e-6)
        assert not wanted.features[:, 2].any()
        assert wanted.features[1, 0] == features[1, 0]


def cells(clicks: ClickTable) -> dict[str, Any]:
    return {name: getattr(clicks, name) for name in ("row", "position", "impressions", "clicks")}


def test_variance_is_that_of_fits_without_a_group() -> None:
    random = np.random.default_rng(0)
    sample = random.random(20)
    left_out = np.array([np.delete(sample, at).mean() for at in range(20)])
    model = RelevanceModel(sample, sample[None], None, sample > 1)
    assert model.variance(left_out) == pytest.approx(sample.var(ddof=1) / 19)  # of a mean, that of 19 of them
    assert model.variance(np.full(5, 0.3)) == pytest.approx(0)


def test_relevance_is_learned_on_its_own_scale() -> None:
    world, fresh = simulated(queries=60, sessions=20_000), simulated(queries=60, seed=1)
    found = relevance_model._predictions(world.log, fresh.data, seed=0)
    assert found.min() >= 0
    assert found.max() <= 1
    assert np.corrcoef(found, fresh.relevance)[0, 1] > 0.6
    assert found.mean() == pytest.approx(fresh.relevance.mean(), abs=0.15)
    shown = world.clicks.impressions
    trusting = replace(world.clicks, clicks=world.clicks.clicks + shown, impressions=2 * shown)
    curve = AffineClicks(world.rho.values / 2, np.full(4, 0.5))
    other = relevance_model._predictions(LoggedClicks(world.data, trusting, curve), fresh.data, seed=0)
    assert other == pytest.approx(found, abs=0.01)  # half is clicked in any case, and the curve knows


def test_the_judge_learns_for_the_orders_that_it_judges(world: SimulatedClicks) -> None:
    judge = cr.evaluation.ClickJudge.of(world.data, world.clicks, world.rho)
    order = ScoreOrder.of("new", world.good, world.log)
    learned, reason = judge.learned(order)
    assert not reason
    assert learned.model is not None
    assert learned.model.predicted.tolist() == fit_model(world.log, orders=[order]).predicted.tolist()
