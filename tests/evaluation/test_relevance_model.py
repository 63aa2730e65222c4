from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from simulated_clicks import SimulatedClicks, simulated

from cldrank.clicks.ratings import Ratings
from cldrank.clicks.simulate import FirstSwaps
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.evaluation import relevance_model
from cldrank.evaluation.exposure import LoggedClicks
from cldrank.evaluation.relevance_model import (
    NEVER_SHOWN,
    OFF,
    OFF_BY_PEOPLE,
    RATED_BY_PEOPLE,
    HiddenCheck,
    RelevanceModel,
    fit_model,
    query_factors,
)
from cldrank.propensity import AffineClicks, Propensities

Flags = NDArray[np.bool_]


class Spy:
    """Stands in for fits: predicts .1 times how many there were before, and keeps the rows that were learned from."""

    def __init__(self) -> None:
        self.learned: list[Flags] = []

    def __call__(self, learned: Flags) -> NDArray[np.float64]:
        self.learned.append(learned)
        predicted = np.full(len(learned), 0.1 * len(self.learned))
        return np.stack([predicted + 0.02, predicted - 0.02])  # the linear model, and the trees


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    made = Spy()
    monkeypatch.setattr(relevance_model._Table, "predictions", lambda _, learned, __: made(learned))
    return made


@pytest.fixture(scope="module")
def world() -> SimulatedClicks:
    return simulated()


def test_nothing_is_predicted_from_clicks_on_its_own_query(world: SimulatedClicks, spy: Spy) -> None:
    model, log = fit_model(world.log, folds=5), world.log
    assert len(spy.learned) == 5 + 2  # two more for the check
    assert model.groups.shape == (5, world.data.n_rows)
    share = np.where(log.seen, 1.0, NEVER_SHOWN)
    fits = np.rint(10 * model.predicted / share).astype(int) - 1  # which of them each prediction is of
    for fit, learned in enumerate(spy.learned[:5]):
        own = set(log.queries[log.seen & (fits == fit)].tolist())
        assert not own & set(log.queries[learned].tolist())
        assert len(own) == 12
        assert not learned[~log.seen].any()
        assert set(log.queries[learned].tolist()) | own == set(range(60))


def test_queries_with_the_same_candidates_are_left_out_together(world: SimulatedClicks, spy: Spy) -> None:
    rows = np.concatenate([np.arange(world.data.n_rows), np.arange(80)])  # the first ten queries twice
    ids = np.concatenate([world.log.queries, 60 + world.log.queries[:80]])
    data = RankingDataset.from_arrays(world.data.features[rows], ids)
    cells = np.concatenate([np.arange(len(world.clicks.row)), np.flatnonzero(world.clicks.row < 80)])
    row = np.where(np.arange(len(cells)) < len(world.clicks.row), 0, world.data.n_rows) + world.clicks.row[cells]
    counts = {name: getattr(world.clicks, name)[cells] for name in ("position", "impressions", "clicks")}
    fit_model(LoggedClicks(data, ClickTable.from_arrays(data, row=row, **counts), world.rho))
    for learned in spy.learned[:5]:
        assert (learned[:80] == learned[world.data.n_rows :]).all()


def test_what_was_never_shown_counts_less_and_is_less_certain(
    world: SimulatedClicks, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spy
    monkeypatch.setattr(relevance_model, "query_factors", lambda log, *_: np.ones(log.data.n_queries))
    model, seen = fit_model(world.log), world.log.seen
    assert set(np.round(10 * model.predicted[seen]).tolist()) == {1, 2, 3, 4, 5}
    assert model.predicted[~seen].max() == pytest.approx(0.5 * NEVER_SHOWN)
    assert model.apart[seen] == pytest.approx(0.02)
    assert model.apart[~seen] == pytest.approx(0.02 * NEVER_SHOWN)
    assert model.spread[~seen] == pytest.approx(OFF * model.predicted[~seen])


@dataclass(frozen=True)
class Uneven:
    """Queries whose results are all half or all one and a half times as relevant as features tell."""

    log: LoggedClicks
    predicted: NDArray[np.float64]
    factor: NDArray[np.float64]
    examined: Flags

    @classmethod
    def of(cls, seed: int, uneven: float = 0.5, pages: int = 50) -> Uneven:
        random = np.random.default_rng(seed)
        factor = 1 + uneven * np.where(np.arange(400) % 2, 1, -1)
        predicted = random.uniform(0.05, 0.5, 4000)
        examined = np.tile(np.arange(10) < 5, 400)
        cells: dict[str, Any] = {
            "row": np.flatnonzero(examined),
            "position": np.ones(2000, dtype=int),
            "impressions": [pages] * 2000,
        }
        clicked = random.binomial(pages, (predicted * np.repeat(factor, 10))[examined])
        data = RankingDataset.from_arrays(np.zeros((4000, 1)), np.repeat(np.arange(400), 10))
        clicks = ClickTable.from_arrays(data, **cells, clicks=clicked)
        return cls(LoggedClicks(data, clicks, Propensities.power(1, 1)), predicted, factor, examined)


def test_a_query_that_is_clicked_more_than_predicted_counts_more() -> None:
    uneven = Uneven.of(0)
    factors = query_factors(uneven.log, uneven.predicted, uneven.examined)
    assert factors[1::2].mean() == pytest.approx(1.5, abs=0.05)
    assert factors[::2].mean() == pytest.approx(0.5, abs=0.05)


def test_few_clicks_say_less_of_a_query() -> None:
    uneven = Uneven.of(0, pages=1)
    factors = query_factors(uneven.log, uneven.predicted, uneven.examined)
    assert 1.02 < factors[1::2].mean() < 1.4
    assert np.abs(factors - uneven.factor).mean() < np.abs(1 - uneven.factor).mean()


def test_queries_that_differ_by_chance_alone_count_as_predicted() -> None:
    even = Uneven.of(0, uneven=0.0)
    assert query_factors(even.log, even.predicted, even.examined) == pytest.approx(1, abs=0.03)


def test_queries_count_as_predicted_where_display_probabilities_are_known() -> None:
    uneven = Uneven.of(0)
    known = uneven.log.clicks.with_display(np.where(uneven.examined, 0.2, 0.0)[:, None])
    log = LoggedClicks(uneven.log.data, known, uneven.log.curve)
    assert set(query_factors(log, uneven.predicted, uneven.examined).tolist()) == {1.0}


def test_never_shown_results_are_predicted_by_the_clicks_of_their_query() -> None:
    uneven = Uneven.of(1)
    features = np.repeat(uneven.predicted[:, None], 2, axis=1)
    data = RankingDataset.from_arrays(features, uneven.log.queries)
    cells = {name: getattr(uneven.log.clicks, name) for name in ("row", "position", "impressions", "clicks")}
    model = fit_model(LoggedClicks(data, ClickTable.from_arrays(data, **cells), uneven.log.curve))
    never = ~uneven.examined
    relevance = (uneven.predicted * np.repeat(uneven.factor, 10))[never]
    assert np.corrcoef(model.predicted[never], relevance)[0, 1] > 0.9


def test_how_far_a_sum_may_be_off() -> None:
    check = HiddenCheck(0.2, 0.2, 0.01)
    model = RelevanceModel(
        np.array([0.5, 0.2]), np.array([0.05, 0.08]), np.zeros((1, 2)), np.array([0.03, -0.01]), check
    )
    ours, theirs, apart = 2 * 0.5 * 0.1, 0.2 * 0.4, 2 * 0.03 + 0.01
    expected = np.sqrt((ours - theirs) ** 2 + ((ours + theirs) / 2) ** 2 + apart**2)
    assert model.off(np.array([2.0, -1.0])) == pytest.approx(expected)
    assert model.off(np.zeros(2)) == 0
    assert replace(model, hidden=None).off(np.array([2.0, -1.0])) == 3


@pytest.mark.parametrize(("depth", "n_hidden"), [(2, 1), (4, 1), (5, 2)])
def test_the_check_learns_from_the_upper_positions_alone(depth: int, n_hidden: int, spy: Spy) -> None:
    world = simulated(depth=depth, sessions=2000)
    model: Any = fit_model(world.log, folds=2)
    lowest = np.zeros(world.data.n_rows, dtype=bool)
    lowest[world.clicks.row[world.clicks.position > depth - n_hidden]] = True
    for learned in spy.learned[2:]:
        assert learned.any()
        assert not learned[lowest].any()
    exposure = world.log.exposure[lowest].sum()
    assert model.hidden.observed == pytest.approx(world.log.excess_clicks[lowest].sum() / exposure)
    assert 0.3 < model.hidden.predicted < 0.4  # by the third and the fourth fit
    log = world.log
    predicted = np.where(np.isin(log.queries, log.queries[spy.learned[2]]), 0.4, 0.3)  # by the fit that left it out
    predicted *= query_factors(log, predicted, log.seen & ~lowest)[log.queries]
    missed = np.where(lowest, log.excess_clicks - log.exposure * predicted, 0.0)
    by_query = np.bincount(log.queries, missed)
    assert model.hidden.error == pytest.approx(np.sqrt((by_query**2).sum()) / exposure)
    assert 0 < model.hidden.error < 0.2


def test_results_that_are_mostly_shown_below_are_hidden_with_all_their_clicks(spy: Spy) -> None:
    world = simulated(sessions=30_000, policy=FirstSwaps(0.6))
    fit_model(world.log, folds=2)
    learned = np.logical_or(*spy.learned[2:])
    for row in np.flatnonzero(world.log.seen):
        own = world.clicks.row == row
        shown, position = world.clicks.impressions[own], world.clicks.position[own]
        assert learned[row] == ((shown @ position) / shown.sum() <= 3)


def test_a_check_that_cannot_be_made_is_left_out(spy: Spy) -> None:
    del spy
    world = simulated(depth=1, sessions=2000)
    assert fit_model(world.log, folds=2).hidden is None


def test_too_few_queries_are_refused(spy: Spy) -> None:
    del spy
    with pytest.raises(DataError, match="20 queries, and there are 19"):
        fit_model(simulated(queries=19, sessions=500).log)
    fit_model(simulated(queries=20, sessions=500).log)


def test_many_queries_are_drawn_from(world: SimulatedClicks, spy: Spy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relevance_model, "_MOST_QUERIES", 7)
    fit_model(world.log, folds=3)
    assert len(np.unique(world.log.queries[np.logical_or.reduce(spy.learned)])) == 7


def test_it_learns_clicks_over_examinations_from_features_with_gaps() -> None:
    world = simulated(queries=300, sessions=60_000)
    features = np.array(world.data.features)
    features[::7, 0] = np.nan
    features[:, 2] = np.nan
    data = RankingDataset.from_arrays(features, world.log.queries, missing="keep")
    cells = {name: getattr(world.clicks, name) for name in ("row", "position", "impressions", "clicks")}
    model = fit_model(LoggedClicks(data, ClickTable.from_arrays(data, **cells), world.rho))
    full = fit_model(world.log)
    known = ~np.isnan(features[:, 0]) & ~world.log.seen
    for each, least, far in ((full, 0.7, 0.15), (model, 0.6, 0.4)):
        assert np.corrcoef(each.predicted[known], world.relevance[known])[0, 1] > least
        assert each.predicted[known].mean() == pytest.approx(NEVER_SHOWN * world.relevance[known].mean(), rel=far)
        assert ((each.predicted >= 0) & (each.predicted <= 1)).all()


def test_the_same_log_gives_the_same_model(world: SimulatedClicks) -> None:
    first, again, other = (fit_model(world.log, seed=seed) for seed in (0, 0, 1))
    assert first.predicted.tolist() == again.predicted.tolist() != other.predicted.tolist()


def test_a_base_is_no_relevance(world: SimulatedClicks) -> None:
    affine = AffineClicks(world.rho.values, np.full(4, 0.05))
    lower, usual = (fit_model(replace(world.log, curve=curve)) for curve in (affine, world.rho))
    assert lower.predicted.mean() < usual.predicted.mean() - 0.03


# -- ratings -------------------------------------------------------------------------------------------------------


def rated(world: SimulatedClicks, machine: Any, people: Any = np.nan) -> LoggedClicks:
    by_people, by_machines = (np.broadcast_to(values, world.data.n_rows).astype(float) for values in (people, machine))
    return LoggedClicks(world.data, world.clicks.rated(Ratings(by_people, by_machines)), world.rho)


def test_ratings_that_agree_with_clicks_make_predictions_better(world: SimulatedClicks) -> None:
    without, with_them = fit_model(world.log), fit_model(rated(world, world.relevance))
    never = ~world.log.seen
    errors = [np.abs(model.predicted - world.relevance)[never].mean() for model in (without, with_them)]
    assert errors[1] < 0.5 * errors[0]


def test_what_is_not_rated_is_predicted_as_without_ratings(world: SimulatedClicks) -> None:
    some = np.where(np.arange(world.data.n_rows) % 2 == 0, world.relevance, np.nan)
    without, with_them = fit_model(world.log), fit_model(rated(world, some))
    unrated = np.arange(world.data.n_rows) % 2 == 1
    shown, never = unrated & world.log.seen, unrated & ~world.log.seen
    np.testing.assert_array_equal(with_them.groups[:, shown], without.groups[:, shown])
    # what shown results are rated changes by how much their query is more relevant than predicted
    np.testing.assert_allclose(with_them.groups[:, never], without.groups[:, never], rtol=0.1)
    assert (with_them.groups[:, ::2] != without.groups[:, ::2]).any()


def test_ratings_that_do_not_agree_with_clicks_change_nothing(world: SimulatedClicks) -> None:
    without, with_them = fit_model(world.log), fit_model(rated(world, -world.relevance))
    np.testing.assert_array_equal(with_them.groups, without.groups)


def test_what_people_rated_is_more_certain(world: SimulatedClicks) -> None:
    never = ~world.log.seen
    by_machine, by_people = fit_model(rated(world, world.relevance)), fit_model(rated(world, np.nan, world.relevance))
    assert by_people.spread[never] == pytest.approx(OFF_BY_PEOPLE * by_people.predicted[never])
    assert by_people.predicted[never] == pytest.approx(by_machine.predicted[never] * RATED_BY_PEOPLE / NEVER_SHOWN)
    assert (by_people.by_people, by_machine.by_people) == (never.sum(), 0)
