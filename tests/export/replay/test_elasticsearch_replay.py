from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cldrank.export.replay import NamedTable
from cldrank.export.replay import elasticsearch_replay as replay


def made_definition(*trees: list[dict[str, Any]], names: tuple[str, ...] = ("distance", "minutes")) -> dict[str, Any]:
    """A definition as somebody writes it by hand."""
    models = [{"tree": {"feature_names": list(names), "tree_structure": tree}} for tree in trees]
    ensemble = {"feature_names": list(names), "trained_models": models, "aggregate_output": {"weighted_sum": {}}}
    return {"trained_model": {"ensemble": {"target_type": "regression", **ensemble}}}


def scored(definition: dict[str, Any], *rows: list[float], names: tuple[str, ...] = ("distance", "minutes")) -> Any:
    return replay.ensemble_scores(definition, NamedTable(names, np.array(rows, dtype=np.float32))).tolist()


def split(**changes: Any) -> list[dict[str, Any]]:
    root = {"node_index": 0, "decision_type": "lt", "threshold": 9069.334, "split_feature": 0, "default_left": True}
    leaves: list[dict[str, Any]] = [{"node_index": 1, "leaf_value": -27.5}, {"node_index": 2, "leaf_value": [4.25]}]
    return [{**root, "left_child": 1, "right_child": 2, **changes}, *leaves]


class TestReplay:
    """Trees as the documentation of `PUT _ml/trained_models` has them, computed by hand."""

    def test_leaves_add_up(self) -> None:
        found = scored(made_definition(split(), split(split_feature=1, threshold=100)), [1, 1], [9999, 1], [1, 101])
        assert found == [-55.0, -23.25, -23.25]

    def test_missing_values_go_right_unless_said_otherwise(self) -> None:
        plain = split(threshold=2)
        assert scored(made_definition(plain), [1, 0], [2, 0], [np.nan, 0]) == [-27.5, 4.25, -27.5]
        del plain[0]["default_left"]
        assert scored(made_definition(plain), [np.nan, 0]) == [4.25]

    def test_values_are_compared_in_double(self) -> None:
        """0.7 as a float32 is a little less than 0.7."""
        found = scored(made_definition(split(decision_type="lt", threshold=0.7)), [0.7, 0])
        assert found == [-27.5]
        assert scored(made_definition(split(decision_type="lt", threshold=float(np.float32(0.7)))), [0.7, 0]) == [4.25]

    def test_sums_are_doubles_and_scores_float32(self) -> None:
        leaf = [[{"node_index": 0, "leaf_value": value}] for value in (16777216.0, 0.75, 0.75)]
        assert scored(made_definition(*leaf), [0, 0]) == [16777218.0]

    def test_features_are_found_by_name(self) -> None:
        definition = made_definition(split(threshold=2), names=("b", "a"))
        assert scored(definition, [9, 9, 1], names=("a", "c", "b")) == [-27.5]

    def test_what_it_does_not_know_is_refused(self) -> None:
        averaged = made_definition(split())
        averaged["trained_model"]["ensemble"]["aggregate_output"] = {"weighted_sum": {"weights": [0.5]}}
        with pytest.raises(ValueError, match="weighted_sum"):
            scored(averaged, [1, 1])
        with pytest.raises(ValueError, match="node_index"):
            scored(made_definition(split()[::-1]), [1, 1])
        with pytest.raises(ValueError, match="lte"):
            scored(made_definition(split(decision_type="lte")), [1, 1])
