"""What exporters get wrong: zeros of both signs, extremes, ties at thresholds, missing values and trees without any."""

from __future__ import annotations

import json
from typing import Any

import made_rankers as made
import numpy as np
import xgboost
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.export import ExportFormat, ExportRequest, Parity
from cldrank.export.forms import tree_forms
from cldrank.export.replay import NamedTable
from cldrank.rankers import Ranker, TreeRanker

SIZE = 9  # candidates per query
ENGINE_NAMES = ("bm25", "pagerank", "l_nge", "clicks")  # what engines call the features of `made_rankers`
COMPLETE = made.ORIGIN.replaced(has_missing=False)


def compared(form: ExportFormat, ranker: Ranker, rows: NDArray[np.float32], **request: Any) -> Parity:
    """What the replay of an export makes of some rows, against the ranker."""
    data, asked = queries_of(rows, ranker.feature_names), ExportRequest(**request)
    exported = form.export(ranker, asked)
    scores = form.replay(exported.files, NamedTable(exported.names, data.features), asked)
    return Parity.of(ranker.predict(data), scores, data.offsets, exported.shift)


def tricky(features: NDArray[np.float32], seed: int = 0) -> NDArray[np.float32]:
    """Rows like those given, with many zeros, some of them negative, and with extremes."""
    random = np.random.default_rng(seed)
    rows = features[random.integers(0, len(features), 40 * SIZE)].copy()
    rows[random.random(rows.shape) < 0.3] = 0.0
    rows[random.random(rows.shape) < 0.05] = -0.0
    for value in (1e-38, -1e-45, 1e6, -1e6, 3e4):
        rows[random.random(rows.shape) < 0.01] = value
    return rows


def at_thresholds(ranker: TreeRanker, features: NDArray[np.float32], seed: int = 0) -> NDArray[np.float32]:
    """Rows whose values are thresholds of the trees, or their neighbours among float32 numbers."""
    random = np.random.default_rng(seed)
    rows = tricky(features, seed)
    for tree in tree_forms(ranker):
        for node in np.flatnonzero(tree.left >= 0):
            threshold, column = tree.threshold[node], tree.feature[node]
            near = [
                threshold,
                *(np.nextafter(threshold, np.float32(side), dtype=np.float32) for side in (-np.inf, np.inf)),
            ]
            rows[random.integers(0, len(rows), len(near)), column] = near
    return rows


def with_gaps(rows: NDArray[np.float32], share: float = 0.1, seed: int = 0) -> NDArray[np.float32]:
    """The same rows with values missing."""
    return np.where(np.random.default_rng(seed).random(rows.shape) < share, np.float32(np.nan), rows)


def queries_of(rows: NDArray[np.float32], names: tuple[str, ...]) -> RankingDataset:
    """A dataset of these rows, a few to each query."""
    return RankingDataset.from_arrays(rows, np.arange(len(rows)) // SIZE, feature_names=names, missing="keep")


def dense(rounds: int = 12) -> TreeRanker:
    """Trees from features without missing values: XGBoost then sends them right at every split."""
    matrix = xgboost.DMatrix(made.FEATURES, label=np.log(made.FEATURES[:, 0]) ** 2 + made.FEATURES[:, 1])
    booster = xgboost.Booster({"objective": "rank:ndcg", "base_score": 0.0, "max_depth": 4}, [matrix])
    for number in range(rounds):
        gradient = booster.predict(matrix, output_margin=True) - matrix.get_label()
        booster.boost(matrix, iteration=number, grad=gradient, hess=np.ones(len(made.FEATURES)))
    return TreeRanker(content=bytes(booster.save_raw("json")), feature_names=made.NAMES, provenance=COMPLETE)


def stump(threshold: float, name: str = "x") -> TreeRanker:
    """One split at a threshold, for features of that name alone: 1 on the left, 2 on the right."""
    matrix = xgboost.DMatrix(np.array([[0.0], [1.0]]), label=[0.0, 1.0])
    booster = xgboost.Booster({"objective": "rank:ndcg", "base_score": 0.0, "min_child_weight": 0}, [matrix])
    booster.boost(matrix, iteration=0, grad=np.array([-1.0, -9.0]), hess=np.ones(2))
    content = json.loads(bytes(booster.save_raw("json")))
    (tree,) = content["learner"]["gradient_booster"]["model"]["trees"]
    assert tree["left_children"] == [1, -1, -1]
    tree["split_conditions"] = [float(str(np.float32(threshold))), 1.0, 2.0]
    return TreeRanker(content=json.dumps(content).encode(), feature_names=(name,), provenance=COMPLETE)
