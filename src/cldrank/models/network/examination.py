"""Tasks with a propensity for each position: a network of relevance, and beside it which positions are examined."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cldrank.models.network.lists import ListBatch
from cldrank.models.network.tasks import TrainingTask

_SPEED = 10.0  # how much farther a step moves log ρ than other parameters: all steps agree on these few numbers
_LARGEST = 20.0  # an inverse weight above it is noise


class Examination(nn.Module):
    """One number per position, looked up by the entry of a list.

    >>> Examination(np.array([1, 0]), 2)(torch.tensor([[0, 1]]))
    tensor([[0., 0.]], grad_fn=<IndexBackward0>)
    """

    place: Tensor

    def __init__(self, place: NDArray[np.int64], size: int) -> None:
        super().__init__()
        self.curve = nn.Parameter(torch.zeros(size))
        self.register_buffer("place", torch.from_numpy(np.ascontiguousarray(place)), persistent=False)

    @property
    def logs(self) -> Tensor:
        """(positions,) log ρ, up to what is added to all."""
        return _SPEED * self.curve

    def forward(self, entries: Tensor) -> Tensor:
        """The log ρ of the positions of some entries."""
        return self.logs[self.place[entries]]


class _Examined(TrainingTask):
    """Entries of a list are cells, each with its own row of the table: target c/n, weight n."""

    pairwise = False

    def __init__(self, relevance: nn.Module, place: NDArray[np.int64], size: int) -> None:
        level = nn.ParameterList([torch.zeros(1)])
        self.networks = nn.ModuleDict({"relevance": relevance, "examination": Examination(place, size), "level": level})

    def sizes(self, batch: ListBatch) -> Tensor:
        """All impressions."""
        return batch.weight.sum(1)

    def examined(self, batch: ListBatch) -> Tensor:
        """(B, S) log ρ of the cells."""
        found: Tensor = self.networks["examination"](batch.rows[:, : batch.target.shape[1]])
        return found


class DualLists(_Examined):
    """Dual learning: two softmax losses, each with clicks weighted by the inverse of what the other model says.

        ranking:      -Σ_k c_k (e^g_1 / e^g_k) log softmax(f)_k
        examination:  -Σ_k c_k (e^f_1 / e^f_k) log softmax(g)_k

    f scores the candidates, g the positions; 1 stands for the first of the list. A cell stands in the softmax as often
    as it was shown, so that lists of several pages have the right weight.
    """

    def losses(self, features: Tensor, batch: ListBatch) -> Tensor:
        """The sum of both; weights are taken as given, without a gradient through them."""
        scores, _ = self.scores("relevance", features, batch)
        positions = self.examined(batch)
        shown = batch.weight.clamp(min=1e-12).log()
        clicks = batch.weight * batch.target
        inverse_position = _inverse(positions.detach())
        inverse_relevance = _inverse(scores.detach())
        ranking = (clicks * inverse_position * torch.log_softmax(scores + shown, dim=1)).sum(1)
        examination = (clicks * inverse_relevance * torch.log_softmax(positions + shown, dim=1)).sum(1)
        return -ranking - examination

    def sizes(self, batch: ListBatch) -> Tensor:
        """All clicks."""
        return (batch.weight * batch.target).sum(1)


def _inverse(logs: Tensor) -> Tensor:
    """What the first entry of a list says over what each entry says."""
    return (logs[:, :1] - logs).exp().clamp(max=_LARGEST)
