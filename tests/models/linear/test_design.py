"""Designs: blocks of scaled features."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import scene

from cldrank import scaling
from cldrank.errors import UsageError
from cldrank.models.linear import row_blocks as rows_module
from cldrank.models.linear.design import Design
from cldrank.models.linear.device_rows import DeviceRows
from cldrank.models.linear.row_blocks import LocalRows, View, in_order
from cldrank.models.targets import Targets


def nothing(rows: int) -> Any:
    """Rows of which nothing is known."""
    zeros = np.zeros(rows)
    return Targets(np.arange(rows), zeros, zeros, np.zeros(rows, dtype=np.int64))


METHODS = ["standard", "minmax", "log", None]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kept", [0, 1 << 30])
def test_a_design_gives_all_rows_whether_kept_or_made_anew(
    method: Any, kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "_KEPT_BYTES", kept)
    data = scene().data
    np.save(tmp_path / "features.npy", data.features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    rows = np.r_[3:40, 50, 60:90]
    scaled = scaling.fit(method, data.features)
    design = Design(LocalRows(mapped, nothing(len(rows)), View(scaled), rows=rows, block_rows=7))
    wide = design.fold(lambda block: block.wide, lambda upper, lower: np.vstack([upper, lower]))
    expected = scaled.transform(data.features)[rows].astype(np.float64)
    np.testing.assert_allclose(wide[:, :-1], (expected - design.center[:-1]) * design.factor[:-1], rtol=1e-12)
    np.testing.assert_array_equal(wide[:, -1], 1)


def test_work_in_threads_comes_back_in_order_and_errors_come_through() -> None:
    assert list(in_order(lambda number: number * 2, range(100))) == list(range(0, 200, 2))
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda number: 1 // number, [1, 1, 0, 1]))


def test_devices_that_cannot_be_are_refused() -> None:
    data = scene().data
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match="`device='nowhere'` cannot be used here"):
        DeviceRows(data.features, nothing(data.n_rows), None, rows=np.arange(data.n_rows), device="nowhere")
