import resource
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from small_networks import GIVEN, scores, small_pair

from cldrank.errors import CldrankError, CldrankWarning, MissingDependencyError
from cldrank.models import Epoch


def test_curves_are_written_for_tensorboard(tmp_path: Path) -> None:
    if find_spec("tensorboard") is None:
        with pytest.raises(MissingDependencyError, match=r"pip install 'cldrank\[tensorboard\]'"):
            small_pair(tensorboard=tmp_path / "curves").fit(*GIVEN)
        pytest.skip("tensorboard is not installed")
    small_pair(tensorboard=tmp_path / "curves", epochs=2).fit(*GIVEN)
    events = import_module("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(tmp_path / "curves"))
    found.Reload()
    assert set(found.Tags()["scalars"]) == {"loss", "learning rate", "held-out concordance"}
    assert [event.step for event in found.Scalars("loss")] == [1, 2]


def test_a_full_disk_ends_the_curves_and_not_the_training(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    expected = small_pair(epochs=3).fit(*GIVEN)

    def fill(epoch: Epoch) -> None:
        if epoch.number == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.warns(CldrankWarning, match=r"events.*cannot be written: File too large.*before epoch 2"):
            found = small_pair(epochs=3, tensorboard=tmp_path / "curves", on_epoch=fill).fit(*GIVEN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found.status_ == "completed"
    np.testing.assert_array_equal(scores(found), scores(expected))


def test_a_folder_that_cannot_be_written_is_told_before_the_training(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CldrankError, match="file is a file; name a folder to write"):
        small_pair(tensorboard=tmp_path / "file").fit(*GIVEN)
