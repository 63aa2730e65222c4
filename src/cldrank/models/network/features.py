"""The scaled features that steps read: held on the device where they fit, else gathered ahead of use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.feature_blocks import uploaded
from cldrank.host import spare_memory
from cldrank.scaling import Scaling
from cldrank.workers import ahead

if TYPE_CHECKING:
    import torch

_AHEAD = 3  # batches that are gathered while the device works on earlier ones
_BLOCK_BYTES = 4 << 20  # of rows that are scaled at a time


def raw_on_device(features: NDArray[np.float32], device: torch.device, resident: bool | None) -> torch.Tensor | None:
    """The features on a GPU, to be scaled there, where it has the room; None where the CPU is to scale them."""
    roomy = resident is not False and features.nbytes <= _spare_memory(device)
    return uploaded(features, device) if device.type != "cpu" and roomy else None


class FeatureTable:
    """Some rows of a feature matrix, scaled. `resident` is the tensor that holds them all, if they are held.

    Features that are a tensor are on the device already, and are written over.
    """

    resident: torch.Tensor | None

    def __init__(
        self,
        features: NDArray[np.float32] | torch.Tensor,
        scaling: Scaling,
        rows: IntArray,
        device: torch.device | str,
        resident: bool | None = None,
    ) -> None:
        import torch

        self._scaling, self._rows = scaling, rows
        self.device, self.width = torch.device(device), features.shape[1]
        if isinstance(features, torch.Tensor):
            scaled = scaling.transform(features, out=features)
            whole = len(rows) == len(scaled)
            self.resident = scaled if whole else scaled[torch.from_numpy(rows).to(self.device)]
            return
        self._features = features
        fits = len(rows) * self.width * 4 <= _spare_memory(self.device)
        self.resident = self._held() if (fits if resident is None else resident) else None

    def __len__(self) -> int:
        return len(self._rows)

    def gather(self, places: NDArray[np.int64]) -> torch.Tensor:
        """The rows at some places of the table, on the device."""
        import torch

        if self.resident is not None:
            return self.resident[torch.from_numpy(places).to(self.device)]
        rows, inverse = np.unique(self._rows[places], return_inverse=True)  # a file is read in its order, each row once
        scaled = torch.from_numpy(np.ascontiguousarray(self._scaling.transform(self._features[rows])[inverse]))
        if self.device.type == "cuda":
            return scaled.pin_memory().to(self.device, non_blocking=True)
        return scaled

    def stream(self, batches: Iterable[NDArray[np.int64]]) -> Iterator[torch.Tensor]:
        """The rows of each batch in turn, gathered a few batches ahead."""
        return ahead(self.gather, batches, threads=1, most=_AHEAD)

    def _held(self) -> torch.Tensor:
        import torch

        table = torch.empty((len(self._rows), self.width), dtype=torch.float32, device=self.device)
        step = max(1, _BLOCK_BYTES // (4 * self.width))
        for start in range(0, len(self._rows), step):
            rows = self._rows[start : start + step]
            span = rows[-1] - rows[0] == len(rows) - 1
            part = self._features[rows[0] : rows[-1] + 1] if span else self._features[rows]
            table[start : start + step] = torch.from_numpy(self._scaling.transform(part))
        return table


def _spare_memory(device: torch.device) -> int:
    """The bytes that features may take on a device."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0]) // 2 if device.type == "cuda" else spare_memory()
