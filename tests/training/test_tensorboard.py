from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from small_networks import GIVEN, small_pair

from cldrank.errors import MissingDependencyError


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
