"""OpenSearch: linear rankers and trees for the Learning to Rank plugin."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import Spelling, UsageError, setting
from cldrank.export.format import Exported, ExportFormat, ExportRequest, Files, version_parts
from cldrank.export.forms import AffineForm, TreeForm, affine_form, features_of, learned_missing, tree_forms
from cldrank.export.rendering import (
    NO_MATCH_IS_ZERO,
    intercept_note,
    missing_note,
    placeholder_query,
    readable_json,
    rendered,
    unused_note,
)
from cldrank.export.replay import opensearch
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, TreeRanker
from cldrank.scaling import MinMax
from cldrank.wording import count, listed

_TINY = float(np.finfo(np.float32).tiny)  # the plugin divides by the deviation, so it must not round to 0
_NOTEWORTHY = 1e-6  # a smaller constant is what rounding leaves
_VARIABLE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)  # of Lucene's expressions
Missing = Literal["zero", "right", "own"]


class OpenSearch(ExportFormat):
    """A feature set to complete, a model that is ready to post, and the calls.

    The plugin for Elasticsearch loads the same files; versions from 5 on are Elasticsearch's.
    """

    name = "opensearch"
    label = "OpenSearch"
    sentence = "the Learning to Rank plugin of OpenSearch or Elasticsearch: a feature set, a model, and the calls"
    order = 20
    newest = "3.8"
    takes_negative = False

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """`featureset.json`, `model.json` and `README.md`."""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", request.name):
            raise UsageError("{} must be letters, digits, '_', '-' and '.', not {!r}.", setting("name"), request.name)
        names = request.names(ranker)
        if isinstance(ranker, LinearRanker):
            return self._linear(ranker, request, names)
        if isinstance(ranker, TreeRanker):
            return self._trees(ranker, request, names)
        if isinstance(ranker, NetworkRanker):
            raise self.refuse(
                ranker,
                "its plugin has only linear models and trees",
                "train trees, or export the network to Vespa, to ONNX, or, with relu, to Solr",
            )
        raise self.refuse(ranker, "it is neither linear nor trees", "train one of these to export it")

    def engine(self, version: str) -> str:
        """The engine of a version, in words: versions from 5 on are those of Elasticsearch."""
        return f"{'Elasticsearch' if version_parts(version)[0] >= 5 else 'OpenSearch'} {version}"

    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """In float32, as the plugin's source says."""
        return opensearch.scores(files, table, request.version)

    def _linear(self, ranker: LinearRanker, request: ExportRequest, names: tuple[str, ...]) -> Exported:
        scaling = affine_form(ranker)
        if scaling is None:
            raise self.refuse(ranker, f"its scaling is {ranker.scaling.rule}", "retrain with scaling 'standard'")
        used = np.flatnonzero((scaling.factor * ranker.coefficients) != 0)
        derived = scaling.clips or scaling.logarithm
        form = _derived(ranker, scaling, used, names) if derived else _normalized(ranker, scaling, used, names)
        if not np.isfinite(list(form.weights.values())).all():
            named = next(name for name, weight in form.weights.items() if not np.isfinite(weight))
            raise self.refuse(ranker, f"the weight of {named!r} exceeds float32", "retrain with more l2")
        model: dict[str, Any] = {"type": "model/linear"}
        if form.normalizers:
            model["feature_normalizers"] = form.normalizers
        model["definition"] = json.dumps(form.weights, ensure_ascii=False)
        notes = ["a feature whose query does not match counts 0, as in training data that has 0 there"]
        if abs(form.shift) > _NOTEWORTHY:
            notes.append(intercept_note("the plugin", form.shift))
        return self._packed(
            request,
            names,
            used,
            model,
            losses=(),
            notes=notes,
            shift=form.shift,
            derived=form.derived,
        )

    def _trees(self, ranker: TreeRanker, request: ExportRequest, names: tuple[str, ...]) -> Exported:
        trees = tree_forms(ranker)
        rule, learned = _missing_rule(request), learned_missing(ranker)
        engine = self.engine(request.version or self.newest)
        losses: tuple[str, ...] = ()
        astray = _astray(trees, rule) if learned else 0
        if astray:
            ways = {"zero": "counts a missing value as 0", "right": "sends missing values right at every split"}
            total = count(ranker.n_splits, "split")
            found = f"{engine} {ways[rule]}, which is the wrong side at {astray:,} of {total}"
            if not request.approximate:
                newer = "Elasticsearch 8.12" if engine.startswith("Elastic") else "OpenSearch 3.8"
                raise self.refuse(
                    ranker,
                    found,
                    f"export for {newer} or later, retrain on features without missing values, or ask for an "
                    "approximation",
                )
            losses = (found,)
        model = {"type": "model/xgboost+json", "definition": json.dumps([_tree(tree, names) for tree in trees])}
        zero = not learned and rule != "zero"
        return self._packed(
            request,
            names,
            features_of(trees),
            model,
            losses=losses,
            notes=[NO_MATCH_IS_ZERO if rule == "zero" else missing_note(learned, "featureset.json")],
            zero_elsewhere=zero,
        )

    def _packed(
        self,
        request: ExportRequest,
        names: tuple[str, ...],
        places: NDArray[np.int64],
        model: dict[str, Any],
        *,
        losses: tuple[str, ...],
        notes: list[str],
        shift: float = 0.0,
        zero_elsewhere: bool = False,
        derived: list[dict[str, Any]] | None = None,
    ) -> Exported:
        used = [names[place] for place in places] or [names[0]]
        notes += unused_note(names, used)
        is_trees = model["type"] != "model/linear"
        query = placeholder_query("keywords", zero_elsewhere=zero_elsewhere)
        features = [
            {"name": name, "params": ["keywords"], "template_language": "mustache", "template": query} for name in used
        ]
        featureset = {"featureset": {"name": f"{request.name}_features", "features": features}}
        context = {
            "name": request.name,
            "engine": self.engine(request.version or self.newest),
            "model_type": model["type"],
            "notes": notes,
            "losses": losses,
            "zero_elsewhere": zero_elsewhere,
            "trees": is_trees,
            "first": used[0],
            "derived": bool(derived),
        }
        scaling = {"scaling.json": readable_json({"features": derived})} if derived else {}
        return Exported(
            files={
                "featureset.json": readable_json(featureset),
                **scaling,
                "model.json": readable_json({"model": {"name": request.name, "model": model}}),
                "README.md": rendered("opensearch/README.md", **context),
            },
            unmatched="missing" if is_trees and _missing_rule(request) != "zero" and not zero_elsewhere else "zero",
            to_fill={"featureset.json": used},
            shift=shift,
            losses=losses,
            notes=tuple(notes),
        )


@dataclass(frozen=True, kw_only=True)
class _LinearForm:
    """A linear ranker in float32: weights by feature, what scales the features, and what they lack together."""

    weights: dict[str, float]
    shift: float
    normalizers: dict[str, Any] = field(default_factory=dict)
    derived: list[dict[str, Any]] = field(default_factory=list)


def _derived(ranker: LinearRanker, scaling: AffineForm, used: NDArray[np.int64], names: tuple[str, ...]) -> _LinearForm:
    """Scaled by derived features, whose expressions the plugin computes in double: normalizers cannot clip."""
    own_names = [names[place] for place in used]
    if odd := [name for name in own_names if not _VARIABLE.fullmatch(name)]:
        raise UsageError(
            "{} cannot stand in an expression of OpenSearch, which scales it; give each a name of letters, digits, _ "
            "and ., beginning with a letter, with {}.",
            listed([repr(name) for name in odd]),
            Spelling("renamed", "--rename"),
        )
    weights, derived = {}, []
    for place, name in zip(used.tolist(), own_names, strict=True):
        own = f"{name}_scaled"
        if own in names:
            raise UsageError("a feature is called {!r}; rename it with {}.", own, Spelling("renamed", "--rename"))
        value = f"ln(1 + max({name}, 0)) - ln(1 + max(-{name}, 0))" if scaling.logarithm else name
        scaled = f"({value} - {_signed(scaling.center[place])}) * {float(scaling.factor[place])!r}"
        if scaling.clips:
            scaled = f"min(max({scaled}, {scaling.low!r}), {scaling.high!r})"
        derived.append({"name": own, "params": [], "template_language": "derived_expression", "template": scaled})
        weights[own] = float(_float32(ranker.coefficients[place]))
    return _LinearForm(weights=weights, shift=ranker.intercept, derived=derived)


def _signed(value: np.float64) -> str:
    return f"({float(value)!r})" if value < 0 else repr(float(value))


def _normalized(
    ranker: LinearRanker, scaling: AffineForm, used: NDArray[np.int64], names: tuple[str, ...]
) -> _LinearForm:
    """Scaled by normalizers. What rounding to float32 changes is made up for: of a center in the shift, of a width in
    the weight.
    """
    center, factor = scaling.center[used], scaling.factor[used]
    slope, own = ranker.coefficients[used] * factor, [names[place] for place in used]
    if not scaling.center.any() and (scaling.factor == 1).all():
        return _LinearForm(weights=_weights(own, slope), shift=ranker.intercept)
    low = center.astype(np.float32)
    if isinstance(ranker.scaling.rule, MinMax):
        high = (center + 1 / factor).astype(np.float32)
        width = (high - low).astype(np.float64)
        described = [
            {"min_max": {"minimum": float(one), "maximum": float(two)}} for one, two in zip(low, high, strict=True)
        ]
    else:
        width = np.maximum(1 / factor, _TINY).astype(np.float32).astype(np.float64)
        described = [
            {"standard": {"mean": float(one), "standard_deviation": float(two)}}
            for one, two in zip(low, width, strict=True)
        ]
    shift = ranker.intercept + float(slope @ (low.astype(np.float64) - center))
    normalizers = dict(zip(own, described, strict=True))
    return _LinearForm(weights=_weights(own, slope * width), shift=shift, normalizers=normalizers)


def _weights(names: list[str], values: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(names, _float32(values).tolist(), strict=True))


def _float32(values: Any) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32)


def _missing_rule(request: ExportRequest) -> Missing:
    """What the trees of a version of the plugin do with a missing value."""
    if request.version is not None and version_parts(request.version)[0] >= 5:
        return "own" if request.at_least("8.11.4") else "zero"
    if request.at_least("3.8"):
        return "own"
    return "right" if request.at_least("3.2") else "zero"


def _astray(trees: list[TreeForm], rule: Missing) -> int:
    """How many splits the engine would send a missing value the other way at."""
    found = 0
    for tree in trees:
        theirs = {"zero": tree.threshold > 0, "right": np.zeros_like(tree.missing_left), "own": tree.missing_left}
        found += int(((theirs[rule] != tree.missing_left) & (tree.left >= 0)).sum())
    return found


def _tree(tree: TreeForm, names: tuple[str, ...]) -> dict[str, Any]:
    """A tree as XGBoost dumps it; every number is the float32 itself, so that no parser can round it otherwise."""
    size = len(tree.left)
    depth = np.zeros(size, dtype=np.int64)
    for node in range(size):  # a child comes after its parent
        for child in (tree.left[node], tree.right[node]):
            if child >= 0:
                depth[child] = depth[node] + 1
    made: dict[int, dict[str, Any]] = {}
    for node in reversed(range(size)):
        if tree.is_leaf(node):
            made[node] = {"nodeid": node, "leaf": float(tree.value[node])}
            continue
        left, right = int(tree.left[node]), int(tree.right[node])
        made[node] = {
            "nodeid": node,
            "depth": int(depth[node]),
            "split": names[tree.feature[node]],
            "split_condition": float(tree.threshold[node]),
            "yes": left,
            "no": right,
            "missing": left if tree.missing_left[node] else right,
            "children": [made[left], made[right]],
        }
    return made[0]
