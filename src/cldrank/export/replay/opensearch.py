"""What the Learning to Rank plugin of OpenSearch, and that of Elasticsearch, computes from a feature set and a model.

After its sources: LinearRankerParser, LinearRanker, StandardFeatureNormalizer, MinMaxFeatureNormalizer,
XGBoostJsonParser, NaiveAdditiveDecisionTree, DerivedExpressionQuery. All numbers are floats of Java, which are float32,
but for those inside the expression of a derived feature, which are doubles.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay.descent import reached_leaves
from cldrank.export.replay.table import NamedTable

_OPERATORS: dict[type, Callable[..., Any]] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"ln": np.log, "max": np.maximum, "min": np.minimum}
_NODE = {"nodeid", "depth", "split", "split_condition", "no", "yes", "missing", "leaf", "children"}


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None) -> NDArray[np.float64]:
    """A score per row; NaN in the table is a feature whose query does not match."""
    described_features = json.loads(files["featureset.json"])["featureset"]["features"]
    added = json.loads(files["scaling.json"])["features"] if "scaling.json" in files else []
    features = [one["name"] for one in described_features + added]
    if len(set(features)) < len(features):
        raise ValueError("feature names must be unique")
    described = json.loads(files["model.json"])["model"]["model"]
    rows = np.stack([table.column(one["name"]) for one in described_features], axis=1).astype(np.float32)
    for one in added:
        rows = np.column_stack([rows, _derived(one, features, rows)])
    definition = described["definition"]
    model = json.loads(definition) if isinstance(definition, str) else definition
    with np.errstate(over="ignore", invalid="ignore"):
        if described["type"] == "model/linear":
            found = _linear(model, described.get("feature_normalizers", {}), features, rows)
        elif described["type"] == "model/xgboost+json":
            found = _trees(model, features, rows, version)
        else:
            raise ValueError(f"unknown model type {described['type']}")
    return found.astype(np.float64)


def _derived(described: Mapping[str, Any], features: list[str], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """A derived feature: an expression over features before it, in double; one that does not match is 0."""
    if described["template_language"] != "derived_expression" or described["params"]:
        raise ValueError(f"{described['name']} is not a derived feature")
    known = {name: np.nan_to_num(rows[:, place].astype(np.float64), posinf=np.inf, neginf=-np.inf)
             for place, name in enumerate(features[: rows.shape[1]])}  # fmt: skip
    value = _evaluated(ast.parse(described["template"], mode="eval").body, known)
    return np.broadcast_to(value, len(rows)).astype(np.float32)


def _evaluated(node: ast.expr, known: Mapping[str, NDArray[np.float64]]) -> Any:
    """An expression of Lucene's, of those forms that Python spells alike."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return np.float64(number)
        case ast.Name() | ast.Attribute() if ast.unparse(node) in known:  # title.length is one name
            return known[ast.unparse(node)]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner, known)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluated(left, known), _evaluated(right, known))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluated(one, known) for one in arguments))
    raise ValueError(f"cannot read {ast.unparse(node)!r} in an expression")


def _linear(
    weights: Mapping[str, float], normalizers: Mapping[str, Any], features: list[str], rows: NDArray[np.float32]
) -> NDArray[np.float32]:
    """A dot product in the order of the feature set; a feature that does not match is 0, and then normalised."""
    _check_known(weights, features)
    _check_known(normalizers, features)
    values = np.where(np.isnan(rows), np.float32(0), rows)
    total = np.zeros(len(rows), dtype=np.float32)
    for place, name in enumerate(features):
        column = _normalised(normalizers[name], values[:, place]) if name in normalizers else values[:, place]
        total += np.float32(weights.get(name, 0.0)) * column
    return total


def _check_known(names: Mapping[str, Any], features: list[str]) -> None:
    for name in names:
        if name not in features:
            raise ValueError(f"Feature [{name}] is unknown.")


def _normalised(described: Mapping[str, Mapping[str, float]], column: NDArray[np.float32]) -> NDArray[np.float32]:
    ((kind, numbers),) = described.items()
    if kind == "standard":
        found: NDArray[np.float32] = (column - np.float32(numbers["mean"])) / np.float32(numbers["standard_deviation"])
        return found
    if kind != "min_max":
        raise ValueError(f"unknown normalizer {kind}")
    low, high = np.float32(numbers["minimum"]), np.float32(numbers["maximum"])
    if low >= high:
        raise ValueError(f"Minimum {low} must be smaller than than maximum: {high}")
    scaled: NDArray[np.float32] = (column - low) / (high - low)
    return scaled


def missing_rule(version: str | None) -> str:
    """What trees do with a feature that does not match: "zero", "right" at every split, or "own" by split.

    Elasticsearch's versions, from 5 on, are those of its plugin.

    >>> [missing_rule(version) for version in ("2.19", "3.7.0", "3.8", "8.9.2", "9.0.8", None)]
    ['zero', 'right', 'own', 'zero', 'own', 'own']
    """
    if version is None:
        return "own"
    numbers = [int(part) for part in version.split(".")]
    if numbers[0] >= 5:
        return "own" if numbers >= [8, 11, 4] else "zero"
    return "own" if numbers >= [3, 8] else "right" if numbers >= [3, 2] else "zero"


def _trees(model: Any, features: list[str], rows: NDArray[np.float32], version: str | None) -> NDArray[np.float32]:
    """The sum of the trees: of a list of them, which is what cldrank writes."""
    if not isinstance(model, list):
        raise ValueError(f"the definition is a {type(model).__name__}, not a list of trees")
    if not model:
        raise ValueError("XGBoost model must define at lease one tree")
    rule = missing_rule(version)
    values = np.where(np.isnan(rows), np.float32(0), rows) if rule == "zero" else rows
    total = np.zeros(len(rows), dtype=np.float32)
    for tree in model:
        total += _outputs(tree, features, values, rule == "own")
    return total


def _outputs(
    tree: dict[str, Any], features: list[str], values: NDArray[np.float32], own_direction: bool
) -> NDArray[np.float32]:
    """What one tree adds: left where the threshold > the value."""
    nodes = _parsed(tree)
    number = {id(node): place for place, node in enumerate(nodes)}
    children = [[number[id(child)] for child in node["children"]] if "leaf" not in node else [-1, -1] for node in nodes]
    feature = np.array([features.index(node["split"]) if "leaf" not in node else 0 for node in nodes])
    threshold = np.array([node.get("split_condition", 0.0) for node in nodes], dtype=np.float32)
    left_if_missing = np.array(
        [own_direction and "leaf" not in node and node.get("missing") == node["yes"] for node in nodes]
    )

    def goes_left(places: NDArray[np.int64], at: NDArray[np.int64]) -> NDArray[np.bool_]:
        value = values[places, feature[at]]
        found: NDArray[np.bool_] = np.where(np.isnan(value), left_if_missing[at], threshold[at] > value)
        return found

    left, right = np.array(children, dtype=np.int64).T
    output = np.array([node.get("leaf", 0.0) for node in nodes], dtype=np.float32)
    return output[reached_leaves(left, right, len(values), goes_left)]


def _parsed(root: dict[str, Any]) -> list[dict[str, Any]]:
    """All nodes, the root first; refused where the plugin refuses them."""
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if unknown := node.keys() - _NODE:
            raise ValueError(f"unknown field [{min(unknown)}]")
        if "nodeid" not in node:
            raise ValueError("This split or leaf does not have all the required fields")
        if "leaf" not in node:
            if not {"split", "split_condition", "yes", "no", "depth", "children"} <= node.keys():
                raise ValueError("This split does not have all the required fields")
            if [child.get("nodeid") for child in node["children"]] != [node["yes"], node["no"]]:
                raise ValueError("Split structure is invalid")
            if node.get("missing", node["yes"]) not in (node["yes"], node["no"]):
                raise ValueError("Split structure is invalid")
            waiting += node["children"]
        found.append(node)
    return found
