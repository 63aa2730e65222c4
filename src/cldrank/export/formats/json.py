"""JSON: a ranker as plain numbers, for engines that nobody has written a format for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cldrank._version import __version__
from cldrank.export.format import Exported, ExportFormat, ExportRequest
from cldrank.export.forms import tree_forms
from cldrank.rankers import LinearRanker, NetworkRanker, TreeRanker


class PlainJson(ExportFormat):
    """Scaling, layers or trees as lists of numbers; docs/reference/export.md says what they mean."""

    name = "json"
    label = "JSON"
    takes = (LinearRanker, NetworkRanker, TreeRanker)
    one_file = True

    def write(self, ranker: Any, request: ExportRequest, names: Sequence[str]) -> Exported:
        """One JSON document."""
        about = {"format": "cldrank-export", "version": 1, "name": request.name, "cldrank": __version__}
        content = {**about, "features": list(names), "kind": ranker.kind, **self._content(ranker)}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        return Exported(files={"model": (text + "\n").encode()})

    def _content(self, ranker: Any) -> dict[str, Any]:
        if isinstance(ranker, TreeRanker):
            trees = [{key: _numbers(values) for key, values in vars(tree).items()} for tree in tree_forms(ranker)]
            return {"trees": trees}
        described = {key: _numbers(value) for key, value in asdict(self.affine(ranker)).items()}
        scaling = {"scaling": {"logarithm": described.pop("logarithm"), **described}}
        if isinstance(ranker, LinearRanker):
            return {**scaling, "coefficients": ranker.coefficients.tolist(), "intercept": ranker.intercept}
        linear = ("kind", "weight", "bias")
        return {
            **scaling,
            "layers": [
                {key: _numbers(getattr(layer, key)) for key in (linear if layer.weight is not None else ("kind",))}
                for layer in ranker.layers
            ],
        }


def _numbers(values: Any) -> Any:
    """Plain values; float32 numbers with as few digits as it takes."""
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype != np.float32:
        return values.tolist()
    return np.vectorize(lambda number: float(str(number)), otypes=[object])(values).tolist()
