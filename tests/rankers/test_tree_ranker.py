"""Rankers of boosted trees."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from made_rankers import FEATURES, NAMES, dataset, in_blocks, network, rewrite, trees

from cldrank.errors import DataError, FormatError
from cldrank.rankers import TreeRanker, load_ranker

Tree = dict[str, Any]


def holes() -> Any:
    return np.where(np.random.default_rng(1).random(FEATURES.shape) < 0.3, np.nan, FEATURES).astype(np.float32)


def by_hand(ranker: TreeRanker, row: Any) -> float:
    """The sum of the leaves that a row comes to."""
    total = np.float32(0)
    for tree in ranker.trees:
        node = 0
        while tree["left_children"][node] >= 0:
            value = row[tree["split_indices"][node]]
            left = bool(tree["default_left"][node]) if np.isnan(value) else value < tree["split_conditions"][node]
            node = tree["left_children" if left else "right_children"][node]
        total += np.float32(tree["split_conditions"][node])
    return float(total)


def test_a_score_is_the_sum_of_one_leaf_of_each_tree() -> None:
    ranker = trees()
    for table in (FEATURES, holes()):
        np.testing.assert_allclose(ranker.predict(table), [by_hand(ranker, row) for row in table], rtol=1e-6)


def test_blocks_and_kinds_of_numbers_change_nothing() -> None:
    ranker, table = trees(), holes()
    scores = ranker.predict(table)
    np.testing.assert_array_equal(in_blocks(ranker, table, 7), scores)
    np.testing.assert_array_equal(ranker.predict(table.astype(np.float64)), scores)
    np.testing.assert_array_equal(ranker.predict(np.asfortranarray(table)), scores)
    np.testing.assert_array_equal(ranker.predict(table[::2]), scores[::2])
    assert ranker.predict(table[:0]).shape == (0,)


def test_it_holds_the_engine_s_own_file(tmp_path: Path) -> None:
    ranker = trees()
    ranker.save(tmp_path)
    engine = xgboost.Booster()
    engine.load_model(bytearray(ranker.content))
    scores = engine.predict(xgboost.DMatrix(FEATURES), output_margin=True)
    np.testing.assert_array_equal(scores.astype(np.float64), ranker.predict(dataset()))
    again = load_ranker(tmp_path)
    np.testing.assert_array_equal(again.predict(holes()), ranker.predict(holes()))


def test_scores_beyond_float32_are_refused() -> None:
    content = json.loads(trees().content)
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        leaves = [left < 0 for left in tree["left_children"]]
        tree["split_conditions"] = np.where(leaves, 3e38, tree["split_conditions"]).tolist()
    ranker = TreeRanker(content=json.dumps(content).encode(), feature_names=NAMES)
    with pytest.raises(DataError, match=r"the score of row 0 \(counted from 0\) is inf"):
        ranker.predict(FEATURES)


# -- damaged files -------------------------------------------------------------------------------------------------


def _set(*path: Any, to: Any) -> Callable[[Tree], None]:
    def change(tree: Tree) -> None:
        for key in path[:-1]:
            tree = tree[key]
        tree[path[-1]] = to

    return change


def _first(*path: Any, to: Any) -> Callable[[Tree], None]:
    return _set("learner", "gradient_booster", "model", "trees", 0, *path, to=to)


FOREST = ("learner", "gradient_booster", "model")
DAMAGES: list[tuple[Callable[[Tree], Any], str]] = [
    (_set("version", to=[3, 2]), "version"),
    (_set("learner", "feature_names", to=["a"] * 4), "feature_names"),
    (_set("learner", "objective", "name", to="rank:pairwise"), "rank:pairwise"),
    (_set("learner", "learner_model_param", "base_score", to="[5E-1]"), "4 features"),
    (_set("learner", "learner_model_param", "num_feature", to="5"), "4 features"),
    (_set(*FOREST, "trees", to=[]), "trees"),
    (_set(*FOREST, "iteration_indptr", to=[0, 2, 2, 3]), "round"),
    (_set(*FOREST, "cats", "enc", to=[1]), "cats"),
    (_first("split_type", 0, to=1), "split_type"),
    (_first("split_indices", 0, to=4), "feature 5 of 4"),
    (_first("left_children", 0, to=9), "node 0 .* child 9"),
    (_first("right_children", 0, to=-1), "node 0 .* child -1"),
    (_first("parents", 1, to=3), "parents"),
    (_first("default_left", 0, to=True), "default_left"),
    (_first("split_conditions", 0, to=1e39), "split_conditions"),
    (_first("sum_hessian", to=[1.0]), "tree 1: sum_hessian"),
    (_first("id", to=1), "tree 1: its id"),
    (_first("tree_param", "num_nodes", to="8"), "parameters"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGES)
def test_trees_that_the_engine_could_stumble_over_are_refused(
    change: Callable[[Tree], Any], message: str, tmp_path: Path
) -> None:
    trees().save(tmp_path)
    tree = json.loads(trees().content)
    change(tree)
    put(tmp_path, json.dumps(tree).encode())
    with pytest.raises(FormatError, match=message):
        load_ranker(tmp_path)


def put(folder: Path, content: bytes) -> None:
    """Exchange the trees as somebody would who means it: the digest fits."""
    arrays = {"model.json": np.frombuffer(content, dtype=np.uint8)}
    rewrite(folder, json.loads((folder / "ranker.json").read_text()), arrays)


def test_trees_need_their_file_and_other_rankers_have_none(tmp_path: Path) -> None:
    trees().save(tmp_path / "trees")
    rewrite(tmp_path / "trees", json.loads((tmp_path / "trees" / "ranker.json").read_text()), {})
    with pytest.raises(FormatError, match=r"a ranker of trees has model\.json and no arrays, not nothing"):
        load_ranker(tmp_path / "trees")
    network().save(tmp_path / "network")
    put(tmp_path / "network", trees().content)
    with pytest.raises(FormatError):
        load_ranker(tmp_path / "network")


def test_importance_is_the_engine_s() -> None:
    ranker = trees()
    gains = ranker.booster.get_score(importance_type="total_gain")
    theirs = {NAMES[int(name[1:])]: gain / sum(gains.values()) for name, gain in gains.items()}
    assert ranker.importance() == pytest.approx(theirs, rel=1e-5)
    assert list(ranker.importance()) == sorted(theirs, key=lambda name: -theirs[name])


def test_without_the_engine_it_says_what_to_install(tmp_path: Path) -> None:
    trees().save(tmp_path)
    code = (
        "import sys; sys.modules['xgboost'] = None\n"
        "import cldrank\n"
        f"try:\n    cldrank.load_ranker({str(tmp_path)!r})\n"
        "except cldrank.errors.MissingDependencyError as error:\n    print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "boosted trees need xgboost: pip install 'cldrank[trees]'.\n"


@pytest.mark.parametrize("value", [-np.inf, 1e300])
def test_what_is_too_large_is_refused_by_place(value: float) -> None:
    ranker, table = trees(), FEATURES.astype(np.float64)
    table[1, 0] = value
    with pytest.raises(DataError, match=r"feature 1 of row 1 \(counted from 0\) is"):
        ranker.predict(table)
