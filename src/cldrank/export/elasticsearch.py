"""Elasticsearch: trees for its own learning to rank."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._version import __version__
from cldrank.errors import DataError, MissingDependencyError, Spelling, UsageError, setting
from cldrank.export.format import Exported, ExportFormat, ExportRequest, Files, version_parts
from cldrank.export.forms import TreeForm, learned_missing, tree_forms
from cldrank.export.rendering import placeholder_query, readable_json, rendered
from cldrank.export.replay import elasticsearch
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, TreeRanker
from cldrank.wording import some

_IDENTIFIER = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?")
_FIRST = "8.12"  # the first version with learning to rank


class ElasticSearch(ExportFormat):
    """The trees for XGBoost and as Elasticsearch keeps them, features to complete, and a script that uploads both."""

    name = "elasticsearch"
    label = "Elasticsearch"
    sentence = "trees for the learning to rank that Elasticsearch has itself, uploaded by eland or by a call"
    order = 30
    newest = "9.2"

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """`model.json`, `features.json`, `upload.py`, `trained_model.json` and `README.md`."""
        if not isinstance(ranker, TreeRanker):
            raise self._refused(ranker)
        if not _IDENTIFIER.fullmatch(request.name):
            raise UsageError(
                "{} must be small letters, digits, '_', '-' and '.', with a letter or digit at both ends and 64 in "
                "all, not {!r}.",
                setting("name"),
                request.name,
            )
        if not request.at_least(_FIRST):
            raise UsageError(
                "learning to rank came with Elasticsearch {}, so {} cannot be {}; the plugin for older versions loads "
                "what the format 'opensearch' writes.",
                _FIRST,
                Spelling("version", "--for"),
                request.version,
            )
        names, trees = list(request.names(ranker)), tree_forms(ranker)
        learned = learned_missing(trees)
        used = {int(place) for tree in trees for place in tree.feature[tree.left >= 0]}
        notes = [_missing_note(learned)]
        if unused := [name for place, name in enumerate(names) if place not in used]:
            notes.append(f"the trees do not use {some(unused)}")
        version = request.version or self.newest
        context = {
            "name": request.name,
            "engine": f"{self.label} {version}",
            "major": version_parts(version)[0],
            "names": json.dumps(names, ensure_ascii=False),
            "notes": notes,
            "zero_elsewhere": not learned,
        }
        return Exported(
            files={
                "model.json": ranker.content,
                "features.json": readable_json(_features(names, zero_elsewhere=not learned)),
                "upload.py": rendered("elasticsearch/upload.py", **context),
                "trained_model.json": _trained_model(names, trees, request),
                "README.md": rendered("elasticsearch/README.md", **context),
            },
            to_fill={"features.json": names},
            notes=("complete the queries in features.json; README.md has the steps", *notes),
        )

    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """What eland makes of `model.json`, which must score as `trained_model.json` does."""
        del request
        if find_spec("eland") is None:
            raise MissingDependencyError("the check needs eland: pip install 'cldrank[elasticsearch]'.")
        extractors = json.loads(files["features.json"])["learning_to_rank"]["feature_extractors"]
        names = [entry["query_extractor"]["feature_name"] for entry in extractors]
        by_eland = elasticsearch.definition_by_eland(files["model.json"], names)
        scores = elasticsearch.ensemble_scores(by_eland, table)
        written = elasticsearch.ensemble_scores(json.loads(files["trained_model.json"])["definition"], table)
        if not np.array_equal(scores, written):
            raise DataError("upload.py and trained_model.json would not score alike; nothing is written.")
        return scores

    def _refused(self, ranker: Ranker) -> UsageError:
        if isinstance(ranker, LinearRanker):
            way = "export it for the Learning to Rank plugin, with the format 'opensearch', or train trees"
        elif isinstance(ranker, NetworkRanker):
            way = "train trees, or export the network to Vespa, to ONNX, or, with relu, to Solr"
        else:
            way = "train trees to export them"
        return self.refuse(ranker, "its learning to rank has trees alone", way)


def _missing_note(learned: bool) -> str:
    if learned:
        return "a feature whose query does not match is missing, and goes where each split sends missing values"
    return (
        "a feature whose query does not match would be missing, but the trees were trained without missing values: the "
        "queries of features.json match every document, with 0 where nothing is found; keep them so if your training "
        "data has 0 there"
    )


def _features(names: list[str], *, zero_elsewhere: bool) -> dict[str, Any]:
    """The `inference_config`, with a placeholder for each feature.

    Without `default_score`: Elasticsearch accepts it and does not use it.
    """
    query = placeholder_query("query", zero_elsewhere=zero_elsewhere)
    extractors = [{"query_extractor": {"feature_name": name, "query": query}} for name in names]
    return {"learning_to_rank": {"feature_extractors": extractors}}


def _trained_model(names: list[str], trees: list[TreeForm], request: ExportRequest) -> bytes:
    """The body of `PUT _ml/trained_models`, but for the features."""
    ensemble = {
        "target_type": "regression",
        "feature_names": names,
        "trained_models": [
            {"tree": {"target_type": "regression", "feature_names": names, "tree_structure": _nodes(tree)}}
            for tree in trees
        ],
        "aggregate_output": {"weighted_sum": {}},
    }
    body: dict[str, Any] = {"description": f"exported by cldrank {__version__}"}
    if not request.at_least("8.15"):
        body["input"] = {"field_names": names}
    body["definition"] = {"trained_model": {"ensemble": ensemble}}
    return (json.dumps(body, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _nodes(tree: TreeForm) -> list[dict[str, Any]]:
    """A tree as Elasticsearch has it; a float32 written as a double is the same number, so ties stay ties."""
    return [
        {"node_index": node, "leaf_value": float(tree.value[node])}
        if tree.is_leaf(node)
        else {
            "node_index": node,
            "decision_type": "lt",
            "left_child": int(tree.left[node]),
            "right_child": int(tree.right[node]),
            "split_feature": int(tree.feature[node]),
            "threshold": float(tree.threshold[node]),
            "default_left": bool(tree.missing_left[node]),
        }
        for node in range(len(tree.left))
    ]
