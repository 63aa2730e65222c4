"""ONNX: a ranker with its scaling as one graph, for ONNX Runtime and all that loads ONNX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from cldrank._version import __version__
from cldrank.errors import MissingDependencyError
from cldrank.export.format import Exported, ExportFormat, ExportRequest
from cldrank.export.forms import TreeForm, affine_form, tree_forms
from cldrank.rankers import BlendRanker, LinearRanker, NetworkRanker, Ranker, ScalingRanker, TreeRanker

INPUT, OUTPUT = "features", "score"
_IR, _OPSET, _TREE_OPSET = 8, 17, 3  # what ONNX Runtime 1.12 of 2022 and all after it can load

Single, Double = np.float32, np.float64


class OnnxGraph(ExportFormat):
    """One graph from `features`, float32 [batch, n], to `score`, float32 [batch, 1].

    It computes as the ranker does: scaling in float64, rounded to float32; layers in float64; trees in float32.
    """

    name = "onnx"
    label = "ONNX Runtime"
    takes = (LinearRanker, NetworkRanker, TreeRanker, BlendRanker)
    one_file = True

    def write(self, ranker: Ranker, request: ExportRequest, names: Sequence[str]) -> Exported:
        """One model, checked by ONNX itself."""
        return Exported(files={"model": onnx_model(ranker, request, names)})


def onnx_model(ranker: Ranker, request: ExportRequest, names: Sequence[str]) -> bytes:
    """The content of the file."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise MissingDependencyError("ONNX needs onnx and onnxruntime: pip install 'cldrank[onnx]'.") from None
    graph = _Graph(onnx)
    members = zip(ranker.weights, ranker.members, strict=True) if isinstance(ranker, BlendRanker) else [(1.0, ranker)]
    scores = [
        _score(graph, member) if weight == 1 else graph.add("Mul", _score(graph, member), graph.array(weight))
        for weight, member in members
    ]
    score = graph.add("Sum", *scores) if len(scores) > 1 else scores[0]
    graph.add("Identity", graph.cast(score, Single), out=OUTPUT)
    model = graph.model(request.name, len(names))
    about = {"features": list(names), "kind": ranker.kind, "provenance": ranker.provenance.as_dict()}
    texts = {name: json.dumps(value, ensure_ascii=False, default=dict) for name, value in about.items()}
    onnx.helper.set_model_props(model, {"cldrank": __version__, **texts})
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _score(graph: _Graph, ranker: Any) -> str:
    """The node of a ranker's score, in float64."""
    if isinstance(ranker, TreeRanker):
        return graph.cast(graph.trees(INPUT, tree_forms(ranker)), Double)
    node = _scaled(graph, ranker)
    if isinstance(ranker, LinearRanker):
        weight, intercept = graph.array(ranker.coefficients[:, None]), graph.array([ranker.intercept])
        return graph.add("Add", graph.add("MatMul", node, weight), intercept)
    for layer in ranker.layers:
        if layer.weight is None:
            node = _activation(graph, node, layer.kind)
        else:
            bias = [] if layer.bias is None else [graph.array(layer.bias)]
            node = graph.add("Gemm", node, graph.array(layer.weight), *bias, transB=1)
    return node


class _Graph:
    """A graph that grows node by node; a node goes by the name of its output."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._arrays: list[Any] = []

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """A node."""
        name = out or f"{operator}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def array(self, values: Any, dtype: type[np.generic] = Double) -> str:
        """Numbers of the model."""
        name = f"numbers_{len(self._arrays)}"
        self._arrays.append(self._onnx.numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def cast(self, node: str, dtype: type[np.generic]) -> str:
        """The same numbers in another type."""
        return self.add("Cast", node, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def trees(self, node: str, trees: list[TreeForm]) -> str:
        """The sum of one leaf of each tree."""
        parts = []
        for number, tree in enumerate(trees):
            leaf, nodes = ~tree.splits, np.arange(len(tree.left))
            split = {
                "treeids": np.full(len(nodes), number),
                "nodeids": nodes,
                "featureids": np.where(leaf, 0, tree.feature),
                "modes": np.where(leaf, "LEAF", "BRANCH_LT"),
                "values": tree.threshold,
                "truenodeids": np.where(leaf, 0, tree.left),
                "falsenodeids": np.where(leaf, 0, tree.right),
                "missing_value_tracks_true": (tree.missing_left & ~leaf).astype(int),
            }
            ends = {"treeids": split["treeids"], "nodeids": nodes, "ids": 0 * nodes, "weights": tree.value}
            named = {f"nodes_{name}": values for name, values in split.items()}
            parts.append(named | {f"target_{name}": values[leaf] for name, values in ends.items()})
        lists = {name: np.concatenate([part[name] for part in parts]).tolist() for name in parts[0]}
        return self.add("TreeEnsembleRegressor", node, domain="ai.onnx.ml", n_targets=1, **lists)

    def model(self, name: str, width: int) -> Any:
        """The whole model."""
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        given = helper.make_tensor_value_info(INPUT, kind, ["batch", width])
        score = helper.make_tensor_value_info(OUTPUT, kind, ["batch", 1])
        graph = helper.make_graph(self._nodes, name, [given], [score], self._arrays)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _TREE_OPSET)]
        about = {"producer_name": "cldrank", "producer_version": __version__}
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR, **about)


def _scaled(graph: _Graph, ranker: ScalingRanker) -> str:
    """Scaled features in float64, rounded to float32 on the way, as the ranker rounds them."""
    form = affine_form(ranker)
    node = graph.cast(INPUT, Double)
    if form.changes_nothing:
        return node
    if form.logarithm:
        node = _signed_log(graph, node)
    node = graph.add("Mul", graph.add("Sub", node, graph.array(form.center)), graph.array(form.factor))
    if form.low is not None:
        node = graph.add("Clip", node, graph.array(form.low), graph.array(form.high))
    return graph.cast(graph.cast(node, Single), Double)


def _signed_log(graph: _Graph, node: str) -> str:
    """sign(x) log(1 + |x|); ONNX has no log1p, so that what 1 + |x| rounds away is added again."""
    unit, size = graph.array(1.0), graph.add("Abs", node)
    more = graph.add("Add", size, unit)
    lost = graph.add("Sub", size, graph.add("Sub", more, unit))
    log = graph.add("Add", graph.add("Log", more), graph.add("Div", lost, more))
    return graph.add("Mul", graph.add("Sign", node), log)


def _activation(graph: _Graph, node: str, kind: str) -> str:
    """An activation in float64, made of what ONNX Runtime computes in float64."""
    if kind != "elu":
        return graph.add({"relu": "Relu", "tanh": "Tanh"}[kind], node)
    zero, unit = graph.array(0.0), graph.array(1.0)  # max(x, 0) + exp(min(x, 0)) - 1
    below = graph.add("Sub", graph.add("Exp", graph.add("Min", node, zero)), unit)
    return graph.add("Add", graph.add("Max", node, zero), below)
