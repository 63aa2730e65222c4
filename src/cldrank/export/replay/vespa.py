"""What Vespa computes from a rank profile, and from the model that it names.

After Vespa's source: XGBoostParser and AbstractXGBoostParser for trees, RankingExpressionParser.jj for expressions,
which are evaluated in double; an ONNX model runs in ONNX Runtime, as it does in Vespa. Only what cldrank writes is
understood; anything else is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay import onnx_runtime
from cldrank.export.replay.table import NamedTable

Column = NDArray[np.float64]
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": np.maximum,
    "min": np.minimum,
    "log": np.log,
    "fabs": np.abs,
    "sign": np.sign,
}
_TOKEN = re.compile(
    r"\s*(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|\s*(?P<name>[A-Za-z_@][\w@$]*)|\s*(?P<mark>[-+*/(),.])"
)
_FUNCTION = re.compile(r"function (\w+)\((\w*)\) \{\s*expression(?:: ([^\n]*)\n| \{([^{}]*)\})\s*\}")
_FEATURE = re.compile(r'# TODO: how Vespa computes (".*")\n\s*function (\w+)\(')
_PHASE = re.compile(r"first-phase \{\s*expression(?:: ([^\n]*)\n| \{([^{}]*)\})\s*\}")
_MODEL = re.compile(r"onnx-model (\w+) \{\s*file: (\S+)\s*input features: (\w+)\s*output score: (\w+)\s*\}")
_TENSOR = re.compile(r"tensor<float>\(d0\[1\],d1\[(\d+)\]\):\[\[([^\]]*)\]\]")


def scores(files: Mapping[str, bytes], table: NamedTable, *, rounds_splits: bool) -> Column:
    """A score per row; `rounds_splits` says whether Vespa rounds the thresholds of trees to float32."""
    text = _inherited({name: content.decode() for name, content in files.items() if name.endswith(".profile")})
    profile = _Profile.parsed(text, table)
    if found := re.fullmatch(r'xgboost\("(\S+)"\)', profile.phase):
        trees = json.loads(files[f"models/{found[1]}"])
        return sum((_tree(tree, profile, rounds_splits) for tree in trees), np.zeros(len(table.values)))
    if found := re.fullmatch(r"onnx\((\w+)\)\.(\w+)\{d0:0,d1:0\}", profile.phase):
        name, file, given, output = _MODEL.findall(text)[0]
        if (name, output) != found.groups():
            raise ValueError(f"there is no model {found[1]!r} with the output {found[2]!r}")
        return onnx_runtime.row_scores(files[file], profile.tensor(given))
    return np.broadcast_to(_Expression(profile.phase, profile).whole(), len(table.values)).astype(np.float64)


def _inherited(profiles: Mapping[str, str]) -> str:
    """All rank profiles as one text; a profile that another inherits must be there, in a file of its name."""
    for name, text in profiles.items():
        found = re.match(r"rank-profile (\w+)(?: inherits (\w+))? \{", text)
        if found is None or name != f"{found[1]}.profile":
            raise ValueError(f"{name} does not begin with the rank profile of that name")
        if found[2] is not None and f"{found[2]}.profile" not in profiles:
            raise ValueError(f"the rank profile {found[2]!r}, which {found[1]!r} inherits, is not there")
    return "\n".join(profiles.values())


@dataclass
class _Profile:
    """The functions of a rank profile, and the expression of its first phase.

    features   the function that stands for each feature, as the comments say, and the rank features by name
    """

    phase: str
    functions: dict[str, tuple[str, str]]
    features: dict[str, Column]
    bound: dict[str, Column] = field(default_factory=dict)

    @classmethod
    def parsed(cls, text: str, table: NamedTable) -> _Profile:
        (phase,) = _PHASE.findall(text)
        functions = {name: (argument, line or block) for name, argument, line, block in _FUNCTION.findall(text)}
        stands = {json.loads(feature): function for feature, function in _FEATURE.findall(text)}
        columns = {re.sub(r"\s", "", stands.get(name, name)): table.column(name) for name in table.names}
        return cls("".join(phase).strip(), functions, {name: one.astype(np.float64) for name, one in columns.items()})

    def tensor(self, function: str) -> NDArray[np.float32]:
        """The input of a model: one row, a cell per feature."""
        found = _TENSOR.fullmatch(self.functions[function][1].strip())
        if found is None:
            raise ValueError(f"the function {function!r} does not make a tensor")
        cells = re.split(r",(?![^(]*\))", found[2])
        if len(cells) != int(found[1]):
            raise ValueError(f"a tensor of {found[1]} cells is given {len(cells)}")
        return np.stack([_Expression(cell, self).whole() for cell in cells], axis=1).astype(np.float32)


def _tree(node: dict[str, Any], profile: _Profile, rounds_splits: bool) -> Column:
    """A tree is if (f < t, …), or if (!(f >= t), …) where missing values go below: comparing NaN gives false."""
    if "children" not in node:
        return np.full(len(next(iter(profile.features.values()))), float(node["leaf"]))
    split = np.float64(np.float32(node["split_condition"]) if rounds_splits else node["split_condition"])
    value = _Expression(node["split"], profile).whole()
    condition = ~(value >= split) if node["missing"] == node["yes"] else value < split
    children = {child["nodeid"]: child for child in node["children"]}
    below, above = (_tree(children[node[side]], profile, rounds_splits) for side in ("yes", "no"))
    return np.where(condition, below, above)


class _Expression:
    """A ranking expression: + - * / with the usual precedence, brackets, numbers, features and functions."""

    def __init__(self, text: str, profile: _Profile) -> None:
        self.profile, self.text, self.at = profile, text.strip(), 0

    def whole(self) -> Any:
        """The value of the text, all of it."""
        value = self.sum()
        if self.at < len(self.text):
            raise ValueError(f"cannot read {self.text[self.at :][:40]!r}")
        return value

    def sum(self) -> Any:
        value = self.product()
        while (mark := self.mark("+-")) is not None:
            value = value + self.product() if mark == "+" else value - self.product()
        return value

    def product(self) -> Any:
        value = self.value()
        while (mark := self.mark("*/")) is not None:
            value = value * self.value() if mark == "*" else value / self.value()
        return value

    def value(self) -> Any:
        if self.mark("-"):
            return -self.value()
        if self.mark("("):
            value = self.sum()
            self.expect(")")
            return value
        token = self.token()
        if token["number"]:
            return np.float64(token["number"])
        return self.named(token["name"])

    def named(self, name: str) -> Any:
        """An argument, a function, or a rank feature with its arguments and its output."""
        profile, start = self.profile, self.at
        if name in profile.bound:
            return profile.bound[name]
        if name in profile.features and not self.ahead("("):
            return profile.features[name]
        self.expect("(")
        rest = re.match(r"[\w\s,.]*\)(?:\.[\w.]+)?", self.text[self.at :])
        feature = re.sub(r"\s", "", f"{name}({rest[0]}") if rest else ""
        if feature in profile.features:
            self.at += len(rest[0]) if rest else 0
            return profile.features[feature]
        arguments = [self.sum()]
        while self.mark(","):
            arguments.append(self.sum())
        self.expect(")")
        if name in profile.functions:
            argument, text = profile.functions[name]
            inner = _Profile(profile.phase, profile.functions, profile.features, {argument: arguments[0]})
            return _Expression(text, inner).whole()
        if name not in _FUNCTIONS:
            raise ValueError(f"unknown feature {self.text[start - len(name) : self.at]!r}")
        return _FUNCTIONS[name](*arguments)

    def token(self) -> dict[str, str]:
        found = _TOKEN.match(self.text, self.at)
        if found is None or found["mark"]:
            raise ValueError(f"cannot read {self.text[self.at :][:40]!r}")
        self.at = found.end()
        return found.groupdict()

    def ahead(self, marks: str) -> str | None:
        found = _TOKEN.match(self.text, self.at)
        return found["mark"] if found and found["mark"] and found["mark"] in marks else None

    def mark(self, marks: str) -> str | None:
        found = self.ahead(marks)
        if found:
            self.at = self.text.index(found, self.at) + 1
        return found

    def expect(self, mark: str) -> None:
        if not self.mark(mark):
            raise ValueError(f"{mark!r} is missing at {self.text[self.at :][:40]!r}")
