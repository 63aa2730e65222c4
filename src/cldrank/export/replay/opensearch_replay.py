"""What the Learning to Rank plugin of OpenSearch, and that of Elasticsearch, computes from a feature set and a model.

After its sources: LinearRankerParser, LinearRanker, XGBoostJsonParser, NaiveAdditiveDecisionTree,
DerivedExpressionQuery. All numbers are floats of Java, which are float32,
but for those inside the expression of a derived feature, which are doubles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay import NamedTable, dumped_nodes, evaluated, leaf_values

_FUNCTIONS: dict[str, Callable[..., Any]] = {"ln": np.log, "max": np.maximum, "min": np.minimum}


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row; NaN in the table is a feature whose query does not match."""
    features = [feature["name"] for feature in json.loads(files["featureset.json"])["featureset"]["features"]]
    derived = json.loads(files["scaling.json"])["features"] if "scaling.json" in files else []
    names = features + [feature["name"] for feature in derived]
    if len(set(names)) < len(names):
        raise ValueError("feature names must be unique")
    rows = table.columns(features)
    if derived:
        rows = np.column_stack([rows, *_derived(derived, features, rows)])
    described = json.loads(files["model.json"])["model"]["model"]
    if unknown := set(described) - {"type", "definition"}:
        raise ValueError(f"this replay does not know {', '.join(sorted(unknown))}")
    model = json.loads(described["definition"])
    with np.errstate(over="ignore", invalid="ignore"):
        if described["type"] == "model/linear":
            return _linear(model, names, rows).astype(np.float64)
        if described["type"] == "model/xgboost+json":
            return _trees(model, names, rows, missing_rule(version)).astype(np.float64)
    raise ValueError(f"unknown model type {described['type']}")


def _derived(derived: list[dict[str, Any]], features: list[str], rows: NDArray[np.float32]) -> list[NDArray[Any]]:
    """Derived features: expressions over those of the set, in double; a feature that does not match is 0."""
    values = np.where(np.isnan(rows), 0.0, rows.astype(np.float64))
    known = dict(zip(features, values.T, strict=True))
    columns = [evaluated(feature["template"], known, _FUNCTIONS) for feature in derived]
    return [np.broadcast_to(value, len(rows)).astype(np.float32) for value in columns]


def _linear(weights: Mapping[str, float], features: list[str], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """A dot product in the order of the feature set; a feature that does not match is 0."""
    if unknown := [name for name in weights if name not in features]:
        raise ValueError(f"Feature [{unknown[0]}] is unknown.")
    total = np.zeros(len(rows), dtype=np.float32)
    for place, name in enumerate(features):
        column = np.where(np.isnan(rows[:, place]), np.float32(0), rows[:, place])
        total += np.float32(weights.get(name, 0.0)) * column
    return total


def missing_rule(version: str | None) -> str:
    """What trees do with a feature that does not match: "zero", "right" at every split, or "own" by split."""
    if version is None:
        return "own"
    numbers = [int(part) for part in version.split(".")]
    if numbers[0] >= 5:  # versions of the plugin for Elasticsearch
        return "own" if numbers >= [8, 11, 4] else "zero"
    return "own" if numbers >= [3, 8] else "right" if numbers >= [3, 2] else "zero"


def _trees(model: Any, features: list[str], rows: NDArray[np.float32], rule: str) -> NDArray[np.float32]:
    """The sum of a list of trees, which is what cldrank writes."""
    if not isinstance(model, list) or not model:
        raise ValueError(f"the definition is {str(model)[:40]}, not a list of trees")
    values = np.where(np.isnan(rows), np.float32(0), rows) if rule == "zero" else rows
    total = np.zeros(len(rows), dtype=np.float32)
    for tree in model:
        nodes = dumped_nodes(tree, features)
        own = {} if rule == "own" else {"missing_left": False}
        total += leaf_values([{**node, **own} for node in nodes], values)
    return total
