"""Rows of a linear fit on a GPU: copied and scaled once, and folded over there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from cldrank._typing import IntArray
from cldrank.models.linear.rows import Array, LocalRows, Rows, View
from cldrank.models.targets import Observations
from cldrank.rankers.devices import device_of

Value = TypeVar("Value")

_BLOCK_VALUES = 1 << 25  # few large blocks


class DeviceRows(Rows):
    """Rows on a device, and with them what was observed."""

    def __init__(
        self,
        features: Any,
        observed: Observations,
        view: View,
        *,
        rows: IntArray,
        device: str,
        block_rows: int | None = None,
    ) -> None:
        device_of(device)
        self.view, self.observed, self._device = view, observed, device
        local = LocalRows(
            features, observed, view, rows=rows, block_rows=block_rows or max(1, _BLOCK_VALUES // view.width)
        )
        self.n_rows = local.n_rows
        self._parts = [(self._array(part), self._moved(own)) for part, own in map(local.block, local.spans)]

    def fold(self, function: Callable[[Array, Any], Value], join: Callable[[Value, Value], Value]) -> Value:
        """Block after block: the device itself works in parallel."""
        return reduce(join, (function(*part) for part in self._parts))

    def _array(self, values: Any) -> Any:
        import torch

        return torch.from_numpy(np.array(values)).to(self._device)

    def _moved(self, own: Observations) -> Observations:
        names = ("absent", "shown", "offsets", "target", "weight")
        moved = replace(own, **{name: self._array(getattr(own, name)) for name in names})
        vars(moved)["owner"] = self._array(own.owner)
        return moved
