"""What Solr's module `ltr` computes, after its source (apache/solr, modules/ltr, 10.0): all numbers are Java floats.

What Solr refuses to load raises `ValueError` here, with the exception that Solr throws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay import NamedTable, leaf_values

Singles = NDArray[np.float32]

_PACKAGE = "org.apache.solr.ltr"
_SLACK = np.float32(1e-6)  # MultipleAdditiveTreesModel.RegressionTreeNode.NODE_SPLIT_SLACK
_NULLS = [9, 2]  # the version that brought isNullSameAsZero (SOLR-16596)


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row; NaN in the table stands for a feature that does not match, or has no value."""
    model = json.loads(files["model.json"])
    store = [feature for feature in json.loads(files["features.json"]) if feature["store"] == model["store"]]
    defaults = {feature["name"]: np.float32(feature["params"].get("defaultValue", 0)) for feature in store}
    names, columns = [feature["name"] for feature in model["features"]], []
    for feature in model["features"]:
        column = table.columns([feature["name"]])[:, 0]
        columns.append(_normalised(feature.get("norm"), np.where(np.isnan(column), defaults[feature["name"]], column)))
    rows, params = np.stack(columns, axis=1), model["params"]
    match model["class"].removeprefix(f"{_PACKAGE}.model."):
        case "LinearModel":
            return _linear(params["weights"], names, rows).astype(np.float64)
        case "MultipleAdditiveTreesModel":
            return _trees(params, names, rows, version).astype(np.float64)
    raise ValueError(f"ModelException: {model['class']}")


def _parsed(value: Any) -> np.float32:
    """Float.parseFloat; the setters of trees and normalizers take text alone."""
    if not isinstance(value, str):
        raise ValueError(f"IllegalArgumentException: argument type mismatch: {value!r} is not a String")
    return np.float32(value)


def _normalised(norm: dict[str, Any] | None, column: Singles) -> Singles:
    if norm is None:
        return column
    if norm["class"] != f"{_PACKAGE}.norm.StandardNormalizer":
        raise ValueError(f"NormalizerException: {norm['class']}")
    average, deviation = (_parsed(norm["params"][name]) for name in ("avg", "std"))
    if deviation <= 0:
        raise ValueError("NormalizerException: Standard Normalizer standard deviation must be positive")
    with np.errstate(over="ignore"):
        return (column - average) / deviation


def _linear(weights: Mapping[str, float], names: list[str], rows: Singles) -> Singles:
    """Σ value * weight, feature by feature; no weight may be missing."""
    if lacking := [name for name in names if name not in weights]:
        raise ValueError(f"ModelException: lacks weight(s) for {lacking}")
    total = np.zeros(len(rows), dtype=np.float32)
    for place, name in enumerate(names):
        total += rows[:, place] * np.float32(weights[name])
    return total


def _trees(params: dict[str, Any], names: list[str], rows: Singles, version: str | None) -> Singles:
    """Σ weight * the score of a tree; left where value <= threshold, the slack added to it."""
    same = params.get("isNullSameAsZero", True)
    if "isNullSameAsZero" in params and version and [int(part) for part in version.split(".")] < _NULLS:
        raise ValueError("RuntimeException: No setter corrresponding to 'isNullSameAsZero'")
    if not isinstance(same, bool):
        raise ValueError(f"IllegalArgumentException: argument type mismatch: {same!r} is not a boolean")
    total = np.zeros(len(rows), dtype=np.float32)
    for tree in params["trees"]:
        nodes: list[dict[str, Any]] = [tree["root"]]
        flat: list[dict[str, Any]] = []
        for node in nodes:  # grows as it goes
            if "feature" not in node:
                flat.append({"value": _parsed(node["value"])})
                continue
            split = {"feature": names.index(node["feature"]), "threshold": _parsed(node["threshold"]) + _SLACK}
            if not same and "missing" not in node:
                raise ValueError("NullPointerException: a split without 'missing'")
            sides = {"left": len(nodes), "right": len(nodes) + 1}
            flat.append({**split, **sides, "missing_left": not same and node["missing"] == "left"})
            nodes += [node["left"], node["right"]]
        total += _parsed(tree["weight"]) * leaf_values(flat, rows, np.less_equal)
    return total
