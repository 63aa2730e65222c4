import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.torch
import torch
from small_networks import GIVEN, SMALL, scores, small_pair, stop_after

from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankError, ConvergenceWarning, FormatError, UsageError
from cldrank.methods import CLD, IPS, CLDPair
from cldrank.models import MLP, Epoch, Run
from cldrank.models.network import loop
from cldrank.rankers import load_ranker

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


def test_an_error_of_the_listener_is_the_user_s() -> None:
    def broken(epoch: Epoch) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        small_pair(on_epoch=broken).fit(*GIVEN)


# -- checkpoints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        lambda run: CLDPair(model=SMALL, run=run),
        lambda run: IPS(model=MLP(hidden=(8, 4), dropout=0.0, epochs=4, batch_queries=16), run=run),
        lambda run: CLD(model=SMALL, run=run),
    ],
    ids=["CLDPair", "IPS", "CLD"],
)
def test_a_training_resumed_ends_as_if_never_interrupted(kind: Any, resident: bool, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "state.safetensors"
    whole = kind(Run()).fit(*GIVEN)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        kind(Run(checkpoint=file, on_epoch=stop_after(2))).fit(*GIVEN)
    resumed = kind(Run(checkpoint=file, resume=True, resident=resident)).fit(*GIVEN)
    np.testing.assert_array_equal(scores(resumed), scores(whole))
    outcome = [(epoch.number, epoch.loss, epoch.validation, epoch.best) for epoch in whole.history_]
    assert [(epoch.number, epoch.loss, epoch.validation, epoch.best) for epoch in resumed.history_] == outcome
    assert resumed.status_ == "completed"
    again = kind(Run(checkpoint=file, resume=True)).fit(*GIVEN)  # nothing is left to do
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


def test_a_checkpoint_is_data_and_no_code(tmp_path: Path) -> None:
    import safetensors

    file = tmp_path / "state.safetensors"
    small_pair(checkpoint=file).fit(*GIVEN)
    content = file.read_bytes()
    with safetensors.safe_open(str(file), framework="np") as opened:
        assert opened.metadata()["format"] == "cldrank-checkpoint-4"
        assert {name.partition(".")[0] for name in opened.keys()} == {"now", "best", "peak", "optimiser"}  # noqa: SIM118
    assert int.from_bytes(content[:8], "little") < len(content)  # a header of JSON, then numbers
    assert content[8:9] == b"{"
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"l2": 0.5},
        {"learning_rate": 0.5},
        {"selection_weight": 0.5},
        {"scaling": "minmax"},
        {"epochs": 9},
        {"batch_queries": 5},
        {"clip_norm": None},
        {"validation": 0.3},
        {"hidden": (9,)},
        {"dropout": 0.5},
        {"activation": "relu"},
    ],
    ids=str,
)
def test_a_checkpoint_of_other_parameters_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    with pytest.raises(UsageError, match="state belongs to a training with other parameters, features or clicks; "):
        small_pair(**{"epochs": 1, "checkpoint": file, "resume": True} | changes).fit(*GIVEN)


@pytest.mark.parametrize("resident", [True, False])
def test_a_checkpoint_of_other_data_is_refused(resident: bool, tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    features = GIVEN.data.features.copy()
    features[:, 1] *= 1 + np.arange(len(features)) % 2
    changed = RankingDataset.from_arrays(features, GIVEN.data.row_queries)
    table = GIVEN.clicks
    fewer = type(table)(table.candidates, table.row, table.position, table.impressions + 1, table.clicks)
    for given in (GIVEN._replace(data=changed), GIVEN._replace(clicks=fewer)):
        with pytest.raises(UsageError, match="other parameters, features or clicks"):
            small_pair(epochs=1, checkpoint=file, resume=True, resident=resident).fit(*given)


def test_listeners_may_change_when_a_training_is_resumed(tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(checkpoint=file).fit(*GIVEN)
    told: list[Epoch] = []
    small_pair(checkpoint=file, resume=True, on_epoch=told.append).fit(*GIVEN)
    assert told == []


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[-9] ^= 1
    with pytest.raises(UsageError, match="nothing: there is no checkpoint to resume from"):
        small_pair(epochs=1, checkpoint=tmp_path / "nothing", resume=True).fit(*GIVEN)
    for damaged in (whole[:-8], whole[:30], b"", b"\x80\x04\x95 pickled", bytes(flipped)):
        file.write_bytes(damaged)
        with pytest.raises(FormatError, match="state: (not a checkpoint|this checkpoint is damaged)"):
            small_pair(epochs=1, checkpoint=file, resume=True).fit(*GIVEN)
    import safetensors.numpy

    for metadata in (None, {"format": "cldrank-checkpoint-4"}, {"format": "cldrank-checkpoint-1", "about": "{"}):
        file.write_bytes(safetensors.numpy.save({"a": np.zeros(1)}, metadata=metadata))
        with pytest.raises(FormatError, match="state: this "):
            small_pair(epochs=1, checkpoint=file, resume=True).fit(*GIVEN)
    (tmp_path / "folder").mkdir()
    for resume in (True, False):  # before the first epoch
        with pytest.raises(CldrankError, match="folder is a folder; name a file to write"):
            small_pair(epochs=1, checkpoint=tmp_path / "folder", resume=resume).fit(*GIVEN)


def test_any_change_of_a_checkpoint_is_found(tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    tensors = safetensors.torch.load_file(file)
    with safetensors.safe_open(str(file), framework="pt") as opened:
        metadata = opened.metadata()
    first = min(tensors)
    changed = [
        ({name: tensor for name, tensor in tensors.items() if name != first}, metadata),
        ({**tensors, first: tensors[first].to(torch.float16)}, metadata),
        (tensors, {**metadata, "about": metadata["about"].replace('"number": 1', '"number": 2')}),
        (tensors, {**metadata, "about": "[" * 100_000}),
        (tensors, {"format": metadata["format"]}),
    ]
    for arrays, about in changed:
        safetensors.torch.save_file(arrays, file, metadata=about)
        with pytest.raises(FormatError, match="state: this checkpoint is damaged"):
            small_pair(epochs=1, checkpoint=file, resume=True).fit(*GIVEN)


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "state"
    small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    before, whole = resource.getrlimit(resource.RLIMIT_FSIZE), file.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, before[1]))
    try:
        with pytest.raises(CldrankError, match="state cannot be written: File too large"):
            small_pair(epochs=1, checkpoint=file).fit(*GIVEN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_learning_rate_of_numpy_can_be_written_down(tmp_path: Path) -> None:
    small_pair(epochs=1, learning_rate=np.float32(0.002), checkpoint=tmp_path / "state").fit(*GIVEN)
    assert (tmp_path / "state").exists()


def test_resuming_needs_to_know_from_what() -> None:
    with pytest.raises(UsageError, match="`resume` needs .* `checkpoint`"):
        Run(resume=True)


def test_a_checkpoint_replaces_nothing_but_a_checkpoint(tmp_path: Path) -> None:
    data = tmp_path / "train.parquet"
    data.write_bytes(b"PAR1, and much else that took long to collect")
    with pytest.raises(
        UsageError, match="train.parquet is not a checkpoint, and would be written over; name another file"
    ):
        small_pair(epochs=1, checkpoint=data).fit(*GIVEN)
    assert data.read_bytes() == b"PAR1, and much else that took long to collect"
    file = tmp_path / "state.safetensors"
    for _ in range(2):
        small_pair(epochs=1, checkpoint=file).fit(*GIVEN)


# -- in a process of its own ---------------------------------------------------------------------------------------

SCRIPT = """
    import os, signal, sys, time
    sys.path.insert(0, {estimators!r})
    from scenes import scene
    from cldrank.methods import CLDPair
    from cldrank.models import MLP, Run

    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, whoever started this process

    def train(epochs, file, listen):
        network = MLP(hidden=(8,), dropout=0.25, epochs=epochs, batch_queries=16)
        return CLDPair(model=network, run=Run(checkpoint=file, on_epoch=listen)).fit(*scene(0, queries=60))

    def slowly(epoch):
        print(epoch.number, flush=True)
        time.sleep(0.05)

    model = train(100_000, "interrupted", slowly)
    model.ranker_.save("ranker")
    print(model.status_, model.best_epoch_, flush=True)

    def killing(epoch):
        print(epoch.number, flush=True)
        if epoch.number == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    train(4, "killed", killing)
"""


class Ended(NamedTuple):
    """A process that was interrupted in its first training, and killed in its second."""

    folder: Path
    code: int
    output: list[str]
    errors: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder, estimators = tmp_path_factory.mktemp("process"), Path(__file__).parents[1] / "methods"
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT).format(estimators=str(estimators))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    ) as process:
        try:
            assert process.stdout is not None
            first = [process.stdout.readline() for _ in range(3)]
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    return Ended(folder, process.returncode, "".join([*first, output]).splitlines(), errors)


def test_a_process_that_is_interrupted_saves_its_best_ranker(ended: Ended) -> None:
    assert ended.output[:3] == ["1", "2", "3"]
    status, best = next(line for line in ended.output if " " in line).split()
    assert status == "interrupted"
    assert f"the ranker is that of epoch {best}" in ended.errors
    assert np.isfinite(load_ranker(ended.folder / "ranker").predict(GIVEN.data)).all()


def test_a_process_that_is_killed_can_be_resumed(ended: Ended) -> None:
    assert ended.code == -signal.SIGKILL
    assert ended.output[-3].startswith("interrupted ")
    assert ended.output[-2:] == ["1", "2"]
    assert sorted(path.name for path in ended.folder.iterdir()) == ["interrupted", "killed", "ranker"]
    resumed = small_pair(checkpoint=ended.folder / "killed", resume=True).fit(*GIVEN)
    assert resumed.n_iter_ == 4
    np.testing.assert_array_equal(scores(resumed), scores(small_pair().fit(*GIVEN)))
