"""What Elasticsearch computes from a trained model: an ensemble of trees, in double.

After its documentation of `trained_model` and its sources (TreeInferenceModel, WeightedSum, LearningToRankRescorer).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay.descent import reached_leaves
from cldrank.export.replay.table import NamedTable

_COMPARISONS = {"lt": np.less, "lte": np.less_equal, "gt": np.greater, "gte": np.greater_equal}


def ensemble_scores(definition: dict[str, Any], table: NamedTable) -> NDArray[np.float64]:
    """A score per row, from a `definition`; NaN in the table is a feature whose query does not match.

    Leaves are added up in double; the score of a hit is the sum as a float32.
    """
    ensemble = definition["trained_model"]["ensemble"]
    if ensemble["aggregate_output"] != {"weighted_sum": {}}:
        raise ValueError(f"this replay knows weighted_sum without weights, not {ensemble['aggregate_output']}")
    total = np.zeros(len(table.values))
    for model in ensemble["trained_models"]:
        total += _leaf_values(model["tree"], table)
    return total.astype(np.float32).astype(np.float64)


def _leaf_values(tree: dict[str, Any], table: NamedTable) -> NDArray[np.float64]:
    nodes: list[dict[str, Any]] = tree["tree_structure"]
    if [node["node_index"] for node in nodes] != list(range(len(nodes))):
        raise ValueError("nodes are found by their place, which must be their node_index")
    left = np.array([node.get("left_child", -1) for node in nodes], dtype=np.int64)
    right = np.array([node.get("right_child", -1) for node in nodes], dtype=np.int64)
    feature = np.array([node.get("split_feature", 0) for node in nodes], dtype=np.int64)
    threshold = np.array([node.get("threshold", 0.0) for node in nodes], dtype=np.float64)
    default_left = np.array([node.get("default_left", False) for node in nodes], dtype=bool)
    kinds = {node.get("decision_type", "lte") for node in nodes if "left_child" in node} or {"lte"}
    if len(kinds) > 1:
        raise ValueError("this replay knows trees with one decision_type")
    compare = _COMPARISONS[kinds.pop()]
    # only the names that a tree lists matter, whatever else the engine extracts
    values = np.stack([table.column(name) for name in tree["feature_names"]], axis=1).astype(np.float64)

    def goes_left(rows: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
        value = values[rows, feature[at]]
        found: NDArray[np.bool_] = np.where(np.isnan(value), default_left[at], compare(value, threshold[at]))
        return found

    leaf = np.array([np.ravel(node.get("leaf_value", 0.0))[0] for node in nodes], dtype=np.float64)
    return leaf[reached_leaves(left, right, len(values), goes_left)]


def definition_by_eland(content: bytes, names: list[str], *, exact: bool = True) -> dict[str, Any]:
    """The definition that eland makes of a model of XGBoost.

    exact   with thresholds and leaves rounded to float32, as `upload.py` has it; without, as eland reads them: from
            decimals of nine digits, which is not what the trees compare with once they are doubles
    """
    import xgboost
    from eland.ml.transformers import get_model_transformer

    model = xgboost.XGBRanker()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_bytes(content)
        model.load_model(path)
    model.base_score = 0.0
    if exact:
        booster = model.get_booster()
        table = booster.trees_to_dataframe()
        for column in ("Split", "Gain"):
            table[column] = table[column].astype("float32").astype("float64")
        booster.trees_to_dataframe = lambda: table
    found = get_model_transformer(model, feature_names=names).transform().serialize_model()
    plain: dict[str, Any] = json.loads(json.dumps(found))  # as it travels
    return plain
