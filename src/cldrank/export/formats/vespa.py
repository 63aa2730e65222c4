"""Vespa: a rank profile and, unless an expression suffices, a model beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cldrank._version import __version__
from cldrank.documents.text import Markdown
from cldrank.errors import UsageError
from cldrank.export.format import RESERVED, Exported, ExportFormat, ExportRequest
from cldrank.export.formats.onnx import INPUT, OUTPUT, onnx_model
from cldrank.export.forms import affine_form, linear_features, tree_features, tree_forms, xgboost_dump
from cldrank.rankers import BlendRanker, LinearRanker, NetworkRanker, TreeRanker
from cldrank.wording import count


class Vespa(ExportFormat):
    """Linear rankers as a ranking expression, trees as XGBoost's JSON dump, all else as ONNX."""

    name = "vespa"
    label = "Vespa"
    takes = (LinearRanker, NetworkRanker, TreeRanker, BlendRanker)
    oldest, newest = "8", "8.656"
    model_name = ("[A-Za-z_][A-Za-z0-9_]*", "letters, digits and '_', beginning with a letter or '_'")
    defines = r"function\s+(?:inline\s+)?(\w+)\s*\("
    own_feature = r"[A-Za-z_][A-Za-z0-9_]*\([A-Za-z0-9_,. ]*\)(\.[A-Za-z0-9_.]+)?"  # a rank feature, as bm25(title)

    def write(self, ranker: Any, request: ExportRequest, names: Sequence[str]) -> Exported:
        """The rank profiles NAME_features and NAME and, unless an expression suffices, a model under models/."""
        name, models, places = request.name, {}, np.arange(len(names))
        if name in RESERVED or f"{name}_{INPUT}" in names:
            raise UsageError(f"`name` cannot be {name!r}: it is reserved, or begins the name of a feature.")
        if isinstance(ranker, TreeRanker):
            trees = tree_forms(ranker)
            dump = ",\n".join(json.dumps(xgboost_dump(tree, names), allow_nan=False) for tree in trees)
            # Vespa takes a file for a dump if its first line starts with [
            models[f"models/{name}.json"] = f"[\n{dump}\n]\n".encode()
            body, places = [_phase(f'expression: xgboost("{name}.json")')], tree_features(trees)
        elif isinstance(ranker, LinearRanker) and not affine_form(ranker).logarithm:
            body, places = [_linear(ranker, names)], linear_features(ranker, affine_form(ranker))
        else:
            models[f"models/{name}.onnx"] = onnx_model(ranker, request, names)
            body = _onnx(names, name)
        used = {names[place]: ranker.feature_names[place] for place in places.tolist()}
        wanted = {own: feature for own, feature in used.items() if not re.fullmatch(self.own_feature, own)}
        base = f"{name}_features" if request.featureset is None else request.featureset.name
        features = (
            {f"{base}.profile": _profile(base, _placeholders(wanted))} if wanted and not request.featureset else {}
        )
        origin = " ".join(str(ranker.provenance).split())
        about = f"# a ranker of {count(len(names), 'feature')}, {origin} (cldrank {__version__})"
        profile = _profile(f"{name} inherits {base}" if wanted else name, [about, *body])
        return Exported(
            files={**features, f"{name}.profile": profile, **models},
            to_fill={file: tuple(wanted) for file in features},
            readme={
                "wanted": bool(wanted),
                "models": [Markdown(model) for model in models],
                "takes_missing": ranker.takes_missing,
            },
        )


def _placeholders(wanted: dict[str, str]) -> list[str]:
    """Functions for the user to fill in; Vespa refuses to deploy TODO."""
    return [
        f"# TODO: how Vespa computes {json.dumps(feature, ensure_ascii=False)}\n"
        f"function {function}() {{\n    expression: TODO\n}}"
        for function, feature in wanted.items()
    ]


def _profile(title: str, parts: Sequence[str]) -> bytes:
    lines = "\n\n".join(parts).split("\n")
    inside = "\n".join(f"    {line}".rstrip() for line in lines)
    # Vespa takes nothing, not even a comment, in front of it
    return f"rank-profile {title} {{\n\n{inside}\n\n}}\n".encode()


def _phase(*lines: str) -> str:
    inside = "\n".join(f"    {line}" for line in lines)
    return f"first-phase {{\n{inside}\n}}"


def _linear(ranker: LinearRanker, names: Sequence[str]) -> str:
    """A sum over the features that count, one line each."""
    lines, scaling = [], affine_form(ranker)
    for place in linear_features(ranker, scaling).tolist():
        center, factor, term = scaling.center[place], scaling.factor[place], names[place]
        term = term if (center, factor) == (0, 1) else f"(({term} - {_number(center)}) * {_number(factor)})"
        if scaling.low is not None and scaling.high is not None:
            term = f"max({_number(scaling.low)}, min({_number(scaling.high)}, {term}))"
        lines.append(f"    {_number(ranker.coefficients[place])} * {term} +")
    return _phase("expression {", *lines, f"    {_number(ranker.intercept)}", "}")


def _number(value: float) -> str:
    """A double as Vespa reads it back; in brackets if it is negative."""
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def _onnx(names: Sequence[str], name: str) -> list[str]:
    rows = ",\n".join(f"        {own}" for own in names)
    kind = f"tensor<float>(d0[1],d1[{len(names)}])"
    return [
        f"function {name}_{INPUT}() {{\n    expression {{\n        {kind}:[[\n{rows}\n        ]]\n    }}\n}}",
        f"onnx-model {name} {{\n    file: models/{name}.onnx\n    input {INPUT}: {name}_{INPUT}\n"
        f"    output {OUTPUT}: {OUTPUT}\n}}",
        _phase(f"expression: onnx({name}).{OUTPUT}{{d0:0,d1:0}}"),
    ]
