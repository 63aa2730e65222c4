from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scenes import scene

from cldrank.errors import CldrankError
from cldrank.estimators import IPS
from cldrank.tuning import handing_over


def test_arrays_come_back_equal_and_mapped(tmp_path: Path) -> None:
    given = scene(0)
    on_disk = np.memmap(tmp_path / "numbers", dtype=np.float32, mode="w+", shape=(1000, 7))
    on_disk[:] = np.arange(7000).reshape(1000, 7)
    rest = {
        "words": np.array(["a", None], dtype=object),
        "none": np.zeros(0),
        "by column": np.asfortranarray(np.eye(3)),
    }
    handed = handing_over.hand_over((given, on_disk, rest), tmp_path)
    again, numbers, others = pickle.loads(pickle.dumps(handed)).take()  # noqa: S301  as another process gets it
    np.testing.assert_array_equal(numbers, on_disk)
    for array in (numbers, again.data.features, again.clicks.row):
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.ctypes.data % 64 == 0
    assert len(handed.thing) < on_disk.nbytes
    assert {path.name for path in tmp_path.iterdir()} == {"arrays", "numbers"}  # nothing that could run as code
    assert others["words"].tolist() == ["a", None]
    assert len(others["none"]) == 0
    np.testing.assert_array_equal(others["by column"], np.eye(3))
    np.testing.assert_array_equal(IPS().fit(*again).predict(again.data), IPS().fit(*given).predict(given.data))


def test_without_arrays(tmp_path: Path) -> None:
    assert handing_over.hand_over({"l2": 0.1}, tmp_path).take() == {"l2": 0.1}


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "arrays").symlink_to("/dev/full")
    with pytest.raises(CldrankError, match=r"arrays cannot be written: No space left on device.*one job"):
        handing_over.hand_over(np.zeros(100_000), tmp_path)
