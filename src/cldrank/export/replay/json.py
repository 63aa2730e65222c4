"""What a reader of cldrank's plain JSON computes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay import NamedTable, leaf_values

_ACTIVATIONS = {
    "elu": lambda x: x if x > 0 else math.expm1(x),
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "silu": lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
}


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row, in float64; trees are compared and added up in float32."""
    del version
    model = json.loads(files["model"])
    rows = table.columns(model["features"])
    if model["kind"] == "trees":
        total = np.zeros(len(rows), dtype=np.float32)
        for tree in model["trees"]:
            nodes = [dict(zip(tree, node, strict=True)) for node in zip(*tree.values(), strict=True)]
            total += leaf_values(nodes, rows)
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
