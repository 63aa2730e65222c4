"""What Solr's module `ltr` computes, after its source (apache/solr, modules/ltr, 10.0): all numbers are Java floats.

What Solr refuses to load raises `ValueError` here, with the exception that Solr throws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay.table import NamedTable

Floats = NDArray[np.float32]

_PACKAGE = "org.apache.solr.ltr"
_SLACK = np.float32(1e-6)  # MultipleAdditiveTreesModel.RegressionTreeNode.NODE_SPLIT_SLACK
_NULLS = (9, 2)  # the version that brought isNullSameAsZero (SOLR-16596)
_DIRECTIONS = {"left": 1, None: -1}  # anything else is right
_BLOCK = 512


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row; NaN in the table stands for a feature that does not match, or has no value."""
    model, store = json.loads(files["model.json"]), json.loads(files["features.json"])
    defaults = _defaults(store, model.get("store", "_DEFAULT_"))
    features = model["features"]
    if not features:
        raise ValueError("ModelException: no features declared")
    for feature in features:
        if feature["name"] not in defaults:
            raise ValueError(f"ModelException: Feature: {feature['name']} not found in store")
    kind, params = model["class"].removeprefix(f"{_PACKAGE}.model."), model["params"]
    names = [feature["name"] for feature in features]
    scorer = _SCORERS[kind](params, names, version)
    columns = [_extracted(table.column(name), defaults[name]) for name in names]
    normalised = [_normalised(feature.get("norm"), column) for feature, column in zip(features, columns, strict=True)]
    rows = np.stack(normalised, axis=1)
    parts = [scorer(rows[start : start + _BLOCK]) for start in range(0, len(rows), _BLOCK)]
    return np.concatenate([np.empty(0, dtype=np.float32), *parts]).astype(np.float64)


def _parsed(value: Any) -> np.float32:
    """Float.parseFloat, which takes "0.5f" too; the setters of trees and normalizers take text alone."""
    if not isinstance(value, str):
        raise ValueError(f"IllegalArgumentException: argument type mismatch: {value!r} is not a String")
    return np.float32(value.rstrip("fFdD") if value.strip().lower() != "nan" else "nan")


def _defaults(store: list[dict[str, Any]], name: str) -> dict[str, np.float32]:
    """What each feature of a store is where its query does not match."""
    found: dict[str, np.float32] = {}
    for feature in store:
        if feature.get("store", "_DEFAULT_") != name:
            continue
        if feature["name"] in found:
            raise ValueError(f"FeatureException: {feature['name']} already contained in the store")
        params = feature.get("params", {})
        if feature["class"] == f"{_PACKAGE}.feature.SolrFeature" and not (params.get("q") or params.get("fq")):
            raise ValueError("FeatureException: SolrFeature: Q or FQ must be provided")
        default = params.get("defaultValue", 0.0)
        found[feature["name"]] = _parsed(default) if isinstance(default, str) else np.float32(default)
    return found


def _extracted(column: Floats, default: np.float32) -> Floats:
    """FeatureExtractor.fillFeaturesInfo: what is NaN is the default."""
    return np.where(np.isnan(column), default, column).astype(np.float32)


def _normalised(norm: dict[str, Any] | None, column: Floats) -> Floats:
    if norm is None or norm["class"] == f"{_PACKAGE}.norm.IdentityNormalizer":
        return column
    numbers = {name: _parsed(value) for name, value in norm["params"].items()}
    with np.errstate(over="ignore"):
        if norm["class"] == f"{_PACKAGE}.norm.StandardNormalizer":
            shift, divisor = numbers["avg"], numbers["std"]
            if divisor <= 0:
                raise ValueError("NormalizerException: Standard Normalizer standard deviation must be positive")
        elif norm["class"] == f"{_PACKAGE}.norm.MinMaxNormalizer":
            shift, divisor = numbers["min"], numbers["max"] - numbers["min"]
            if divisor == 0:
                raise ValueError("NormalizerException: MinMax Normalizer delta must not be zero")
        else:
            raise ValueError(f"NormalizerException: {norm['class']}")
        found: Floats = (column - shift) / divisor
    return found


@dataclass(frozen=True, eq=False)
class SolrLinearModel:
    """score += value * weight, feature by feature."""

    weights: list[np.float32]

    @classmethod
    def of(cls, params: dict[str, Any], names: list[str], version: str | None) -> SolrLinearModel:
        """Weights may be any numbers, and one may not be missing."""
        del version
        lacking = [name for name in names if name not in params["weights"]]
        if lacking:
            raise ValueError(f"ModelException: lacks weight(s) for {lacking}")
        return cls([np.float32(params["weights"][name]) for name in names])

    def __call__(self, rows: Floats) -> Floats:
        """The scores of some rows."""
        total = np.zeros(len(rows), dtype=np.float32)
        for place, weight in enumerate(self.weights):
            total += rows[:, place] * weight
        return total


def _sigmoid(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        found: Floats = (1 / (1 + np.exp(-values.astype(np.float64)))).astype(np.float32)
    return found


_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "identity": lambda x: x,
    "relu": lambda x: np.where(x < 0, np.float32(0), x),
    "leakyrelu": lambda x: np.where(x < 0, np.float32(0.01) * x, x),
    "tanh": lambda x: np.tanh(x.astype(np.float64)).astype(np.float32),
    "sigmoid": _sigmoid,
}


@dataclass(frozen=True, eq=False)
class SolrNeuralNetworkModel:
    """activation(bias + Σ weight * input), layer after layer; each sum starts with the bias."""

    layers: list[tuple[Floats, Floats, str]]

    @classmethod
    def of(cls, params: dict[str, Any], names: list[str], version: str | None) -> SolrNeuralNetworkModel:
        """Matrices must fit, and their JSON numbers must be decimals: Solr casts them to Double."""
        del version
        layers, width = [], len(names)
        for layer in params["layers"]:
            numbers = [number for row in [*layer["matrix"], layer["bias"]] for number in row]
            if any(type(number) is not float for number in numbers):
                raise ValueError("ClassCastException: class java.lang.Long cannot be cast to class java.lang.Double")
            matrix, bias = (np.array(layer[name], dtype=np.float32) for name in ("matrix", "bias"))
            if matrix.shape != (len(bias), width):
                raise ValueError(f"ModelException: Dimension mismatch: {matrix.shape} for {width} and {len(bias)}")
            if layer["activation"] not in _ACTIVATIONS:
                raise ValueError(f"ModelException: Invalid activation function ({layer['activation']})")
            layers.append((matrix, bias, layer["activation"]))
            width = len(bias)
        if width != 1:
            raise ValueError(f"ModelException: The output matrix has {width} rows, but should only have one.")
        return cls(layers)

    def __call__(self, rows: Floats) -> Floats:
        """The scores of some rows."""
        values: Floats = np.ascontiguousarray(rows.T)
        for matrix, bias, activation in self.layers:
            total = np.repeat(bias[:, None], len(rows), axis=1)
            for place, column in enumerate(values):
                weights = matrix[:, place]
                if np.count_nonzero(weights) == len(weights) or not np.isfinite(column).all():
                    total += weights[:, None] * column
                else:  # adding 0 * a finite number changes nothing, so such units can be passed over
                    units = np.flatnonzero(weights)
                    total[units] += weights[units, None] * column
            values = _ACTIVATIONS[activation](total)
        found: Floats = values[0]
        return found


@dataclass(frozen=True, eq=False)
class SolrTree:
    """The node of each row; left where value <= threshold, the slack added to it. A leaf has no feature (-1)."""

    weight: np.float32
    feature: NDArray[np.int64]
    threshold: Floats
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    missing: NDArray[np.int64]
    value: Floats

    @classmethod
    def of(cls, tree: dict[str, Any], names: list[str]) -> SolrTree:
        """The tree from its nested nodes; a split by a feature that the model lacks scores 0, as a leaf would."""
        nodes: list[dict[str, Any]] = [tree["root"]]
        size = len(nodes)
        numbers: dict[str, list[Any]] = {
            name: [] for name in ("feature", "threshold", "left", "right", "missing", "value")
        }
        for node in nodes:  # grows as it goes
            leaf = "feature" not in node
            if leaf == ("left" in node) or leaf == ("right" in node) or leaf == ("threshold" in node):
                raise ValueError("ModelException: MultipleAdditiveTreesModel tree node is a leaf with branches, or not")
            leaf = leaf or node["feature"] not in names
            numbers["feature"].append(-1 if leaf else names.index(node["feature"]))
            numbers["threshold"].append(np.float32(0) if leaf else _parsed(node["threshold"]) + _SLACK)
            numbers["value"].append(_parsed(node.get("value", "0")))
            numbers["missing"].append(_DIRECTIONS.get(node.get("missing"), 0))
            numbers["left"].append(0 if leaf else size)
            numbers["right"].append(0 if leaf else size + 1)
            if not leaf:
                nodes += [node["left"], node["right"]]
                size += 2
        kinds = {"threshold": np.float32, "value": np.float32}
        arrays: dict[str, Any] = {name: np.array(one, dtype=kinds.get(name, np.int64)) for name, one in numbers.items()}
        return cls(weight=_parsed(tree["weight"]), **arrays)

    def __call__(self, rows: Floats, nulls: bool) -> Floats:
        """The weight times the value of the leaf that each row reaches."""
        node = np.zeros(len(rows), dtype=np.int64)
        inside = np.flatnonzero(self.feature[node] >= 0)
        while len(inside):
            at = node[inside]
            value = rows[inside, self.feature[at]]
            is_left = value <= self.threshold[at]  # NaN is not
            if nulls:
                missing, side = np.isnan(value), self.missing[at]
                if (side[missing] < 0).any():
                    raise ValueError("NullPointerException: a value is NaN at a split without 'missing'")
                is_left |= missing & (side == 1)
            node[inside] = np.where(is_left, self.left[at], self.right[at])
            inside = inside[self.feature[node[inside]] >= 0]
        return self.weight * self.value[node]


@dataclass(frozen=True, eq=False)
class SolrTreesModel:
    """score += the score of a tree, tree by tree."""

    trees: list[SolrTree]
    nulls: bool

    @classmethod
    def of(cls, params: dict[str, Any], names: list[str], version: str | None) -> SolrTreesModel:
        """The JSON boolean isNullSameAsZero was not known before 9.2."""
        same = params.get("isNullSameAsZero", True)
        if "isNullSameAsZero" in params:
            if version is not None and tuple(map(int, version.split("."))) < _NULLS:
                raise ValueError("RuntimeException: No setter corrresponding to 'isNullSameAsZero'")
            if not isinstance(same, bool):
                raise ValueError(f"IllegalArgumentException: argument type mismatch: {same!r} is not a boolean")
        return cls([SolrTree.of(tree, names) for tree in params["trees"]], not same)

    def __call__(self, rows: Floats) -> Floats:
        """The scores of some rows."""
        total = np.zeros(len(rows), dtype=np.float32)
        for tree in self.trees:
            total += tree(rows, self.nulls)
        return total


_SCORERS: dict[str, Callable[[dict[str, Any], list[str], str | None], Callable[[Floats], Floats]]] = {
    "LinearModel": SolrLinearModel.of,
    "NeuralNetworkModel": SolrNeuralNetworkModel.of,
    "MultipleAdditiveTreesModel": SolrTreesModel.of,
}
