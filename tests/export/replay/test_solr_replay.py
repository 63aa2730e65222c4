from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cldrank.export.replay import NamedTable
from cldrank.export.replay import solr_replay as replay


def solr_scores(model: dict[str, Any], rows: Any, version: str | None = None, **defaults: Any) -> list[float]:
    """What the replay makes of a model whose features have one letter each."""
    names = sorted({feature["name"] for feature in model["features"]})
    store = [
        {
            "name": name,
            "store": "m",
            "class": "org.apache.solr.ltr.feature.SolrFeature",
            "params": {"q": "x"} | ({"defaultValue": defaults[name]} if name in defaults else {}),
        }
        for name in names
    ]
    files = {"model.json": json.dumps(model).encode(), "features.json": json.dumps(store).encode()}
    found: list[float] = replay.scores(files, NamedTable(names, np.array(rows, dtype=np.float32)), version).tolist()
    return found


def of(kind: str, features: str, params: dict[str, Any], **norms: Any) -> dict[str, Any]:
    own = [{"name": name, **({"norm": norms[name]} if name in norms else {})} for name in features]
    return {"class": f"org.apache.solr.ltr.model.{kind}", "name": "m", "store": "m", "features": own, "params": params}


def norm(kind: str, **params: str) -> dict[str, Any]:
    return {"class": f"org.apache.solr.ltr.norm.{kind}", "params": params}


class TestReplay:
    """Against models of Solr's reference guide and its Javadoc, worked out by hand."""

    def test_the_linear_model(self) -> None:
        # title match, original score, is a book: 1.0, 0.5 and 0.1
        model = of("LinearModel", "tsb", {"weights": {"t": 1.0, "s": 0.5, "b": 0.1}})
        found = solr_scores(model, [[1, 4, 1], [0, 10, 0], [1, np.nan, 0]])  # in the order b, s, t
        assert found == pytest.approx([0.1 + 2 + 1, 5, 0.1], rel=1e-6)

    def test_normalizers(self) -> None:
        standard = norm("StandardNormalizer", avg="42", std="6")
        model = of("LinearModel", "a", {"weights": {"a": 1}}, a=standard)
        assert solr_scores(model, [[39], [45], [np.nan]]) == pytest.approx([-0.5, 0.5, -7], rel=1e-6)

    def test_the_trees_of_the_javadoc(self) -> None:
        inner = {"feature": "o", "threshold": "10.0", "left": {"value": "50"}, "right": {"value": "75"}}
        root = {"feature": "m", "threshold": "0.5", "left": {"value": "-100"}, "right": inner}
        trees = [{"weight": "1", "root": root}, {"weight": "2", "root": {"value": "-10"}}]
        model = of("MultipleAdditiveTreesModel", "mo", {"trees": trees})
        assert solr_scores(model, [[0, 99], [1, 3], [1, 11], [np.nan, 11]]) == [-120, 30, 55, -120]

    def test_a_split_has_slack_and_keeps_what_is_equal_left(self) -> None:
        root = {"feature": "a", "threshold": "0.5", "left": {"value": "1"}, "right": {"value": "2"}}
        model = of("MultipleAdditiveTreesModel", "a", {"trees": [{"weight": "1", "root": root}]})
        assert solr_scores(model, [[0.5], [0.500001], [0.5000015]]) == [1, 1, 2]

    def test_missing_branches_of_the_guide(self) -> None:
        leaves = {"left": {"value": "50"}, "right": {"value": "65"}}
        inner = {"feature": "r", "threshold": "0", "missing": "left", **leaves}
        root = {"feature": "m", "threshold": "0.5", "missing": "left", "left": {"value": "-100"}, "right": inner}
        trees = [{"weight": "1", "root": root}]
        model = of("MultipleAdditiveTreesModel", "mr", {"isNullSameAsZero": False, "trees": trees})
        rows = [[1, np.nan], [1, 5], [0, np.nan], [np.nan, 5]]
        assert solr_scores(model, rows, r="NaN") == [50, 65, -100, -100]
        inner["missing"] = "right"
        assert solr_scores(model, rows, r="NaN") == [65, 65, -100, -100]
        with pytest.raises(ValueError, match="No setter"):
            solr_scores(model, rows, "9.1", r="NaN")
        model["params"]["isNullSameAsZero"] = "false"  # as the guide has it
        with pytest.raises(ValueError, match="not a boolean"):
            solr_scores(model, rows, r="NaN")
        model["params"]["isNullSameAsZero"] = False
        del root["missing"]
        with pytest.raises(ValueError, match="NullPointerException"):
            solr_scores(model, rows, r="NaN", m="NaN")

    def test_sums_are_those_of_java_floats(self) -> None:
        model = of("LinearModel", "abc", {"weights": {"a": 1.0, "b": 1.0, "c": 1.0}})
        assert solr_scores(model, [[1e8, 1, -1e8], [1e8, -1e8, 1]]) == [0, 1]  # one after the other, in float32

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"weights": {"a": 1.0}}, r"lacks weight\(s\) for \['b'\]"),
            ({"trees": [{"weight": 1.0, "root": {"value": "1"}}]}, "not a String"),
        ],
    )
    def test_what_solr_refuses_to_load(self, change: dict[str, Any], words: str) -> None:
        kinds = {"weights": "LinearModel", "trees": "MultipleAdditiveTreesModel"}
        model = of(kinds[next(iter(change))], "ab", change)
        with pytest.raises(ValueError, match=words):
            solr_scores(model, [[1, 2]])
