"""Elasticsearch: trees for its own learning to rank."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._version import __version__
from cldrank.errors import DataError, MissingDependencyError, Spelling, UsageError, setting
from cldrank.export.format import Exported, ExportFormat, ExportRequest, Files, version_parts
from cldrank.export.forms import TreeForm, features_of, learned_missing, tree_forms
from cldrank.export.rendering import missing_note, placeholder_query, readable_json, rendered, unused_note
from cldrank.export.replay import elasticsearch
from cldrank.export.replay.table import NamedTable
from cldrank.rankers import LinearRanker, NetworkRanker, Ranker, TreeRanker

_IDENTIFIER = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?")
_FIRST = "8.12"  # the first version with learning to rank


class ElasticSearch(ExportFormat):
    """The trees for XGBoost and as Elasticsearch keeps them, features to complete, and a script that uploads both."""

    name = "elasticsearch"
    label = "Elasticsearch"
    sentence = "trees for the learning to rank that Elasticsearch has itself, uploaded by eland or by a call"
    order = 30
    newest = "9.2"
    takes_negative = False

    def write(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """`model.json`, `features.json`, `upload.py`, `trained_model.json` and `README.md`."""
        if not isinstance(ranker, TreeRanker):
            raise self._refused(ranker)
        if not _IDENTIFIER.fullmatch(request.name):
            raise UsageError(
                "{} must be at most 64 lowercase letters, digits, '_', '-' and '.', with a letter or digit at both "
                "ends, not {!r}.",
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
        every, places = request.names(ranker), features_of(tree_forms(ranker))
        names, trees = [every[place] for place in places], _renumbered(tree_forms(ranker), places)
        learned = learned_missing(ranker)
        notes = [missing_note(learned, "features.json"), *unused_note(every, names)]
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
                "model.json": _content(ranker, places),
                "features.json": readable_json(_features(names, zero_elsewhere=not learned)),
                "upload.py": rendered("elasticsearch/upload.py", **context),
                "trained_model.json": _trained_model(names, trees, request),
                "README.md": rendered("elasticsearch/README.md", **context),
            },
            to_fill={"features.json": names},
            unmatched="missing" if learned else "zero",
            notes=tuple(notes),
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
            way = "export it for the Learning to Rank plugin, which the format opensearch is for, or train trees"
        elif isinstance(ranker, NetworkRanker):
            way = "train trees, or export the network to Vespa, to ONNX, or, with relu, to Solr"
        else:
            way = "train trees to export them"
        return self.refuse(ranker, "its learning to rank takes only trees", way)


def _renumbered(trees: list[TreeForm], places: NDArray[np.int64]) -> list[TreeForm]:
    """Trees that know just these features: Elasticsearch computes every feature that a model names."""
    return [replace(tree, feature=np.searchsorted(places, tree.feature).clip(max=len(places) - 1)) for tree in trees]


def _content(ranker: TreeRanker, places: NDArray[np.int64]) -> bytes:
    """The same for XGBoost's own file."""
    content = json.loads(ranker.content)
    content["learner"]["learner_model_param"]["num_feature"] = str(len(places))
    for tree, form in zip(
        content["learner"]["gradient_booster"]["model"]["trees"],
        _renumbered(tree_forms(ranker), places),
        strict=True,
    ):
        tree["split_indices"] = np.where(form.left >= 0, form.feature, 0).tolist()
        tree["tree_param"]["num_feature"] = str(len(places))
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


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
