"""Solr: models and features for its module `ltr`."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError, setting
from cldrank.export.format import Exported, ExportFormat, ExportRequest, Files
from cldrank.export.forms import TreeForm, affine_form, layers_of, learned_missing, tree_forms
from cldrank.export.rendering import intercept_note, rendered, unused_note
from cldrank.export.replay import solr
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import Layer, LinearRanker, NetworkRanker, Ranker, TreeRanker
from cldrank.wording import count

_PACKAGE = "org.apache.solr.ltr"
_ACTIVATIONS = ("relu", "tanh", "sigmoid")
_SLACK = np.float32(1e-6)  # what Solr adds to a threshold, in float32
_WIDEST = 200.0  # from one bound of clipping to the other: float32 numbers of that size are 1.5e-5 apart
_DEEPEST = 400  # splits above a leaf: readers of JSON follow nested objects by recursion
_NOTEWORTHY = 1e-6  # a smaller constant is what rounding leaves
_ZOOKEEPER = 1_000_000  # bytes: what it takes in one piece, unless told otherwise
_LARGEST = float(np.finfo(np.float32).max)
Floats = NDArray[np.float32]


class Solr(ExportFormat):
    """`LinearModel`, `NeuralNetworkModel` or `MultipleAdditiveTreesModel`, with a feature store to complete."""

    name = "solr"
    label = "Solr"
    sentence = "a model and a feature store for the module `ltr`, since 6.4"
    order = 40
    newest = "10.0"

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """`model.json`, `features.json` and `README.md`."""
        self._needs("6.4", "learning to rank", ranker, request)
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", request.name):
            raise UsageError("{} must be letters, digits, '_', '-' and '.', not {!r}.", setting("name"), request.name)
        if isinstance(ranker, TreeRanker):
            return self._trees(ranker, request)
        if isinstance(ranker, LinearRanker | NetworkRanker):
            return self._layers(ranker, request)
        raise self.refuse(
            ranker, "it is neither linear, nor a plain network, nor trees", "train one of these to export it"
        )

    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """In float32, as Solr's Java does."""
        return solr.scores(files, table, request.version)

    def _layers(self, ranker: LinearRanker | NetworkRanker, request: ExportRequest) -> Exported:
        """A linear ranker or a network: scaling by normalizers, clipping by two layers before all others."""
        scaling = affine_form(ranker)
        if scaling is None or scaling.logarithm:
            raise self.refuse(
                ranker, f"its scaling is {ranker.scaling.rule}", "retrain with scaling 'standard', or without scaling"
            )
        first, *rest = self._own_layers(ranker)
        assert first.weight is not None  # noqa: S101  # the first layer is linear
        moving = (scaling.factor > 0) & (first.weight != 0).any(axis=0)
        used = np.flatnonzero(moving) if moving.any() else np.array([0])  # a model without features is refused
        weight = np.where(moving, first.weight, np.float32(0))[:, used]
        center = scaling.center[used]
        spread = np.divide(1.0, scaling.factor[used], where=moving[used], out=np.ones(len(used)))
        average, deviation = self._float32(ranker, center), self._float32(ranker, spread, above=0)
        remainder = (average - center) / spread  # what an average in float32 leaves out, the same for all rows
        names = request.names(ranker)
        features = [_feature(names[at], average[place], deviation[place]) for place, at in enumerate(used)]
        if isinstance(ranker, LinearRanker) and not scaling.clips:
            weights = {names[at]: _number(weight[0, place]) for place, at in enumerate(used)}
            shift = ranker.intercept + float(weight[0] @ remainder)
            return self._exported(ranker, request, "LinearModel", features, {"weights": weights}, shift=shift)
        self._needs("7.3", "networks, which clipping needs too,", ranker, request)
        before, offset = [], remainder
        if scaling.low is not None and scaling.high is not None:
            before = self._clipping(ranker, scaling.low, scaling.high, remainder)
            offset = np.full(len(used), scaling.low)
        own = 0.0 if first.bias is None or isinstance(ranker, LinearRanker) else first.bias
        bias = self._float32(ranker, own + weight @ offset)
        layers = self._solr_layers(ranker, request, [Layer("linear", weight, bias), *rest])
        params = {"layers": [*before, *layers]}
        shift = ranker.intercept if isinstance(ranker, LinearRanker) else 0.0  # large, it would cost digits
        return self._exported(ranker, request, "NeuralNetworkModel", features, params, shift=shift)

    def _own_layers(self, ranker: LinearRanker | NetworkRanker) -> tuple[Layer, ...]:
        if isinstance(ranker, LinearRanker):
            self._float32(ranker, np.append(ranker.coefficients, ranker.intercept))
        found = layers_of(ranker)
        if found and found[0].kind == "linear":
            return found
        return (Layer("linear", np.eye(len(ranker.feature_names), dtype=np.float32)), *found)

    def _clipping(
        self, ranker: LinearRanker | NetworkRanker, low: float, high: float, remainder: NDArray[np.float64]
    ) -> list[dict[str, Any]]:
        """Layers from normalised features to clip(z, low, high) - low = relu(width - relu(high - z)).

        relu(z - low) - relu(z - high) is the same, but the difference of two large numbers where z is large.
        """
        width = high - low
        if width > _WIDEST:
            raise self.refuse(
                ranker,
                f"it clips scaled features at {low:g} and {high:g}, and float32, which Solr computes in, cannot clip "
                "that far out without a loss",
                "retrain with a clip of at most 100, or none, as in scaling 'standard:clip=none'",
            )
        negative = 0 - np.eye(len(remainder), dtype=np.float32)  # without a -0.0
        bias = self._float32(ranker, high - remainder)
        return [
            _solr_layer(negative, bias, "relu"),
            _solr_layer(negative, np.full(len(remainder), width, dtype=np.float32), "relu"),
        ]

    def _solr_layers(self, ranker: Ranker, request: ExportRequest, layers: list[Layer]) -> list[dict[str, Any]]:
        """Layers as Solr has them: a matrix, a bias and an activation each."""
        found: list[dict[str, Any]] = []
        for layer in layers:
            if layer.weight is not None:
                bias = np.zeros(len(layer.weight), dtype=np.float32) if layer.bias is None else layer.bias
                found.append(_solr_layer(layer.weight, bias, "identity"))
                continue
            if layer.kind not in _ACTIVATIONS:
                raise self.refuse(
                    ranker,
                    f"its activation is {layer.kind}, and Solr knows {', '.join(_ACTIVATIONS)}",
                    "retrain with activation 'relu'",
                )
            if layer.kind == "tanh":
                self._needs("7.6", "the activation tanh", ranker, request)
            if found[-1]["activation"] != "identity":
                size = len(found[-1]["bias"])
                found.append(_solr_layer(np.eye(size, dtype=np.float32), np.zeros(size, dtype=np.float32), "identity"))
            found[-1]["activation"] = layer.kind
        return found

    def _trees(self, ranker: TreeRanker, request: ExportRequest) -> Exported:
        """Trees: thresholds such that every float32 number goes where it went, and missing values too, since 9.2."""
        trees, names = tree_forms(ranker), request.names(ranker)
        learned = learned_missing(ranker)  # else nothing was missing in training, and 0 stands for what does not match
        nulls = learned and request.at_least("9.2")
        deepest = max(map(_depth, trees))
        if deepest > _DEEPEST:
            raise self.refuse(
                ranker,
                f"a tree is {deepest} splits deep, and nested JSON is read by recursion",
                "retrain with fewer leaves",
            )
        splits = [tree.left >= 0 for tree in trees]
        feature, threshold, missing_left = (
            np.concatenate([getattr(tree, part)[inside] for tree, inside in zip(trees, splits, strict=True)])
            for part in ("feature", "threshold", "missing_left")
        )
        powers, written, gap = _written_thresholds(feature, threshold)
        turned = missing_left != (threshold > 0) if learned and not nulls else np.zeros(0)
        losses = _losses(gap, turned)
        if losses and not request.approximate:
            newer = "write for 9.2 or newer, or " if turned.any() else ""
            raise self.refuse(ranker, "; ".join(losses), f"{newer}ask for an approximation, which is measured")
        used = sorted(powers) or [0]  # a model without features is refused
        features = [_feature(names[at], np.float32(0), np.float32(2.0 ** -powers.get(at, 0))) for at in used]
        parts = np.split(written, np.cumsum([inside.sum() for inside in splits])[:-1])
        roots = [_nested(tree, part, names, nulls) for tree, part in zip(trees, parts, strict=True)]
        same: dict[str, Any] = {"isNullSameAsZero": False} if nulls else {}  # the text "false" is refused
        params = same | {"trees": [{"weight": "1", "root": root} for root in roots]}
        kind = "MultipleAdditiveTreesModel"
        return self._exported(ranker, request, kind, features, params, losses=losses, nulls=nulls)

    def _exported(
        self,
        ranker: Ranker,
        request: ExportRequest,
        kind: str,
        features: list[dict[str, Any]],
        params: dict[str, Any],
        *,
        shift: float = 0.0,
        losses: tuple[str, ...] = (),
        nulls: bool = False,
    ) -> Exported:
        names = request.names(ranker)
        about = {"store": request.name, "name": request.name, "class": f"{_PACKAGE}.model.{kind}"}
        model = _json({**about, "features": features, "params": params}, indent=1 if kind == "LinearModel" else None)
        used = [feature["name"] for feature in features]
        store = _json([_definition(name, request.name, nulls) for name in used], indent=1)
        notes = unused_note(names, used)
        if abs(shift) > _NOTEWORTHY:
            notes.append(intercept_note("Solr", shift))
        if nulls:
            notes.append(
                "a feature that does not match is missing (defaultValue NaN); delete the defaultValue of those that "
                "were 0 in the training data where they did not match"
            )
        else:
            notes.append("a feature that does not match counts as 0; it must have been 0 in the training data too")
        if len(model) > _ZOOKEEPER:
            size = f"{len(model) / 1e6:.1f} MB"
            notes.append(f"the model has {size}: SolrCloud takes it only through DefaultWrapperModel")
        readme = _readme(ranker, request, kind, notes)
        files = {"features.json": store, "model.json": model, "README.md": readme}
        return Exported(
            files=files,
            to_fill={"features.json": used},
            unmatched="missing" if nulls else "zero",
            shift=shift,
            losses=losses,
            notes=tuple(notes),
        )

    def _needs(self, version: str, what: str, ranker: Ranker, request: ExportRequest) -> None:
        if not request.at_least(version):
            raise self.refuse(ranker, f"{what} came with Solr {version}", f"write for {version} or newer")

    def _float32(self, ranker: Ranker, values: NDArray[np.float64], above: float = -np.inf) -> Floats:
        """The same in float32; refused where it cannot hold one."""
        with np.errstate(over="ignore"):
            found = values.astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(found) | (found <= above))
        if len(bad):
            raise self.refuse(
                ranker,
                f"one of its numbers is {values[bad[0]]:g}, which float32 cannot hold",
                "retrain with features of a usual size",
            )
        return found


def _number(value: np.float32) -> float:
    """A float32 number with as few digits as it takes; always a decimal, which Solr insists on in matrices."""
    return float(str(value))


def _feature(name: str, average: np.float32, deviation: np.float32) -> dict[str, Any]:
    """A feature of the model; the numbers of a normalizer are texts, because Solr takes nothing else."""
    if average == 0 and deviation == 1:
        return {"name": name}
    params = {"avg": str(average), "std": str(deviation)}
    return {"name": name, "norm": {"class": f"{_PACKAGE}.norm.StandardNormalizer", "params": params}}


def _definition(name: str, store: str, nulls: bool) -> dict[str, Any]:
    """A feature of the store, to be completed: an unknown parser makes Solr complain where nobody did."""
    params = {"q": "{!TODO}${text}", **({"defaultValue": "NaN"} if nulls else {})}
    return {"store": store, "name": name, "class": f"{_PACKAGE}.feature.SolrFeature", "params": params}


def _solr_layer(matrix: Floats, bias: Floats, activation: str) -> dict[str, Any]:
    rows = [[_number(value) for value in row] for row in matrix]
    return {"matrix": rows, "bias": [_number(value) for value in bias], "activation": activation}


def _losses(gap: NDArray[np.float64], turned: NDArray[Any]) -> tuple[str, ...]:
    """What trees lose: splits that some values pass on the wrong side, and those that missing values do."""
    astray, found = int(np.count_nonzero(gap)), []
    if astray:
        found.append(
            f"Solr adds 1e-6 to thresholds in float32, so that {count(astray, 'split')} of {len(gap):,} would send "
            f"values up to {gap.max():.2g} below the threshold to the right"
        )
    if turned.any():
        found.append(
            "a missing value counts as 0 before Solr 9.2, so that "
            f"{count(int(turned.sum()), 'split')} of {len(gap):,} would send it to the other side"
        )
    return tuple(found)


def _depth(tree: TreeForm) -> int:
    """How many splits lie above the deepest leaf; children come after their parents."""
    depth = np.zeros(len(tree.left), dtype=np.int64)
    for node in np.flatnonzero(tree.left >= 0):
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return int(depth.max())


def _nested(tree: TreeForm, thresholds: Floats, names: tuple[str, ...], nulls: bool) -> dict[str, Any]:
    """The root of a tree as Solr nests it; all numbers are texts, because Solr takes nothing else."""
    place = np.cumsum(tree.left >= 0) - 1
    nodes: dict[int, dict[str, Any]] = {}
    for node in reversed(range(len(tree.left))):  # children come after their parents
        if tree.is_leaf(node):
            nodes[node] = {"value": str(tree.value[node])}
            continue
        missing = {"missing": "left" if tree.missing_left[node] else "right"} if nulls else {}
        nodes[node] = {
            "feature": names[tree.feature[node]],
            "threshold": str(thresholds[place[node]]),
            **missing,
            "left": nodes.pop(int(tree.left[node])),
            "right": nodes.pop(int(tree.right[node])),
        }
    return nodes[0]


def _written_thresholds(
    feature: NDArray[np.int64], threshold: Floats
) -> tuple[dict[int, int], Floats, NDArray[np.float64]]:
    """The powers of two by which features are to be multiplied, the thresholds to write, and what each misses.

    Solr adds 1e-6 in float32, which near 0 reaches few numbers. Multiplied by a power of two, which loses nothing, a
    feature's values and thresholds lie further from 0. The smallest power that makes all its splits exact is taken.
    """
    powers: dict[int, int] = {}
    written, gap = np.zeros_like(threshold), np.zeros(len(threshold))
    for one in np.unique(feature).tolist():
        own = feature == one
        largest = float(np.abs(threshold[own]).max())
        tried = {}
        for power in range(127):
            tried[power] = _solr_thresholds(threshold[own], power)
            if not tried[power][1].any() or largest * 2.0 ** (power + 2) > _LARGEST:
                break
        best = min(tried, key=lambda power: (np.count_nonzero(tried[power][1]), tried[power][1].max()))
        powers[one] = best
        written[own], gap[own] = tried[best]
    return powers, written, gap


def _solr_thresholds(thresholds: Floats, power: int = 0) -> tuple[Floats, NDArray[np.float64]]:
    """What to write so that Solr splits as XGBoost does, and how far below the threshold values go astray.

    XGBoost goes left where value < threshold, Solr where value <= written + 1e-6, rounded to float32. So the sum must
    be at least the float32 number before the threshold, and less than the threshold.

    >>> written, gap = _solr_thresholds(np.array([0.5, 0.0], dtype=np.float32))
    >>> bool(written[0] + np.float32(1e-6) == np.nextafter(np.float32(0.5), np.float32(0))), gap.tolist()
    (True, [0.0, 1.1368683772161603e-13])
    """
    last, first = (
        values.astype(np.float64) * 2.0**power for values in (np.nextafter(thresholds, np.float32(-np.inf)), thresholds)
    )
    start = (last - np.float64(_SLACK)).astype(np.float32)
    below, above = np.nextafter(start, np.float32(-np.inf)), np.nextafter(start, np.float32(np.inf))
    near = np.stack([np.nextafter(below, np.float32(-np.inf)), below, start, above])
    sums = near + _SLACK
    best = np.where(sums < first, sums, np.float32(-np.inf)).argmax(axis=0)
    at = best, np.arange(len(thresholds))
    gap = np.where(sums[at] >= last, 0.0, (first - sums[at]) / 2.0**power)
    return near[at], gap


def _json(content: Any, indent: int | None) -> bytes:
    separators = (",", ":") if indent is None else None
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _readme(ranker: Ranker, request: ExportRequest, kind: str, notes: list[str]) -> bytes:
    return rendered(
        "solr/README.md",
        name=request.name,
        kind=kind,
        solr=request.version or Solr.newest,
        provenance=str(ranker.provenance),
        rerank=shlex.quote(f"rq={{!ltr model={request.name} reRankDocs=100 efi.text=$qq}}"),
        log=shlex.quote(f"fl=id,score,[features store={request.name} efi.text=$qq]"),
        notes=notes,
    )
