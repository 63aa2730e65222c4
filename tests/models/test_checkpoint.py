from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import GIVEN, SMALL, scores, small_pair, stop_after

from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, ConvergenceWarning, FormatError, UsageError
from cldrank.methods import CLD, IPS, CLDPair
from cldrank.models import Epoch, Run
from cldrank.models.network import loop

# -- Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_with_the_best_ranker_so_far() -> None:
    told: list[Epoch] = []

    def listen(epoch: Epoch) -> None:
        told.append(epoch)
        stop_after(2)(epoch)

    stopped = small_pair(on_epoch=listen)
    with pytest.warns(ConvergenceWarning, match="CLD-pair was interrupted after 2 epochs; the ranker is that of epoch"):
        stopped.fit(*GIVEN)
    assert stopped.status_ == "interrupted"
    assert stopped.history_ == tuple(told)
    assert stopped.n_iter_ == 2
    assert np.isfinite(scores(stopped)).all()


def test_ctrl_c_before_the_first_epoch_is_over_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.Trainer, "_step", interrupted)
    fresh = small_pair()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(*GIVEN)
    assert not hasattr(fresh, "ranker_")


# -- checkpoints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "resident"), [(CLDPair, True), (IPS, False), (CLD, True)])
def test_a_training_resumed_ends_as_if_never_interrupted(kind: Any, resident: bool, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "state.safetensors"
    whole = kind(model=SMALL).fit(*GIVEN)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        kind(model=SMALL, run=Run(checkpoint=file, on_epoch=stop_after(2))).fit(*GIVEN)
    resumed = kind(model=SMALL, run=Run(checkpoint=file, resume=True, resident=resident)).fit(*GIVEN)
    np.testing.assert_array_equal(scores(resumed), scores(whole))
    outcome = [(epoch.number, epoch.loss, epoch.validation, epoch.best) for epoch in whole.history_]
    assert [(epoch.number, epoch.loss, epoch.validation, epoch.best) for epoch in resumed.history_] == outcome
    assert resumed.status_ == "completed"
    again = kind(model=SMALL, run=Run(checkpoint=file, resume=True)).fit(*GIVEN)  # nothing is left to do
    np.testing.assert_array_equal(scores(again), scores(whole))


def test_epochs_after_a_break_are_held_against_the_best_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worse by 0.05 on every list: worse for sure, but only for who knows how the best epoch did on each list."""
    agreed = iter([[1.0, 0.9, 1.0, 0.9, 1.0], [0.95, 0.85, 0.95, 0.85, 0.95]])

    def agreement(run: loop.Trainer) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(next(agreed), dtype=torch.float64), torch.ones(run.n_held, dtype=torch.float64)

    monkeypatch.setattr(loop.Trainer, "_agreement", agreement)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        small_pair(epochs=2, checkpoint=tmp_path / "state", on_epoch=stop_after(1)).fit(*GIVEN)
    resumed = small_pair(epochs=2, checkpoint=tmp_path / "state", resume=True).fit(*GIVEN)
    assert [epoch.best for epoch in resumed.history_] == [True, False]
    assert resumed.best_epoch_ == 1


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"selection_weight": 0.5}, {"scaling": "minmax"}, {"epochs": 9}, {"hidden": (9,)}], ids=str
)
def test_a_checkpoint_of_other_parameters_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    with pytest.raises(UsageError, match="state"):
        small_pair(**{"epochs": 1, "checkpoint": file, "resume": True} | changes).fit(*GIVEN)


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    features = GIVEN.data.features.copy()
    features[:, 1] *= 1 + np.arange(len(features)) % 2
    changed = RankingDataset.from_arrays(features, GIVEN.data.row_queries)
    table = GIVEN.clicks
    fewer = type(table)(table.candidates, table.row, table.position, table.impressions + 1, table.clicks)
    for given in (GIVEN._replace(data=changed), GIVEN._replace(clicks=fewer)):
        with pytest.raises(UsageError, match="state"):
            small_pair(epochs=1, checkpoint=file, resume=True).fit(*given)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[-9] ^= 1
    with pytest.raises(UsageError, match="nothing: "):
        small_pair(epochs=1, checkpoint=tmp_path / "nothing", resume=True).fit(*GIVEN)
    for damaged in (whole[:-8], whole[:30], b"", b"\x80\x04\x95 pickled", bytes(flipped)):
        file.write_bytes(damaged)
        with pytest.raises(FormatError, match="state: "):
            small_pair(epochs=1, checkpoint=file, resume=True).fit(*GIVEN)
    import safetensors.numpy

    for metadata in (None, {"format": "cldrank-checkpoint-4"}, {"format": "cldrank-checkpoint-1", "about": "{"}):
        file.write_bytes(safetensors.numpy.save({"a": np.zeros(1)}, metadata=metadata))
        with pytest.raises(FormatError, match="state: "):
            small_pair(epochs=1, checkpoint=file, resume=True).fit(*GIVEN)
    (tmp_path / "folder").mkdir()
    for resume in (True, False):  # before the first epoch
        with pytest.raises(CldrankError, match="folder is a folder"):
            small_pair(epochs=1, checkpoint=tmp_path / "folder", resume=resume).fit(*GIVEN)


def test_a_checkpoint_replaces_nothing_but_a_checkpoint(tmp_path: Path) -> None:
    data = tmp_path / "train.parquet"
    data.write_bytes(b"PAR1, and much else that took long to collect")
    with pytest.raises(UsageError, match="train.parquet"):
        small_pair(epochs=1, checkpoint=data).fit(*GIVEN)
    assert data.read_bytes() == b"PAR1, and much else that took long to collect"
    file = tmp_path / "state.safetensors"
    for _ in range(2):
        small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
