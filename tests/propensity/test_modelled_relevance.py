"""Estimators that model relevance by features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.cross_decomposition import CCA

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import DataError, UnidentifiableError
from cldrank.models import Epoch, Linear, Run
from cldrank.propensity import AllPairs, DualLearning, RegressionEM
from cldrank.propensity.cells import Cells, draw_weights
from cldrank.propensity.modelled_relevance import NETWORK, ExaminedRegression, ShownCandidates, explained_order
from tests.propensity.conftest import on_candidates

DEPTH = 5
TRUTH = 1 / np.arange(1, DEPTH + 1)


def objective_of(data: cr.RankingDataset, clicks: ClickTable, l2: float = 1e-3) -> ExaminedRegression:
    cells = Cells.of(clicks, None, 0)
    rows, row = np.unique(cells.row, return_inverse=True)
    return ExaminedRegression(cells, data.features[rows], row, l2)


@pytest.mark.parametrize("follows", [0.0, 4.0])
def test_it_finds_the_truth_under_its_own_model(logistic: Any, follows: float) -> None:
    data, clicks = logistic(follows)
    rho: Any = RegressionEM().fit(clicks, data)
    assert np.abs(np.log(rho.values / TRUTH)[1:] / rho.errors[1:]).max() < 4
    assert rho.errors.max() < 0.05
    assert (rho.method, rho.values[0]) == ("RegressionEM", 1)


class TestTheLikelihood:
    def test_gradient_and_hessian_are_those_of_differences(self, logistic: Any) -> None:
        objective = objective_of(*logistic(1.0, queries=60))
        point = objective.start + np.random.default_rng(1).normal(0, 0.05, len(objective.start))
        here = objective(point)
        steps = 1e-5 * np.eye(len(point))
        slopes = [(objective(point + step).value - objective(point - step).value) / 2e-5 for step in steps]
        np.testing.assert_allclose(here.gradient, slopes, atol=1e-8)
        bends = [(objective(point + step).gradient - objective(point - step).gradient) / 2e-5 for step in steps]
        np.testing.assert_allclose(here.hessian, bends, atol=1e-7)

    def test_an_independent_optimiser_agrees(self, logistic: Any) -> None:
        data, clicks = logistic(1.0, queries=60)
        objective = objective_of(data, clicks)
        rho = RegressionEM(model=Linear(l2=1e-3, scaling=None)).fit(clicks, data)

        def loss(point: Any) -> float:
            scores = data.features[clicks.row] @ point[DEPTH - 1 : -1] + point[-1]
            q = np.append(1, np.exp(point[: DEPTH - 1]))[clicks.position - 1] / (1 + np.exp(-scores))
            likelihood = (clicks.clicks * np.log(q) + (clicks.impressions - clicks.clicks) * np.log1p(-q)).sum()
            return float(-likelihood / clicks.impressions.sum() + 1e-3 * (point[DEPTH - 1 : -1] ** 2).sum())

        other = minimize(loss, objective.start, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(rho.values, np.append(1, np.exp(other.x[: DEPTH - 1])), rtol=1e-5)


def test_one_newton_step_a_replicate_is_nearly_a_refit(logistic: Any) -> None:
    data, clicks = logistic(1.0, queries=100)
    estimator = RegressionEM(model=Linear(l2=1e-3))
    rho: Any = estimator.fit(clicks, data)
    cells = Cells.of(clicks, None, 0)
    weights = draw_weights(cells.n_groups, 400, 0)[1:9].astype(np.int64)
    for draw, weight in zip(rho.replicates, weights, strict=False):
        times = weight[cells.group]
        again = ClickTable(
            clicks.candidates, clicks.row, clicks.position, clicks.impressions * times, clicks.clicks * times
        )
        np.testing.assert_allclose(draw, estimator.fit(again, data).values, rtol=0.02)


class TestConfounding:
    def test_the_notes_say_how_much_of_the_order_is_explained(self, logistic: Any) -> None:
        data, clicks = logistic(4.0, hidden=1.5)
        rho: Any = RegressionEM().fit(clicks, data)
        assert (rho.high[1:] < TRUTH[1:]).all()  # wrong, and beyond its interval: so the notes must caution
        assert any(note.startswith("features explain ") for note in rho.notes)

    def test_features_that_tell_the_position_are_refused(self, logistic: Any) -> None:
        data, clicks = logistic(1.0)
        position = np.zeros(data.n_rows)
        position[clicks.row] = clicks.position
        told = cr.RankingDataset.from_arrays(np.column_stack([data.features, position]), data.row_queries)
        table = on_candidates(told, clicks)
        with pytest.raises(UnidentifiableError, match="relevance from position"):
            RegressionEM().fit(table, told)


class TestRefusals:
    def test_another_dataset(self, logistic: Any) -> None:
        data, clicks = logistic(1.0, queries=60)
        with pytest.raises(DataError):
            RegressionEM().fit(clicks, data[:10])

    def test_a_position_without_clicks(self, logistic: Any) -> None:
        data, clicks = logistic(1.0, queries=60)
        silent = np.where(clicks.position == 3, 0, clicks.clicks)
        table = ClickTable(clicks.candidates, clicks.row, clicks.position, clicks.impressions, silent)
        with pytest.raises(UnidentifiableError, match="position 3"):
            RegressionEM().fit(table, data)


def test_interventions_test_the_curve(world: Any) -> None:
    log = world.two_rankers()
    rng = np.random.default_rng(0)
    known = cr.RankingDataset.from_arrays(
        np.column_stack([world.data.labels, rng.normal(size=world.data.n_rows)]), world.data.row_queries
    )
    rho: Any = RegressionEM().fit(on_candidates(known, log), known)
    pairs = AllPairs().fit(log)
    np.testing.assert_allclose(rho.values, pairs.values, rtol=0.1)


def test_what_features_tell_of_the_order_is_a_canonical_correlation(logistic: Any) -> None:
    data, clicks = logistic(2.0)
    cells = Cells.of(clicks, None, 0)
    rows, row = np.unique(cells.row, return_inverse=True)
    own, place = data.features[rows][row].astype(np.float64), np.eye(DEPTH)[cells.place][:, 1:]
    one, two = CCA(1, max_iter=5000, tol=1e-10).fit(own, place).transform(own, place)
    share = np.corrcoef(one[:, 0], two[:, 0])[0, 1] ** 2
    adjusted = 1 - (1 - share) * (len(row) - 1) / (len(row) - 4 - 1)
    assert explained_order(ShownCandidates(cells, row, data.features[rows])) == pytest.approx(adjusted, rel=1e-6)


# -- dual learning ----------------------------------------------------------------------------------------------------


NETWORK_OF_16 = replace(NETWORK, hidden=(16,), dropout=0.0, learning_rate=1e-2)
SMALL: dict[str, Any] = {"model": NETWORK_OF_16, "refits": 3}


def test_a_ranker_that_follows_relevance(logistic: Any) -> None:
    data, clicks = logistic(1.5, queries=150)
    rho: Any = DualLearning(**SMALL).fit(clicks, data)
    np.testing.assert_allclose(rho.values, TRUTH, rtol=0.15)
    assert (rho.low <= rho.values).all()
    assert (rho.values <= rho.high).all()


def test_the_same_seed_gives_the_same_curve(logistic: Any) -> None:
    data, clicks = logistic(0.0, queries=80)
    short = SMALL | {"model": replace(NETWORK_OF_16, epochs=3), "refuse_above": 9}
    fits = [DualLearning(**short, seed=seed).fit(clicks, data) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].values, fits[1].values)
    np.testing.assert_array_equal(fits[0].low, fits[1].low)
    assert not np.array_equal(fits[0].values, fits[2].values)


def test_networks_that_disagree_are_refused(logistic: Any) -> None:
    data, clicks = logistic(0.0, queries=60, sessions=20)
    with pytest.raises(UnidentifiableError, match="dual-learning"):
        DualLearning(**SMALL | {"model": replace(NETWORK_OF_16, epochs=10)}, refuse_above=0.001).fit(clicks, data)


def test_an_interruption_leaves_no_half_trained_curve(logistic: Any) -> None:
    data, clicks = logistic(0.0, queries=60)
    seen = []

    def interrupt(epoch: Epoch) -> None:
        seen.append(epoch.number)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DualLearning(model=replace(NETWORK_OF_16, epochs=4), run=Run(on_epoch=interrupt)).fit(clicks, data)
    assert seen == [1, 2]  # nor does it go on with the next network
