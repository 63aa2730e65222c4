"""Trees that never saw a missing value, and trees whose missing values all go one way."""

from __future__ import annotations

import json

import made_rankers as made
import numpy as np
import xgboost

from cldrank.rankers import TreeRanker

COMPLETE = made.ORIGIN.replaced(has_missing=False)


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
