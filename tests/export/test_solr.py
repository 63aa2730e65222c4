from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import made_rankers as made
import numpy as np
import pytest
import tricky
from numpy.typing import NDArray

from cldrank import scaling
from cldrank.export import Exported, ExportRequest, Parity
from cldrank.export.format import InexpressibleError
from cldrank.export.formats.solr import Solr
from cldrank.export.replay import NamedTable
from cldrank.rankers import Ranker, TreeRanker

FORMAT = Solr()
UNCLIPPED = scaling.Standard(clip=None)
MILD = [0.1, -2 / 3, 1e-17, 3.0]


RANKERS: dict[str, tuple[str, Callable[[], Ranker]]] = {
    "linear, unscaled": ("LinearModel", partial(made.linear, None, coefficients=MILD)),
    "linear, unclipped": ("LinearModel", partial(made.linear, UNCLIPPED, coefficients=MILD)),
    "linear, minmax, unclipped": ("LinearModel", partial(made.linear, scaling.MinMax(clip=False), coefficients=MILD)),
    "linear, large": ("LinearModel", partial(made.linear, UNCLIPPED)),
    "trees": ("MultipleAdditiveTreesModel", made.trees),
}


def model_of(exported: Exported) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exported.files["model.json"])
    return found


def compared(ranker: Ranker, rows: NDArray[np.float32], **request: Any) -> Parity:
    return tricky.compared(FORMAT, ranker, rows, **request)


def with_thresholds(thresholds: Any, missing_left: bool = False) -> TreeRanker:
    """Trees of one split each by the first feature, with these thresholds and leaves of different sums."""
    content = json.loads(made.trees(rounds=1).content)
    model = content["learner"]["gradient_booster"]["model"]
    trees = []
    for number, threshold in enumerate(thresholds):
        values = {
            "base_weights": [0.0, 0.0, 2.0**number],
            "loss_changes": [1.0, 0.0, 0.0],
            "sum_hessian": [2.0, 1.0, 1.0],
        }
        values |= {"split_conditions": [float(threshold), 0.0, 2.0**number]}
        whole = {"left_children": [1, -1, -1], "right_children": [2, -1, -1], "parents": [2**31 - 1, 0, 0]}
        whole |= {"default_left": [int(missing_left), 0, 0], "split_indices": [0, 0, 0], "split_type": [0, 0, 0]}
        sizes = {"num_deleted": "0", "num_feature": "4", "num_nodes": "3", "size_leaf_vector": "1"}
        rest = {
            "id": number,
            "tree_param": sizes,
            **{key: [] for key in model["trees"][0] if key.startswith("categor")},
        }
        trees.append({**values, **whole, **rest})
    model |= {
        "trees": trees,
        "tree_info": [0] * len(trees),
        "iteration_indptr": list(range(len(trees) + 1)),
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
    }
    return TreeRanker(content=json.dumps(content).encode(), feature_names=made.NAMES)


class TestParity:
    @pytest.mark.parametrize("name", RANKERS)
    def test_solr_scores_as_the_ranker_does(self, name: str) -> None:
        kind, make = RANKERS[name]
        ranker = make()
        assert model_of(FORMAT.export(ranker, ExportRequest()))["class"] == f"org.apache.solr.ltr.model.{kind}"
        found = compared(ranker, tricky.tricky(made.FEATURES))
        assert found.largest <= 2e-6 * max(found.scale, 1)
        assert found.swapped == 0

    def test_trees_split_alike_at_thresholds_and_where_values_are_missing(self) -> None:
        ranker = made.trees(rounds=20)
        rows = tricky.with_gaps(tricky.at_thresholds(ranker, made.FEATURES))
        found = compared(ranker, rows)
        assert found.largest == found.swapped == found.tied == 0
        lost = np.where(np.isnan(rows), np.float32(0), rows)
        assert np.abs(ranker.predict(rows) - ranker.predict(lost)).max() > 0.1  # missing values matter here

    def test_a_constant_feature_is_left_out_of_the_model(self) -> None:
        rows = made.FEATURES.copy()
        rows[:, 1] = 7
        ranker = made.linear(coefficients=MILD, scaling=scaling.fit(UNCLIPPED, rows))
        exported = FORMAT.export(ranker, ExportRequest())
        assert [feature["name"] for feature in model_of(exported)["features"]] == ["bm25", "l_nge", "clicks"]
        assert "3 of 4 features are to be defined; the others need no definition" in exported.notes
        store = json.loads(exported.files["features.json"])
        assert [feature["name"] for feature in store] == ["bm25", "l_nge", "clicks"]
        found = compared(ranker, tricky.tricky(made.FEATURES))
        assert found.largest < 1e-6 * found.scale

    def test_trees_without_a_split_still_load(self) -> None:
        ranker = with_thresholds([0.5])
        content = json.loads(ranker.content)
        tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
        for name, values in tree.items():
            tree[name] = values[:1] if isinstance(values, list) else values
        tree |= {"left_children": [-1], "right_children": [-1], "split_conditions": [0.25]}
        tree["tree_param"]["num_nodes"] = "1"
        stump = TreeRanker(content=json.dumps(content).encode(), feature_names=made.NAMES)
        assert stump.predict(made.FEATURES)[0] == 0.25
        assert compared(stump, tricky.with_gaps(made.FEATURES)).largest == 0


class TestThresholds:
    def test_rankers_with_such_thresholds_are_exact(self) -> None:
        ranker = with_thresholds([0.0, 1e-7, -3.3333e-6, 3.0000001e-6, 0.5, 20.0], missing_left=True)
        assert model_of(FORMAT.export(ranker, ExportRequest()))["features"][0]["norm"]["params"]["avg"] == "0.0"
        rows = tricky.with_gaps(tricky.at_thresholds(ranker, made.FEATURES))
        rows[:4, 0] = [1e38, -1e38, 0.0, -0.0]
        assert compared(ranker, rows).largest == 0

    def test_what_cannot_be_exact_is_refused_or_measured(self) -> None:
        ranker = with_thresholds([1e-40, 1e30])
        with pytest.raises(InexpressibleError, match=r"1 split of 2 would send values up to .* to the right; ask for"):
            FORMAT.export(ranker, ExportRequest())
        exported = FORMAT.export(ranker, ExportRequest(approximate=True))
        assert len(exported.losses) == 1
        rows = np.repeat(np.array([[0], [5e-41], [1e-40], [1], [1e31]], dtype=np.float32), 4, axis=1)
        table = NamedTable(tricky.ENGINE_NAMES, rows)
        assert FORMAT.replay(exported.files, table, ExportRequest()).tolist() == [0, 1, 1, 1, 3]
        assert ranker.predict(rows).tolist() == [0, 0, 1, 1, 3]


class TestMissingValues:
    def test_before_9_2_they_count_as_0(self) -> None:
        ranker, request = made.trees(rounds=20), ExportRequest(version="9.1")
        with pytest.raises(InexpressibleError, match="counts as 0 before Solr 9.2.*write for 9.2 or newer, or ask"):
            FORMAT.export(ranker, request)
        request = ExportRequest(version="9.1", approximate=True)
        exported = FORMAT.export(ranker, request)
        assert exported.losses == ("a missing value counts as 0 before Solr 9.2",)
        assert b"NaN" not in exported.files["features.json"]
        assert "isNullSameAsZero" not in model_of(exported)["params"]
        rows = tricky.with_gaps(tricky.at_thresholds(ranker, made.FEATURES))
        zeros = np.where(np.isnan(rows), np.float32(0), rows)
        engine = FORMAT.replay(exported.files, NamedTable(tricky.ENGINE_NAMES, rows), request)
        assert np.array_equal(engine, ranker.predict(zeros))

    def test_trees_that_never_saw_one_take_0_for_what_does_not_match(self) -> None:
        ranker, request = with_thresholds([0.5, 1.0]), ExportRequest()
        exported = FORMAT.export(ranker, request)
        assert exported.losses == ()
        assert b"NaN" not in exported.files["features.json"]
        assert "isNullSameAsZero" not in model_of(exported)["params"]
        assert any("does not match counts 0" in note for note in exported.notes)
        rows = tricky.with_gaps(made.FEATURES)
        engine = FORMAT.replay(exported.files, NamedTable(tricky.ENGINE_NAMES, rows), request)
        assert np.array_equal(engine, ranker.predict(np.nan_to_num(rows)))


class TestFiles:
    def test_every_feature_waits_for_its_query(self) -> None:
        exported = FORMAT.export(made.linear(UNCLIPPED), ExportRequest(name="mine"))
        store = json.loads(exported.files["features.json"])
        assert [feature["name"] for feature in store] == list(tricky.ENGINE_NAMES)
        assert {feature["store"] for feature in store} == {"mine"}
        assert all(feature["params"] == {"q": "{!TODO}${text}"} for feature in store)
        assert exported.to_fill == {"features.json": list(tricky.ENGINE_NAMES)}


class TestRefusals:
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (made.borda, "BordaRanker"),
            (partial(made.linear, "log"), r"its scaling is SignedLog\(clip=5.0\); retrain with 'standard:clip=none'"),
            (made.linear, r"cannot clip .*retrain with 'standard:clip=none'.*, or ask for an approximation"),
            (partial(made.linear, UNCLIPPED, coefficients=[1e39, 0, 0, 0]), r"one of its numbers is 1e\+39"),
        ],
    )
    def test_what_solr_cannot_say_is_refused_with_a_way_out(self, make: Callable[[], Ranker], words: str) -> None:
        with pytest.raises(InexpressibleError, match=words):
            FORMAT.export(make(), ExportRequest())

    def test_trees_that_are_too_deep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def endless(*_: Any, **__: Any) -> None:
            raise RecursionError

        monkeypatch.setattr("cldrank.export.formats.solr.written_json", endless)
        with pytest.raises(InexpressibleError, match=r"a tree is too deep for nested JSON.*fewer leaves"):
            FORMAT.export(made.trees(), ExportRequest())
