"""Rows of a linear fit on a GPU: copied once, scaled there, and folded over there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.feature_blocks import uploaded
from cldrank.models.linear.row_blocks import Array, Rows, View
from cldrank.models.targets import Observations
from cldrank.rankers.devices import device_of
from cldrank.scaling import ScalingRule

Value = TypeVar("Value")

_BLOCK_VALUES = 1 << 27  # 1 GiB of float64: few large blocks, since each step of a pass costs a launch
_COPIES = 8  # of the features in float32: the table in float64, and what a pass makes of a block


class DeviceRows(Rows):
    """Rows on a device, and with them what was observed."""

    def __init__(
        self,
        features: Any,
        observed: Observations,
        scaling: str | ScalingRule | None,
        *,
        rows: IntArray,
        device: str,
        block_rows: int | None = None,
    ) -> None:
        device_of(device)
        self.observed, self.n_rows, self._device = observed, len(rows), device
        _check_room(features.shape, device)
        raw = uploaded(features, device)
        self.view = View(scalings.fit(scaling, raw))
        table = self._table(raw, rows)
        size = block_rows or max(1, _BLOCK_VALUES // self.view.width)
        spans = [(start, min(start + size, self.n_rows)) for start in range(0, self.n_rows, size)]
        self._parts = [(table[start:stop], self._moved(observed.part(start, stop))) for start, stop in spans]

    def solving(self) -> AbstractContextManager[Any]:
        """Keep BLAS to a single thread, as it only gets the small matrices of the solver."""
        from threadpoolctl import threadpool_limits

        limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
        return limits

    def fold(self, function: Callable[[Array, Any], Value], join: Callable[[Value, Value], Value]) -> Value:
        """Block after block: the device itself works in parallel."""
        return reduce(join, (function(*part) for part in self._parts))

    def _table(self, raw: Any, rows: IntArray) -> Any:
        """The scaled rows that take part, and ones."""
        import torch

        scaled = self.view.scaling.transform(raw, out=None if raw.device.type == "cpu" else raw)
        if len(rows) < len(scaled):
            scaled = scaled[self._array(rows)]
        table = torch.ones((len(scaled), scaled.shape[1] + 1), dtype=torch.float64, device=scaled.device)
        table[:, :-1] = scaled
        return table

    def _array(self, values: Any) -> Any:
        import torch

        return torch.from_numpy(np.array(values)).to(self._device)

    def _moved(self, own: Observations) -> Observations:
        names = ("absent", "shown", "offsets", "target", "weight")
        moved = replace(own, **{name: self._array(getattr(own, name)) for name in names})
        vars(moved)["owner"] = self._array(own.owner)
        return moved


def _check_room(shape: tuple[int, int], device: str) -> None:
    """Refuse features that the device cannot hold."""
    import torch

    if torch.device(device).type != "cuda":
        return
    free, _ = torch.cuda.mem_get_info(device)
    needed = _COPIES * 4 * shape[0] * shape[1]
    if needed > free:
        raise DataError(
            f"a fit of {shape[0]:,} rows × {shape[1]:,} features needs about {needed / 2**30:.1f} GiB on {device}, "
            f"which has {free / 2**30:.1f} GiB left; leave `device` out to fit on the CPU, block by block."
        )
