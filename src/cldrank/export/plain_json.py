"""JSON: a ranker as plain numbers, for engines that nobody has written a format for."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._version import __version__
from cldrank.export.format import Exported, ExportFormat, ExportRequest, Files
from cldrank.export.forms import affine_form, tree_forms
from cldrank.export.replay import plain_json
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, TreeRanker


class PlainJson(ExportFormat):
    """Scaling, layers or trees as lists of numbers; docs/reference/export.md says what they mean."""

    name = "json"
    label = "JSON"
    sentence = "plain numbers with documented meaning, for an engine of your own"
    order = 90
    one_file = True

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """One JSON document."""
        names = request.names(ranker)
        about = {"format": "cldrank-export", "version": 1, "name": request.name, "cldrank": __version__}
        content = {**about, "features": list(names), **self._content(ranker)}
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        return Exported(files={"model": (text + "\n").encode()})

    def _content(self, ranker: Ranker) -> dict[str, Any]:
        if isinstance(ranker, TreeRanker):
            return {"kind": "trees", "trees": [_tree(tree) for tree in tree_forms(ranker)]}
        if not isinstance(ranker, LinearRanker | NetworkRanker):
            raise self.refuse(
                ranker, "it is neither linear, nor a plain network, nor trees", "train one of these to export it"
            )
        scaling = affine_form(ranker)
        if scaling is None:
            raise self.refuse(ranker, f"its scaling is {ranker.scaling.rule}", "retrain with scaling 'standard'")
        described = {
            "logarithm": scaling.logarithm,
            "center": scaling.center.tolist(),
            "factor": scaling.factor.tolist(),
            "low": scaling.low,
            "high": scaling.high,
        }
        if isinstance(ranker, LinearRanker):
            linear = {"coefficients": ranker.coefficients.tolist(), "intercept": ranker.intercept}
            return {"kind": "linear", "scaling": described, **linear}
        layers = [
            {"kind": layer.kind, "weight": _numbers(layer.weight), "bias": _numbers(layer.bias)}
            if layer.weight is not None
            else {"kind": layer.kind}
            for layer in ranker.layers
        ]
        return {"kind": "network", "scaling": described, "layers": layers}

    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """In float64, as the documentation of the format says."""
        del request
        return plain_json.scores(files["model"], table)


def _numbers(values: NDArray[np.float32] | None) -> Any:
    """Numbers as short as float32 allows."""
    return None if values is None else np.vectorize(lambda one: float(str(one)), otypes=[object])(values).tolist()


def _tree(tree: Any) -> dict[str, Any]:
    return {
        "feature": tree.feature.tolist(),
        "threshold": _numbers(tree.threshold),
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
        "missing_left": tree.missing_left.tolist(),
        "value": _numbers(tree.value),
    }
