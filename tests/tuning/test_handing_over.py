from __future__ import annotations

from pathlib import Path

import numpy as np
from scenes import scene

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
    handing_over.write((given, on_disk, rest), tmp_path)
    again, numbers, others = handing_over.read(tmp_path)
    np.testing.assert_array_equal(numbers, on_disk)
    for array in (numbers, again.data.features, again.clicks.row):
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.ctypes.data % 64 == 0
    assert (tmp_path / "thing").stat().st_size < on_disk.nbytes
    assert others["words"].tolist() == ["a", None]
    assert len(others["none"]) == 0
    np.testing.assert_array_equal(others["by column"], np.eye(3))
    np.testing.assert_array_equal(IPS().fit(*again).predict(again.data), IPS().fit(*given).predict(given.data))


def test_without_arrays(tmp_path: Path) -> None:
    handing_over.write({"l2": 0.1}, tmp_path)
    assert handing_over.read(tmp_path) == {"l2": 0.1}
