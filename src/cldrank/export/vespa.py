"""Vespa: a rank profile, and where it needs one, a model beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._version import __version__
from cldrank.errors import Spelling, UsageError, setting
from cldrank.export.format import Exported, ExportFormat, ExportRequest, Files
from cldrank.export.forms import AffineForm, TreeForm, affine_form, tree_forms
from cldrank.export.onnx_graph import INPUT, OUTPUT, onnx_model
from cldrank.export.rendering import rendered
from cldrank.export.replay import vespa
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, TreeRanker
from cldrank.wording import count, some

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANK_FEATURE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\([A-Za-z0-9_,. ]*\)(\.[A-Za-z0-9_.]+)?")
# the words of the language of ranking expressions (RankingExpressionParser.jj), which no function may be called
_WORDS = frozenset(
    """
    TODO abs acos argmax argmin asin atan atan2 avg bit case ceil cell_cast cell_order concat cos cosh cosine_similarity
    count default diag elu erf euclidean_distance exp expand f fabs false filter_subspaces floor fmod hamming if in
    isNan join l1_normalize l2_normalize ldexp log log10 map map_subspaces matmul max median merge min pow prod random
    range reduce relu rename round sigmoid sign sin sinh softmax sqrt square sum switch tan tanh tensor top true
    unpack_bits xw_plus_b
    """.split()  # noqa: SIM905
)


class Vespa(ExportFormat):
    """Linear rankers as a ranking expression, trees as XGBoost's JSON dump, networks as ONNX."""

    name = "vespa"
    label = "Vespa"
    sentence = "a rank profile with an expression, an XGBoost dump or an ONNX model, ready for an application package"
    order = 50
    newest = "8.656"

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """The rank profiles NAME_features and NAME, a model under models/ where there is one, and README.md."""
        if not isinstance(ranker, LinearRanker | NetworkRanker | TreeRanker):
            raise self.refuse(
                ranker, "it is neither linear, nor a plain network, nor trees", "train one of these to export it"
            )
        if not request.at_least("8"):
            version = Spelling(f"version={request.version!r}", f"--for {request.version}")
            raise UsageError("{} is too old: rank profiles are written for Vespa 8.", version)
        _check_name(request.name)
        names = request.names(ranker)
        functions = _functions(names, request.name)
        terms = [functions.get(name, name) for name in names]
        models: dict[str, bytes] = {}
        scaling = None if isinstance(ranker, TreeRanker) else affine_form(ranker)
        if isinstance(ranker, TreeRanker):
            models[f"models/{request.name}.json"], used = _dump(tree_forms(ranker), terms)
            body = _phase(f'expression: xgboost("{request.name}.json")')
        elif isinstance(ranker, LinearRanker) and scaling is not None:
            body, used = _linear(ranker, scaling, terms, request.name)
        else:
            models[f"models/{request.name}.onnx"] = onnx_model(ranker, request)
            body, used = _onnx(terms, request.name), set(terms)
        wanted = {name: own for name, own in functions.items() if own in used}
        base = f"{request.name}_features"
        features = {f"{base}.profile": _profile(base, _placeholders(wanted)).encode()} if wanted else {}
        title = f"{request.name} inherits {base}" if wanted else request.name
        profile = _profile(title, [_about(ranker), *body])
        readme = rendered(
            "vespa/README.md",
            name=request.name,
            functions=wanted,
            models=list(models),
            takes_missing=ranker.takes_missing,
        )
        return Exported(
            files={**features, f"{request.name}.profile": profile.encode(), "README.md": readme, **models},
            to_fill={name: tuple(wanted.values()) for name in features},
            notes=_notes(wanted),
        )

    def defined_features(self, content: bytes) -> set[str]:
        """The functions of a rank profile."""
        return set(re.findall(r"function\s+(?:inline\s+)?(\w+)\s*\(", content.decode()))

    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """As Vespa's importer and its ranking expressions compute, in double."""
        return vespa.scores(files, table, rounds_splits=request.at_least(self.newest))


def _check_name(name: str) -> None:
    if not _IDENTIFIER.fullmatch(name):
        raise UsageError(
            "{} must consist of letters, digits and _, and start with a letter or _, to name a rank profile of Vespa; "
            "{!r} does not.",
            setting("name"),
            name,
        )
    if name in _WORDS:
        raise UsageError(
            "{} cannot be {!r}, a reserved word in ranking expressions of Vespa; choose another.", setting("name"), name
        )


def _functions(names: Sequence[str], profile: str) -> dict[str, str]:
    """The function that stands for each feature; a feature that Vespa has itself, such as bm25(title), needs none."""
    found: dict[str, str] = {}
    own = {*_WORDS, f"{profile}_{INPUT}", f"{profile}_log"}
    for name in names:
        if _RANK_FEATURE.fullmatch(name):
            continue
        function = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if function in own or not _IDENTIFIER.fullmatch(function):
            function = f"feature_{function}"
        if function in found.values():
            other = next(one for one, known in found.items() if known == function)
            raise UsageError(
                "the features {!r} and {!r} would both be the function {!r} in Vespa; give one another name with {}.",
                other,
                name,
                function,
                Spelling("renamed", "--rename"),
            )
        found[name] = function
    return found


def _placeholders(functions: Mapping[str, str]) -> list[str]:
    """Functions for the user to fill in; Vespa refuses to deploy TODO."""
    return [
        f"# TODO: how Vespa computes {json.dumps(name, ensure_ascii=False)}\n"
        f"function {function}() {{\n    expression: TODO\n}}"
        for name, function in functions.items()
    ]


def _profile(name: str, parts: Sequence[str]) -> str:
    text = "\n\n".join(parts)
    inside = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return f"rank-profile {name} {{\n\n{inside}\n\n}}\n"  # Vespa takes nothing, not even a comment, in front of it


def _about(ranker: Ranker) -> str:
    origin = " ".join(str(ranker.provenance).split())
    return f"# a ranker of {count(len(ranker.feature_names), 'feature')}, {origin} (cldrank {__version__})"


def _phase(*lines: str) -> list[str]:
    inside = "\n".join(f"    {line}" for line in lines)
    return [f"first-phase {{\n{inside}\n}}"]


def _dump(trees: Sequence[TreeForm], terms: Sequence[str]) -> tuple[bytes, set[str]]:
    """The trees as `Booster.dump_model` writes them, and the features that they use."""
    used: set[str] = set()

    def node_of(tree: TreeForm, node: int, depth: int) -> dict[str, Any]:
        if tree.is_leaf(node):
            return {"nodeid": node, "leaf": float(tree.value[node])}
        left, right = int(tree.left[node]), int(tree.right[node])
        term = terms[tree.feature[node]]
        used.add(term)
        return {
            "nodeid": node,
            "depth": depth,
            "split": term,
            "split_condition": split_point(tree.threshold[node]),
            "yes": left,
            "no": right,
            "missing": left if tree.missing_left[node] else right,
            "children": [node_of(tree, left, depth + 1), node_of(tree, right, depth + 1)],
        }

    # Vespa takes a file for a dump if its first line starts with [
    lines = ",\n".join(json.dumps(node_of(tree, 0, 0), allow_nan=False) for tree in trees)
    return f"[\n{lines}\n]\n".encode(), used


def split_point(threshold: np.float32) -> float:
    """The smallest double that float32 rounds to the threshold, or above it.

    XGBoost compares in float32, and Vespa's features are doubles: x < split_point(t) just where float32(x) < t. Newer
    versions of Vespa round it to float32, which gives the threshold itself.

    >>> float(np.float32(0.7)), split_point(np.float32(0.7))
    (0.69999999, 0.69999996)
    """
    if threshold == np.finfo(np.float32).min:
        return float(threshold)  # nothing finite lies below
    below = np.nextafter(threshold, np.float32(-np.inf))
    middle = (float(below) + float(threshold)) / 2
    return middle if np.float32(middle) == threshold else float(np.nextafter(middle, np.inf))


def _linear(ranker: LinearRanker, scaling: AffineForm, terms: Sequence[str], name: str) -> tuple[list[str], set[str]]:
    """A sum over the features that count, one line each, and these features."""
    weighs = np.flatnonzero((ranker.coefficients != 0) & (scaling.factor != 0)).tolist()
    lines = []
    for place in weighs:
        center, factor = scaling.center[place], scaling.factor[place]
        term = f"{name}_log({terms[place]})" if scaling.logarithm else terms[place]
        term = term if (center, factor) == (0, 1) else f"(({term} - {_number(center)}) * {_number(factor)})"
        if scaling.low is not None and scaling.high is not None:
            term = f"max({_number(scaling.low)}, min({_number(scaling.high)}, {term}))"
        lines.append(f"    {_number(ranker.coefficients[place])} * {term} +")
    lines.append(f"    {_number(ranker.intercept)}")
    body = _phase("expression {", *lines, "}")
    return [*([_log_function(name)] if scaling.logarithm else []), *body], {terms[place] for place in weighs}


def _log_function(name: str) -> str:
    """sign(x) log(1 + |x|), exact for small x too: what 1 + |x| rounds away is added again."""
    log, lost = "log(1.0 + fabs(x))", "(fabs(x) - ((1.0 + fabs(x)) - 1.0))"
    return f"function {name}_log(x) {{\n    expression: sign(x) * ({log} + {lost} / (1.0 + fabs(x)))\n}}"


def _number(value: float) -> str:
    """A double as Vespa reads it back; a negative one in brackets."""
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text


def _onnx(terms: Sequence[str], name: str) -> list[str]:
    rows = ",\n".join(f"        {term}" for term in terms)
    kind = f"tensor<float>(d0[1],d1[{len(terms)}])"
    return [
        f"function {name}_{INPUT}() {{\n    expression {{\n        {kind}:[[\n{rows}\n        ]]\n    }}\n}}",
        f"onnx-model {name} {{\n    file: models/{name}.onnx\n    input {INPUT}: {name}_{INPUT}\n"
        f"    output {OUTPUT}: {OUTPUT}\n}}",
        *_phase(f"expression: onnx({name}).{OUTPUT}{{d0:0,d1:0}}"),
    ]


def _notes(functions: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    changed = [f"{own} ({feature})" for feature, own in functions.items() if own != feature]
    if changed:
        found.append(f"names that Vespa cannot take became {some(changed, most=3)}; README.md lists them all")
    return tuple(found)
