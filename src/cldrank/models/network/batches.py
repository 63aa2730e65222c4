"""Batches: the lists of a step, and those of the unshown that each list drew in this epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cldrank.models.network.lists import ListTable


@dataclass(frozen=True, eq=False)
class ListBatch:
    """B lists of S candidates with a target, and U that were not shown.

    rows              (B, S + U) places in the feature table
    target, weight    (B, S)
    drawn             (B, U) 1 where a candidate was drawn, 0 for padding
    unshown           (B,) how many candidates were not shown in all
    pages             (B,) how often the query was displayed
    """

    rows: Tensor
    target: Tensor
    weight: Tensor
    drawn: Tensor
    unshown: Tensor
    pages: Tensor


class BatchSource:
    """Lists of like size on the device; `draw` chooses anew which of the unshown stand beside them.

    >>> rows = np.arange(5)
    >>> from cldrank.models.network.lists import Lists
    >>> some = Lists(np.array([0, 2]), rows[:2], rows[:2], rows[:2], np.array([0, 3]), rows[2:], np.ones(1))
    >>> group = BatchSource(some.pack(1.0)[0], rows[2:], torch.device("cpu"))
    >>> group.draw(torch.Generator().manual_seed(0))
    >>> group.batch(torch.tensor([0])).rows
    tensor([[0, 1, 2]])
    """

    def __init__(self, packed: ListTable, unshown_rows: NDArray[np.int64], device: torch.device) -> None:
        def tensor(values: NDArray[Any], kind: torch.dtype) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device, kind)

        count, draws = len(packed.lists), packed.draws
        self._target = tensor(packed.target, torch.float32)
        self._weight = tensor(packed.weight, torch.float32)
        self._pages = tensor(packed.pages, torch.float32)
        self._start = tensor(packed.unshown_start, torch.int64)
        self._count = tensor(packed.unshown_count, torch.int64)
        self._unshown_rows = tensor(unshown_rows, torch.int64)
        taken = self._count.clamp(max=draws)[:, None]
        edges = torch.arange(draws + 1, device=device) * self._count[:, None] // taken.clamp(min=1)
        self._parts, self._sizes = edges[:, :-1], edges.diff(dim=1)
        self._drawn = (torch.arange(draws, device=device) < taken).float()
        extra = torch.zeros((count, draws), dtype=torch.int64, device=device)
        self._rows = torch.cat([tensor(packed.rows, torch.int64), extra], dim=1)
        self.width, self.draws, self.device = packed.rows.shape[1], draws, device

    def __len__(self) -> int:
        return len(self._rows)

    def draw(self, random: torch.Generator) -> None:
        """Draw unshown candidates for each list: one from each of so many parts of them, turned by a random angle.

        So none comes up twice, and all come up alike, though parts may differ by one in size.
        """
        if not self.draws:
            return
        uniform = torch.rand((len(self), self.draws + 1), generator=random, device=self._rows.device)
        count = self._count[:, None]
        place = self._parts + (uniform[:, 1:] * self._sizes).long() + (uniform[:, :1] * count).long()
        place = place % count.clamp(min=1) + self._start[:, None]
        place = place.clamp(max=len(self._unshown_rows) - 1)  # of a list with nothing unshown, at the very end
        self._rows[:, self.width :] = self._unshown_rows[place]

    def batch(self, chosen: Tensor) -> ListBatch:
        """Some of the lists."""
        return ListBatch(
            self._rows[chosen],
            self._target[chosen],
            self._weight[chosen],
            self._drawn[chosen],
            self._count[chosen],
            self._pages[chosen],
        )
