"""Checkpoints of boosted trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from scenes import scene
from small_models import GIVEN_TREES, small_boosted, stop_after

import cldrank as cr
from cldrank.errors import ConvergenceWarning, DataError, UsageError
from cldrank.models import checkpoint


def outcome(fitted: Any) -> list[tuple[Any, ...]]:
    return [(one.number, one.loss, one.validation, one.best, one.held_loss) for one in fitted.history_]


@pytest.mark.parametrize("after", [1, 10])
def test_boosting_resumed_ends_as_if_never_interrupted(after: int, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "state.safetensors"
    whole = small_boosted().fit(*GIVEN_TREES)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        small_boosted(checkpoint=file, on_epoch=stop_after(after)).fit(*GIVEN_TREES)
    resumed = small_boosted(checkpoint=file, resume=True).fit(*GIVEN_TREES)
    assert resumed.ranker_.content == whole.ranker_.content  # type: ignore[attr-defined]
    assert outcome(resumed) == outcome(whole)
    assert resumed.status_ == "completed"
    again = small_boosted(checkpoint=file, resume=True).fit(*GIVEN_TREES)  # nothing is left to do
    assert again.ranker_.content == whole.ranker_.content  # type: ignore[attr-defined]


def test_a_process_that_is_killed_loses_less_than_ten_rounds(tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"

    def killed(epoch: cr.models.Epoch) -> None:
        if epoch.number == 11:
            raise RuntimeError("as if killed")

    with pytest.raises(RuntimeError):
        small_boosted(checkpoint=file, on_epoch=killed).fit(*GIVEN_TREES)
    assert len(content_of(file)["history"]) == 10
    resumed = small_boosted(checkpoint=file, resume=True).fit(*GIVEN_TREES)
    assert outcome(resumed) == outcome(small_boosted().fit(*GIVEN_TREES))


def test_more_rounds_and_other_patience_carry_on(tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    small_boosted(rounds=5, checkpoint=file).fit(*GIVEN_TREES)
    longer = small_boosted(rounds=12, checkpoint=file, resume=True).fit(*GIVEN_TREES)
    whole = small_boosted(rounds=12).fit(*GIVEN_TREES)
    assert longer.ranker_.content == whole.ranker_.content  # type: ignore[attr-defined]
    shorter = small_boosted(rounds=4, checkpoint=file, resume=True).fit(*GIVEN_TREES)
    assert outcome(shorter) == outcome(whole)[:4]
    assert len(content_of(file)["history"]) == 12  # what is there stays


@pytest.mark.parametrize("change", [{"leaves": 5}, {"selection_weight": 0.1}])
def test_a_checkpoint_of_another_boosting_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    small_boosted(rounds=2, checkpoint=file).fit(*GIVEN_TREES)
    with pytest.raises(UsageError, match="state"):
        small_boosted(checkpoint=file, resume=True, **change).fit(*GIVEN_TREES)


def test_a_checkpoint_of_other_clicks_or_features_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    small_boosted(rounds=2, checkpoint=file).fit(*GIVEN_TREES)
    data = GIVEN_TREES.data
    moved = cr.RankingDataset.from_arrays(data.features + 1, data.row_queries)
    cells = {name: getattr(GIVEN_TREES.clicks, name) for name in ("row", "position", "impressions", "clicks")}
    for given in (scene(1, queries=80), (moved, cr.ClickTable.from_arrays(moved, **cells), GIVEN_TREES.propensities)):
        with pytest.raises(UsageError, match="state"):
            small_boosted(checkpoint=file, resume=True).fit(*given)


def content_of(file: Path) -> dict[str, Any]:
    """What a checkpoint says: digest, history and trees."""
    with safe_open(str(file), framework="np") as opened:
        return {**json.loads(opened.metadata()["about"]), "trees": opened.get_tensor("trees").tobytes().decode()}


def test_trees_that_are_no_trees_are_refused(tmp_path: Path) -> None:
    """Whoever means it can make the digest fit; XGBoost reads nothing unchecked all the same."""
    file = tmp_path / "state.safetensors"
    small_boosted(rounds=2, checkpoint=file).fit(*GIVEN_TREES)
    with safe_open(str(file), framework="np") as opened:
        metadata = opened.metadata()
    trees = json.loads(content_of(file)["trees"])
    trees["learner"]["gradient_booster"]["model"]["trees"][0]["left_children"][0] = 99
    arrays = {"trees": np.frombuffer(json.dumps(trees).encode(), dtype=np.uint8)}
    save_file(arrays, file, metadata={**metadata, "digest": checkpoint._digest(metadata["about"], arrays)})
    with pytest.raises(DataError, match="tree 1: node 0 cannot have the child 99"):
        small_boosted(checkpoint=file, resume=True).fit(*GIVEN_TREES)
