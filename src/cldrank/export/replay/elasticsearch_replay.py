"""What Elasticsearch computes from the trees that eland uploads: an ensemble, in double.

After its documentation of `trained_model` and its sources (TreeInferenceModel, WeightedSum, LearningToRankRescorer).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import MissingDependencyError
from cldrank.export.replay import NamedTable, leaf_values


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row, from what eland makes of `model.json`."""
    del version
    if find_spec("eland") is None:
        raise MissingDependencyError("the check needs eland: pip install 'cldrank[elasticsearch]'.")
    extractors = json.loads(files["features.json"])["learning_to_rank"]["feature_extractors"]
    names = [entry["query_extractor"]["feature_name"] for entry in extractors]
    return ensemble_scores(definition_by_eland(files["model.json"], names), table)


def ensemble_scores(definition: dict[str, Any], table: NamedTable) -> NDArray[np.float64]:
    """A score per row, from a `definition`: leaves are added up in double, the score of a hit is a float32."""
    ensemble = definition["trained_model"]["ensemble"]
    if ensemble["aggregate_output"] != {"weighted_sum": {}}:
        raise ValueError(f"this replay knows weighted_sum without weights, not {ensemble['aggregate_output']}")
    total = np.zeros(len(table.values))
    for model in ensemble["trained_models"]:
        rows = table.columns(model["tree"]["feature_names"]).astype(np.float64)
        total += leaf_values([_node(place, node) for place, node in enumerate(model["tree"]["tree_structure"])], rows)
    return total.astype(np.float32).astype(np.float64)


def _node(place: int, node: dict[str, Any]) -> dict[str, Any]:
    if node["node_index"] != place:
        raise ValueError("nodes are found by their place, which must be their node_index")
    if "left_child" not in node:
        return {"value": np.ravel(node["leaf_value"])[0]}
    if node["decision_type"] != "lt":
        raise ValueError(f"this replay knows the decision_type lt, not {node['decision_type']}")
    sides = {"left": node["left_child"], "right": node["right_child"], "missing_left": node.get("default_left", False)}
    return {"feature": node["split_feature"], "threshold": node["threshold"], **sides}


def definition_by_eland(content: bytes, names: list[str]) -> dict[str, Any]:
    """The definition that eland makes of a model of XGBoost, numbers rounded to float32 as `upload.py` does."""
    import xgboost
    from eland.ml.transformers import get_model_transformer

    model = xgboost.XGBRanker()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        path.write_bytes(content)
        model.load_model(path)
    model.base_score = 0.0
    booster = model.get_booster()
    table = booster.trees_to_dataframe()
    for column in ("Split", "Gain"):  # eland reads nine digits, which as a double are not the float32
        table[column] = table[column].astype("float32").astype("float64")
    booster.trees_to_dataframe = lambda: table
    made = get_model_transformer(model, feature_names=names).transform().serialize_model()
    plain: dict[str, Any] = json.loads(json.dumps(made))  # as it travels
    return plain
