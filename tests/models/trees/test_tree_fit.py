"""Boosted trees: what is fitted, when it ends, and what is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from numpy.typing import NDArray
from scenes import scene
from small_models import GIVEN_TREES, small_boosted, stop_after

import cldrank as cr
from cldrank.errors import ConvergenceWarning, DataError, UsageError
from cldrank.models import Epoch, Trees
from cldrank.models.pairs import PairLoss
from cldrank.models.trees import boosting, tree_fit
from cldrank.rankers import TreeRanker


def labelled(queries: int = 60, size: int = 8, seed: int = 0) -> cr.RankingDataset:
    """Queries whose labels depend on two features, in a way that is not linear."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(queries * size, 4))
    chance = features[:, 0] ** 2 + np.abs(features[:, 1])
    return cr.RankingDataset.from_arrays(features, np.arange(queries * size) // size, (chance > 1.5) + (chance > 3))


# -- what is fitted ------------------------------------------------------------------------------------------------


class PlainTree:
    """Nodes split by the best gain, the next split being that of the leaf that gains most; numpy and nothing else."""

    def __init__(self, x: NDArray[Any], gradient: NDArray[Any], hessian: NDArray[Any], model: Trees) -> None:
        self.x, self.g, self.h, self.model = x, gradient, hessian, model
        leaves = [np.ones(len(x), dtype=bool)]
        while len(leaves) < model.leaves:
            splits = [(*self.best(rows), place) for place, rows in enumerate(leaves)]
            gain, column, value, place = max(splits)
            if gain <= 1e-6:
                break
            rows = leaves.pop(place)
            leaves += [rows & (x[:, column] < value), rows & (x[:, column] >= value)]
        self.values = np.zeros(len(x))
        for rows in leaves:
            self.values[rows] = -model.learning_rate * self.g[rows].sum() / (self.h[rows].sum() + model.l2)

    def best(self, rows: NDArray[np.bool_]) -> tuple[float, int, float]:
        found = (-math.inf, 0, 0.0)
        for column in range(self.x.shape[1]):
            for value in np.unique(self.x[rows, column])[1:]:
                sides = [rows & (self.x[:, column] < value), rows & (self.x[:, column] >= value)]
                if min(self.h[side].sum() for side in sides) < self.model.min_weight:
                    continue
                gain = sum(self.score(side) for side in sides) - self.score(rows)
                found = max(found, (gain, column, float(value)))
        return found

    def score(self, rows: NDArray[np.bool_]) -> float:
        return float(self.g[rows].sum() ** 2 / (self.h[rows].sum() + self.model.l2))


def test_targets_are_boosted_as_a_plain_implementation_would() -> None:
    data = labelled(queries=12, size=6)
    assert data.labels is not None
    x = np.round(data.features * 2).astype(np.float64)  # few values, so that each has a bin of its own
    data = cr.RankingDataset.from_arrays(x, data.row_queries, data.labels)
    assert data.labels is not None
    model = Trees(rounds=5, leaves=4, min_weight=1.0, learning_rate=0.3, l2=2.0, column_share=1.0, validation=0.0)
    labels, queries = data.labels.astype(float), data.row_queries
    useful = np.array([np.ptp(labels[queries == query]) > 0 for query in range(12)])[queries]
    better = useful[:, None] & (queries[:, None] == queries[None]) & (labels[:, None] > labels[None])
    preference = np.where(better, labels[:, None] - labels[None], 0.0)
    preference *= 2 * useful.sum() / preference.sum()
    scores = np.zeros(data.n_rows)
    for _ in range(model.rounds):
        wrong = 1 / (1 + np.exp(scores[:, None] - scores[None]))
        slope, curve = preference * wrong, preference * wrong * (1 - wrong)
        gradient, hessian = slope.sum(0) - slope.sum(1), curve.sum(0) + curve.sum(1)
        scores[useful] += PlainTree(x[useful], gradient[useful], hessian[useful], model).values
    fitted = cr.Oracle(model=model).fit(data)
    np.testing.assert_allclose(fitted.predict(data)[useful], scores[useful], rtol=1e-4, atol=1e-5)
    lost = float((preference * np.logaddexp(0, scores[None] - scores[:, None])).sum() / preference.sum())
    assert fitted.history_[-1].loss == pytest.approx(lost, rel=1e-4)


def test_threads_give_the_same_ranker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    alone = small_boosted().fit(*GIVEN_TREES).predict(GIVEN_TREES.data)
    monkeypatch.setattr(tree_fit, "available_cores", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    np.testing.assert_allclose(small_boosted().fit(*GIVEN_TREES).predict(GIVEN_TREES.data), alone, rtol=1e-5)


def test_the_seed_draws_the_columns() -> None:
    data, model = labelled(), Trees(rounds=3, column_share=0.5, validation=0.0, min_weight=1.0)
    first, again, other = (cr.Oracle(model=model, run=cr.Run(seed=seed)).fit(data).predict(data) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


# -- when it ends --------------------------------------------------------------------------------------------------


def test_the_round_with_the_least_held_out_loss_is_kept() -> None:
    fitted = small_boosted(rounds=60, learning_rate=0.5).fit(*GIVEN_TREES)
    lost = [epoch.held_loss for epoch in fitted.history_]
    assert fitted.status_ == "completed"
    assert fitted.best_epoch_ == 1 + lost.index(min(one for one in lost if one is not None)) < 60
    ranker = fitted.ranker_
    assert isinstance(ranker, TreeRanker)
    assert len(ranker.trees) == fitted.best_epoch_
    stopped = small_boosted(rounds=60, learning_rate=0.5, patience=5).fit(*GIVEN_TREES)
    assert stopped.status_ == "early_stopped"
    assert stopped.n_iter_ == stopped.best_epoch_ + 5


def test_without_validation_all_rounds_are_kept() -> None:
    fitted = cr.Oracle(model=Trees(rounds=3, min_weight=0.5, validation=0.0)).fit(labelled())
    assert (fitted.n_held_, fitted.best_epoch_) == (0, 3)
    assert fitted.history_[0].validation is fitted.history_[0].held_loss is None
    few = cr.Oracle(model=Trees(rounds=3, min_weight=0.5, patience=None)).fit(labelled(queries=20))
    assert (few.n_queries_ + few.n_held_, few.n_held_) == (20, 2)


def test_ctrl_c_ends_with_the_best_ranker_so_far() -> None:
    told: list[Epoch] = []

    def listen(epoch: Epoch) -> None:
        told.append(epoch)
        stop_after(3)(epoch)

    stopped = small_boosted(on_epoch=listen)
    with pytest.warns(ConvergenceWarning, match="CLD-pair was interrupted after 3 rounds; the ranker is that of "):
        stopped.fit(*GIVEN_TREES)
    assert stopped.status_ == "interrupted"
    assert stopped.history_ == tuple(told)
    whole = small_boosted(rounds=3).fit(*GIVEN_TREES)
    np.testing.assert_array_equal(stopped.predict(GIVEN_TREES.data), whole.predict(GIVEN_TREES.data))


def test_ctrl_c_within_a_round_gives_that_round_up(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PairLoss.at
    calls = []

    def fourth_time(self: PairLoss, scores: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:  # the tree of round 3 is there, but nothing is known of it
            raise KeyboardInterrupt
        return whole(self, scores)

    monkeypatch.setattr(PairLoss, "at", fourth_time)
    with pytest.warns(ConvergenceWarning, match="interrupted after 2 rounds"):
        stopped = small_boosted(validation=0.0).fit(*GIVEN_TREES)
    monkeypatch.undo()
    two = small_boosted(rounds=2, validation=0.0).fit(*GIVEN_TREES)
    np.testing.assert_array_equal(stopped.predict(GIVEN_TREES.data), two.predict(GIVEN_TREES.data))


# -- what is refused or warned of ----------------------------------------------------------------------------------


def test_nothing_to_prefer_is_refused() -> None:
    data = cr.RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], labels=[1, 1, 0, 0])
    with pytest.raises(DataError, match="Oracle with boosted trees"):
        cr.Oracle(model=Trees()).fit(data)


def test_trees_without_a_split_are_said() -> None:
    with pytest.warns(ConvergenceWarning, match="Oracle.*`min_weight`"):
        fitted = cr.Oracle(model=Trees(rounds=2, min_weight=1e9)).fit(labelled())
    assert not fitted.predict(labelled()).any()


@pytest.mark.parametrize("device", ["cuda:99", "abacus"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(UsageError, match=f"`device='{device}'`"):
        small_boosted(device=device).fit(*GIVEN_TREES)


def test_a_gpu_gives_nearly_the_same() -> None:
    try:
        xgboost.Booster({"device": "cuda", "fail_on_invalid_gpu_id": True}).save_config()
    except xgboost.core.XGBoostError:
        pytest.skip("there is no GPU")
    given = scene(0, queries=200)
    one, other = (
        small_boosted(column_share=1.0, device=device).fit(*given).history_[-1].loss for device in ("cpu", "cuda")
    )
    assert other == pytest.approx(one, rel=0.02)


def test_the_file_is_that_of_a_ranking_objective_without_a_base() -> None:
    """What OpenSearch, Elasticsearch and Vespa need so that their scores are ours."""
    ranker = small_boosted().fit(*GIVEN_TREES).ranker_
    assert isinstance(ranker, TreeRanker)
    learner = json.loads(ranker.content)["learner"]
    assert learner["objective"]["name"] == "rank:ndcg"
    assert float(learner["learner_model_param"]["base_score"].strip("[]")) == 0


@pytest.mark.parametrize("free", [1 << 40, 0])
def test_bins_on_disk_give_the_same_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    whole = labelled()
    model = Trees(rounds=6, column_share=0.5)
    expected: Any = cr.Oracle(model=model).fit(whole).ranker_
    monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(boosting, "spare_memory", lambda size=free: size)
    monkeypatch.setattr(boosting, "_BLOCK_VALUES", 50 * whole.n_features)
    paged: list[Any] = []
    build = xgboost.ExtMemQuantileDMatrix

    def noted(*given: Any, **more: Any) -> Any:
        paged.append(given)
        return build(*given, **more)

    monkeypatch.setattr(xgboost, "ExtMemQuantileDMatrix", noted)
    ranker: Any = cr.Oracle(model=model).fit(whole).ranker_
    assert ranker.content == expected.content
    assert len(paged) == (free == 0)
    assert not list((tmp_path / "cache").glob("*"))
