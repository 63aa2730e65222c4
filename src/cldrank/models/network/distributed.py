"""Training by several processes, one per GPU or machine: each takes a share of every batch, gradients are added up."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class World:
    """The processes that train together, and which of them this is.

    >>> World().share(torch.arange(3))
    tensor([0, 1, 2])
    >>> World(rank=1, size=2).share(torch.arange(3))
    tensor([1])
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def find(cls, device: torch.device) -> World:
        """The world that `torchrun` set up, or this process alone."""
        from torch import distributed

        if not distributed.is_available() or int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls()
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.rank == 0

    def share(self, chosen: Tensor) -> Tensor:
        """The share of a batch that is this process's."""
        return chosen if self.size == 1 else chosen[self.rank :: self.size]

    def sum_up(self, values: Tensor) -> None:
        """Put the sum over all processes in the place of some numbers."""
        if self.size > 1:
            from torch import distributed

            distributed.all_reduce(values)

    def total(self, value: Tensor) -> float:
        """The sum of a number over all processes."""
        whole = value.clone()
        self.sum_up(whole)
        return float(whole)


def local_device(name: str | None) -> str | None:
    """The device that this process is to use: its own GPU, where `torchrun` started one process for each.

    >>> local_device("cpu")
    'cpu'
    """
    if name == "cuda" and "LOCAL_RANK" in os.environ:
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return name


def is_leader() -> bool:
    """Whether this process is the only one or the first of those that `torchrun` started."""
    return int(os.environ.get("RANK", "0")) == 0
