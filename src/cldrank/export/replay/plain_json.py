"""What a reader of cldrank's plain JSON computes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay.descent import reached_leaves
from cldrank.export.replay.table import NamedTable

_ACTIVATIONS = {
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "silu": lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
}


def scores(content: bytes, table: NamedTable) -> NDArray[np.float64]:
    """A score per row, in float64; thresholds of trees and features are compared in float32."""
    model = json.loads(content)
    rows = np.stack([table.column(name) for name in model["features"]], axis=1)
    if model["kind"] == "trees":
        total = np.zeros(len(rows), dtype=np.float32)
        for tree in model["trees"]:
            total += _leaves(tree, rows)
        return total.astype(np.float64)
    scaled = _scaled(model["scaling"], rows.astype(np.float64))
    if model["kind"] == "linear":
        linear: NDArray[np.float64] = scaled @ np.array(model["coefficients"]) + float(model["intercept"])
        return linear
    for layer in model["layers"]:
        if layer["kind"] == "linear":
            scaled = scaled @ np.array(layer["weight"]).T + np.array(layer["bias"] or 0.0)
        else:
            scaled = np.vectorize(_ACTIVATIONS[layer["kind"]], otypes=[np.float64])(scaled)
    return scaled[:, 0]


def _scaled(scaling: dict[str, Any], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    if scaling["logarithm"]:
        rows = np.sign(rows) * np.log1p(np.abs(rows))
    rows = (rows - np.array(scaling["center"])) * np.array(scaling["factor"])
    low, high = scaling["low"], scaling["high"]
    return rows if low is None else np.minimum(np.maximum(rows, low), high)


def _leaves(tree: dict[str, Any], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The leaf of a tree that each row reaches."""
    feature, threshold = np.array(tree["feature"]), np.array(tree["threshold"], dtype=np.float32)
    missing_left = np.array(tree["missing_left"], dtype=bool)

    def goes_left(places: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
        value = rows[places, feature[at]]
        found: NDArray[np.bool_] = np.where(np.isnan(value), missing_left[at], value < threshold[at])
        return found

    left, right = (np.array(tree[side], dtype=np.int64) for side in ("left", "right"))
    return np.array(tree["value"], dtype=np.float32)[reached_leaves(left, right, len(rows), goes_left)]
