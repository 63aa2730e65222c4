"""What Vespa computes from a rank profile, and from the model that it names.

After Vespa's source: XGBoostParser and AbstractXGBoostParser for trees, RankingExpressionParser.jj for expressions,
which are evaluated in double; an ONNX model runs in ONNX Runtime, as it does in Vespa.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.export.replay import NamedTable, dumped_nodes, evaluated, leaf_values, onnx_replay

_FUNCTIONS: dict[str, Callable[..., Any]] = {"max": np.maximum, "min": np.minimum}
_EXPRESSION = r"\{\s*expression(?:: ([^\n]*)\n| \{([^{}]*)\})\s*\}"
_FUNCTION = re.compile(rf"function (\w+)\(\) {_EXPRESSION}")
_PHASE = re.compile(rf"first-phase {_EXPRESSION}")
_MODEL = re.compile(r"onnx-model (\w+) \{\s*file: (\S+)\s*input features: (\w+)\s*output score: (\w+)\s*\}")
_TENSOR = re.compile(r"tensor<float>\(d0\[1\],d1\[(\d+)\]\):\[\[([^\]]*)\]\]")


def scores(files: Mapping[str, bytes], table: NamedTable, version: str | None = None) -> NDArray[np.float64]:
    """A score per row; NaN in the table is a missing value."""
    del version  # whether Vespa rounds thresholds to float32, as it does since 8.656, makes no difference to float32
    text = _inherited({name: content.decode() for name, content in files.items() if name.endswith(".profile")})
    (phase,) = ("".join(parts).strip() for parts in _PHASE.findall(text))
    functions = {name: line or block for name, line, block in _FUNCTION.findall(text)}
    rows = table.values.astype(np.float64)
    if match := re.fullmatch(r'xgboost\("(\S+)"\)', phase):
        total = np.zeros(len(rows))
        for tree in json.loads(files[f"models/{match[1]}"]):
            total += leaf_values(dumped_nodes(tree, list(table.names)), rows)
        return total
    if match := re.fullmatch(r"onnx\((\w+)\)\.(\w+)\{d0:0,d1:0\}", phase):
        name, file, given, output = _MODEL.findall(text)[0]
        if (name, output) != match.groups():
            raise ValueError(f"there is no model {match[1]!r} with the output {match[2]!r}")
        return onnx_replay.row_scores(files[file], table.columns(_cells(functions[given].strip())))
    known = dict(zip(table.names, rows.T, strict=True))
    terms = [evaluated(term, known, _FUNCTIONS) for term in re.split(r"\+\s*\n", phase)]  # one per line
    return np.broadcast_to(sum(terms[1:], terms[0]), len(rows)).astype(np.float64)


def _inherited(profiles: Mapping[str, str]) -> str:
    """All rank profiles as one text; a profile that another inherits must be there, in a file of its name."""
    for name, text in profiles.items():
        match = re.match(r"rank-profile (\w+)(?: inherits (\w+))? \{", text)
        if match is None or name != f"{match[1]}.profile":
            raise ValueError(f"{name} does not begin with the rank profile of that name")
        if match[2] is not None and f"{match[2]}.profile" not in profiles:
            raise ValueError(f"the rank profile {match[2]!r}, which {match[1]!r} inherits, is not there")
    return "\n".join(profiles.values())


def _cells(body: str) -> list[str]:
    """The features that make up the input of a model: one row, a cell each."""
    match = _TENSOR.fullmatch(body)
    if match is None:
        raise ValueError(f"{body[:40]!r} does not make a tensor")
    cells = [cell.strip() for cell in re.split(r",(?![^(]*\))", match[2])]
    if len(cells) != int(match[1]):
        raise ValueError(f"a tensor of {match[1]} cells is given {len(cells)}")
    return cells
