"""Replays: what each engine computes from its files, after its documentation and its source.

A replay reads files and nothing else: it shares no code with what writes them (import-linter keeps it so), and computes
in the engine's own precision. It knows what cldrank writes; anything else is a `ValueError`. Here is what they share.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True, eq=False)
class NamedTable:
    """Features as an engine meets them, by name; NaN where a feature is missing, or does not match, as engines say."""

    names: Sequence[str]
    values: NDArray[np.float32]

    def columns(self, names: Sequence[str]) -> NDArray[np.float32]:
        """The values of some features, in this order."""
        places = {name: place for place, name in enumerate(self.names)}
        return np.ascontiguousarray(self.values[:, [places[name] for name in names]])


def leaf_values(
    nodes: Sequence[Mapping[str, Any]], rows: Floats, goes_left: Callable[[Floats, Floats], Any] = np.less
) -> Any:
    """The value of the leaf of a tree that each row reaches, in the precision of the rows.

    nodes       the root first: `value` of a leaf; else `feature`, `threshold`, `left`, `right`, and `missing_left`
    goes_left   whether a row goes left, from its values and thresholds; a missing value goes by `missing_left`

    >>> root = {"feature": 0, "threshold": 0.5, "left": 1, "right": 2, "missing_left": True}
    >>> leaf_values([root, {"value": 7}, {"value": 8}], np.array([[0.4], [0.5], [np.nan]]))
    array([7., 8., 7.])
    """

    def listed(key: str, default: Any, kind: Any) -> NDArray[Any]:
        return np.array([node.get(key, default) for node in nodes], dtype=kind)

    left, right, feature = (listed(key, -1, np.int64) for key in ("left", "right", "feature"))
    threshold, value = (listed(key, 0, rows.dtype) for key in ("threshold", "value"))
    missing_left = listed("missing_left", False, bool)
    at = np.zeros(len(rows), dtype=np.int64)
    moving = np.flatnonzero(left[at] >= 0)
    while len(moving):
        node = at[moving]
        values = rows[moving, feature[node]]
        is_left = np.where(np.isnan(values), missing_left[node], goes_left(values, threshold[node]))
        at[moving] = np.where(is_left, left[node], right[node])
        moving = moving[left[at[moving]] >= 0]
    return value[at]


def dumped_nodes(root: dict[str, Any], features: Sequence[str]) -> list[dict[str, Any]]:
    """A tree of XGBoost's JSON dump as `leaf_values` takes it; `features` are the columns of the rows."""
    nodes, flat = [root], []
    for node in nodes:  # grows as it goes
        if "leaf" in node:
            flat.append({"value": node["leaf"]})
            continue
        if [child["nodeid"] for child in node["children"]] != [node["yes"], node["no"]]:
            raise ValueError("Split structure is invalid")
        split = {"feature": features.index(node["split"]), "threshold": node["split_condition"]}
        sides = {"left": len(nodes), "right": len(nodes) + 1, "missing_left": node.get("missing") == node["yes"]}
        flat.append({**split, **sides})
        nodes += node["children"]
    return flat


def evaluated(text: str, columns: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The value of an expression: + - * / with the usual precedence, brackets, numbers, features and functions.

    >>> evaluated("max(a, 2.0) * bm25(title)", {"a": np.ones(1), "bm25(title)": np.ones(1)}, {"max": np.maximum})
    array([2.])
    """
    odd = sorted((name for name in columns if not name.isidentifier()), key=len, reverse=True)
    known = {**columns, **{f"_{place}_": columns[name] for place, name in enumerate(odd)}}
    if odd:  # what Python could not read as a name
        written = "|".join(map(re.escape, odd))
        text = re.sub(rf"(?<![\w.])(?:{written})(?![\w.(])", lambda match: f"_{odd.index(match[0])}_", text)

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return np.float64(number)
            case ast.Name(id=name) if name in known:
                return known[name]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -value(inner)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                return _OPERATORS[type(sign)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in functions:
                return functions[name](*map(value, arguments))
        raise ValueError(f"cannot read {ast.unparse(node)!r} in an expression")

    try:
        return value(ast.parse(f"({text})", mode="eval").body)
    except SyntaxError:
        raise ValueError(f"cannot read {text!r} as an expression") from None
