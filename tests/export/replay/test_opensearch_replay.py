from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cldrank.export.replay import NamedTable
from cldrank.export.replay import opensearch_replay as replay

ZERO = ("1.3", "2.19", "3.0", "3.1.0", "7.10", "8.9.2", "8.11")
RIGHT = ("3.2", "3.5", "3.6.0", "3.7")
OWN = (None, "3.8", "3.8.1", "3.9", "4.0", "8.11.4", "8.17", "9.0.8")


def files_of(kind: str, definition: Any, features: tuple[str, ...], **more: Any) -> dict[str, bytes]:
    """Files as somebody writes them by hand."""
    model = {"model": {"name": "mine", "model": {"type": kind, "definition": json.dumps(definition), **more}}}
    featureset = {"featureset": {"features": [{"name": name} for name in features]}}
    return {"model.json": json.dumps(model).encode(), "featureset.json": json.dumps(featureset).encode()}


def scored(files: dict[str, bytes], names: tuple[str, ...], *rows: list[float], version: str | None = None) -> Any:
    return replay.scores(files, NamedTable(names, np.array(rows, dtype=np.float32)), version).tolist()


class TestReplayOfLinearModels:
    """The examples of the plugin's documentation, computed by hand."""

    def test_weights_multiply_features(self) -> None:
        names = ("title_query", "body_query", "recency")
        files = files_of("model/linear", {"title_query": 0.3, "body_query": 0.5, "recency": 0.1}, names)
        assert scored(files, names, [10, 2, 0], [0, 0, 5]) == pytest.approx([4.0, 0.5])

    def test_a_feature_without_weight_counts_nothing_and_one_that_does_not_match_is_zero(self) -> None:
        names = ("title_query", "body_query")
        files = files_of("model/linear", {"body_query": 2}, names)
        assert scored(files, names, [9, 1.5], [9, np.nan]) == [3.0, 0.0]

    def test_sums_are_float32(self) -> None:
        names = ("a", "b", "c")
        files = files_of("model/linear", {"a": 1, "b": 1, "c": 1}, names)
        assert scored(files, names, [16777216, 1, 1]) == [16777216.0]  # each 1 is lost, which double would add up

    def test_unknown_models_and_repeated_features_are_refused(self) -> None:
        with pytest.raises(ValueError, match="unknown model type"):
            scored(files_of("model/ranklib", {}, ("a",)), ("a",), [1])
        with pytest.raises(ValueError, match="unique"):
            scored(files_of("model/linear", {}, ("a", "a")), ("a",), [1])


def split(missing: int | None = 2, **changes: Any) -> dict[str, Any]:
    """The tree of the plugin's own tests."""
    leaves = [{"nodeid": 1, "depth": 1, "leaf": 0.5}, {"nodeid": 2, "depth": 1, "leaf": 0.2}]
    node = {"nodeid": 0, "split": "text", "depth": 0, "split_condition": 100.0, "yes": 1, "no": 2, "children": leaves}
    return {**node, **({} if missing is None else {"missing": missing}), **changes}


class TestReplayOfTrees:
    def test_the_documentations_tree(self) -> None:
        names = ("tmdb_multi", "tmdb_title")
        title = {"nodeid": 1, "depth": 1, "split": "tmdb_title", "split_condition": 2.20631, "yes": 3, "no": 4}
        inner = {**title, "missing": 3, "children": [{"nodeid": 3, "leaf": -0.03125}, {"nodeid": 4, "leaf": 0.25}]}
        root = {"nodeid": 0, "depth": 0, "split": "tmdb_multi", "split_condition": 11.2009, "yes": 1, "no": 2}
        tree = {**root, "missing": 1, "children": [inner, {"nodeid": 2, "leaf": 1.5}]}
        files = files_of("model/xgboost+json", [tree, tree], names)
        found = scored(files, names, [1, 1], [11.2009, 1], [12, 0], [0, 2.20631], [np.nan, np.nan])
        assert found == [-0.0625, 3.0, 3.0, 0.5, -0.0625]

    @pytest.mark.parametrize(
        ("missing", "version", "expected"),
        [
            *((2, version, 0.5) for version in ZERO),  # 0 < 100
            *((1, version, 0.2) for version in RIGHT),
            *((2, version, 0.2) for version in (*RIGHT, *OWN)),
            *((1, version, 0.5) for version in OWN),
            (None, "3.8", 0.2),
        ],
    )
    def test_missing_values_go_where_the_version_sends_them(
        self, missing: int | None, version: str | None, expected: float
    ) -> None:
        files = files_of("model/xgboost+json", [split(missing)], ("text",))
        assert scored(files, ("text",), [np.nan], version=version) == pytest.approx([expected])

    @pytest.mark.parametrize(
        ("definition", "words"),
        [
            ([], "not a list of trees"),
            ({"objective": "rank:ndcg", "splits": [split()]}, "not a list of trees"),
            (None, "not a list of trees"),
            ([split(yes=2)], "structure is invalid"),
        ],
    )
    def test_what_the_plugin_refuses_is_refused(self, definition: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            scored(files_of("model/xgboost+json", definition, ("text",)), ("text",), [1])
