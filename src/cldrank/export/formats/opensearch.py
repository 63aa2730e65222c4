"""OpenSearch: linear rankers and trees for the Learning to Rank plugin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from cldrank.documents.text import Markdown
from cldrank.errors import UsageError
from cldrank.export.format import Exported, ExportFormat, ExportRequest, placeholder_query, version_parts, written_json
from cldrank.export.forms import (
    AffineForm,
    affine_form,
    learned_missing,
    linear_features,
    tree_features,
    tree_forms,
    xgboost_dump,
)
from cldrank.rankers import LinearRanker, TreeRanker


class OpenSearch(ExportFormat):
    """A feature set to complete, a model that is ready to post, and the calls.

    The plugin for Elasticsearch loads the same files; versions from 5 on are Elasticsearch's.
    """

    name = "opensearch"
    label = "OpenSearch"
    takes = (LinearRanker, TreeRanker)
    oldest, newest = "1.0", "3.8"
    takes_negative = False

    def engine(self, version: str) -> str:
        """The engine of a version, in words: versions from 5 on are those of Elasticsearch."""
        return f"{'Elasticsearch' if version_parts(version)[0] >= 5 else 'OpenSearch'} {version}"

    def write(self, ranker: LinearRanker | TreeRanker, request: ExportRequest, names: Sequence[str]) -> Exported:
        """`featureset.json`, `model.json`, and `scaling.json` where features are derived."""
        if isinstance(ranker, TreeRanker):
            return self._trees(ranker, request, names)
        scaling = affine_form(ranker)
        places = linear_features(ranker, scaling)
        used = [names[place] for place in places]
        weights, derived = ranker.coefficients[places], []
        if not scaling.changes_nothing:
            derived = [_derived(scaling, place, names[place]) for place in places.tolist()]
            used = [feature["name"] for feature in derived]
            if taken := set(used) & set(names):
                raise UsageError(f"the name {min(taken)!r} is for a derived feature; rename yours with `renamed`.")
        with np.errstate(over="ignore"):
            written = dict(zip(used, weights.astype(np.float32).tolist(), strict=True))
        if infinite := [place for place, weight in zip(places, written.values(), strict=True) if np.isinf(weight)]:
            reason = f"the weight of {names[infinite[0]]!r} exceeds float32"
            raise self.refuse(ranker, reason, "retrain with more l2")
        model = {"type": "model/linear", "definition": json.dumps(written)}
        features = [names[place] for place in places] or [names[0]]  # a set without a feature is refused
        return _packed(request, features, model, derived, shift=ranker.intercept)

    def _trees(self, ranker: TreeRanker, request: ExportRequest, names: Sequence[str]) -> Exported:
        trees, learned = tree_forms(ranker), learned_missing(ranker)
        knows_missing = request.at_least("8.11.4") or (request.at_least("3.8") and not request.at_least("5"))
        engine = self.engine(request.version or self.newest)  # from 5 on Elasticsearch
        losses = () if knows_missing or not learned else (f"{engine} does not send missing values where the splits do",)
        way_out = "export for OpenSearch 3.8, for Elasticsearch 8.12 or later, retrain without missing values, or "
        self.accept(ranker, request, losses, way_out)
        model = {"type": "model/xgboost+json", "definition": json.dumps([xgboost_dump(tree, names) for tree in trees])}
        used = [names[place] for place in tree_features(trees)] or [names[0]]  # a set without a feature is refused
        unmatched = "missing" if learned and not losses else "zero"
        return _packed(request, used, model, unmatched=unmatched, filled=not learned, losses=losses)


def _packed(
    request: ExportRequest,
    used: Sequence[str],
    model: dict[str, Any],
    derived: Sequence[dict[str, Any]] = (),
    *,
    filled: bool = False,
    unmatched: str = "zero",
    **parts: Any,
) -> Exported:
    query = placeholder_query("keywords", zero_elsewhere=filled)
    empty = {"params": ["keywords"], "template_language": "mustache", "template": query}
    features = [request.definition(name) or {"name": name, **empty} for name in used]
    featureset = {"name": f"{request.name}_features", "features": features}
    context = {
        "model_type": Markdown(model["type"]),
        "zero_elsewhere": filled,
        "missing": unmatched == "missing",
        "derived": bool(derived),
    }
    scaling = {"scaling.json": written_json({"features": derived})} if derived else {}
    return Exported(
        files={
            "featureset.json": written_json({"featureset": featureset}),
            **scaling,
            "model.json": written_json({"model": {"name": request.name, "model": model}}),
        },
        to_fill={"featureset.json": used},
        unmatched=unmatched,
        readme=context,
        **parts,
    )


def _derived(scaling: AffineForm, place: int, name: str) -> dict[str, Any]:
    """A derived feature, whose expression the plugin computes in double; its normalizers cannot clip."""
    value = f"ln(1 + max({name}, 0)) - ln(1 + max(-{name}, 0))" if scaling.logarithm else name
    center = float(scaling.center[place])
    scaled = f"({value} - {f'({center!r})' if center < 0 else repr(center)}) * {float(scaling.factor[place])!r}"
    if scaling.low is not None:
        scaled = f"min(max({scaled}, {scaling.low!r}), {scaling.high!r})"
    return {"name": f"{name}_scaled", "params": [], "template_language": "derived_expression", "template": scaled}
