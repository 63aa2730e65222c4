"""Tasks: what a step minimises. A task owns the networks and computes the loss of each list of a batch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cldrank import losses
from cldrank.models.model import LossForm
from cldrank.models.network.lists import ListBatch

_SPEED = 10.0  # how much farther a step moves log ρ than other parameters: all steps agree on these few numbers
_LARGEST = 20.0  # an inverse weight above it is noise


class TrainingTask(ABC):
    """Networks and their loss.

    networks    by name; `relevance` scores the candidates
    """

    networks: nn.ModuleDict
    pairwise = True  # lists in which no candidate is preferred to another then teach nothing

    @abstractmethod
    def losses(self, features: Tensor, batch: ListBatch) -> Tensor:
        """(B,) the loss of each list; `features` are those of the batch's rows, in order."""

    @abstractmethod
    def sizes(self, batch: ListBatch) -> Tensor:
        """(B,) the size of each list: losses are divided by its mean."""

    def draws(self, width: int) -> float:  # noqa: ARG002 - as others need it
        """How many of the unshown a list of `width` candidates draws in an epoch."""
        return 0.0

    def scores(self, name: str, features: Tensor, batch: ListBatch) -> tuple[Tensor, Tensor]:
        """The scores of a network for the candidates with a target (B, S), and for those not shown (B, U)."""
        scores = self.networks[name](features).reshape(batch.rows.shape).float()
        width = batch.target.shape[1]
        return scores[:, :width], scores[:, width:]


class Pairs(TrainingTask):
    """Candidates in the order of their targets, by pairs or as a list.

    loss             as `losses` describes them
    unshown_weight   of all unshown candidates of a list, over that of the others; those drawn stand for all
    """

    def __init__(self, relevance: nn.Module, loss: LossForm = "pairs", unshown_weight: float = 0.0) -> None:
        self.networks = nn.ModuleDict({"relevance": relevance})
        self.loss, self.unshown_weight = loss, unshown_weight

    def draws(self, width: int) -> float:
        """As many as there are candidates with a target."""
        return width if self.unshown_weight else 0.0

    def losses(self, features: Tensor, batch: ListBatch) -> Tensor:
        """The loss of each list."""
        scores = torch.cat(self.scores("relevance", features, batch), 1)
        target, weight = self._all(batch)
        if self.loss == "softmax":
            return losses.softmax(scores, target, weight)
        preference = losses.preferences(target, weight)
        if self.loss == "top":
            drawn = batch.drawn.sum(1, keepdim=True).clamp(min=1)
            each = torch.cat([(batch.weight > 0).float(), batch.drawn * batch.unshown[:, None] / drawn], 1)
            preference = preference * losses.exchanges(scores.detach(), each)
        return losses.pairwise(scores, preference)

    def sizes(self, batch: ListBatch) -> Tensor:
        """The total preference, or the clicks, in each list."""
        target, weight = self._all(batch)
        if self.loss == "softmax":
            return (target * weight).sum(1)
        return losses.preferences(target, weight).sum((1, 2))

    def _all(self, batch: ListBatch) -> tuple[Tensor, Tensor]:
        """Target and weight of those with a target and of those drawn, who count as irrelevant."""
        shown = (batch.weight > 0).float().sum(1)
        drawn = self.unshown_weight * batch.pages * shown / batch.drawn.sum(1).clamp(min=1)
        target = torch.cat([batch.target, torch.zeros_like(batch.drawn)], 1)
        return target, torch.cat([batch.weight, drawn[:, None] * batch.drawn], 1)


class SelectedPairs(TrainingTask):
    """CLD's pairs: the order of relevance, and a linear model of selection beside it."""

    def __init__(self, relevance: nn.Module, width: int, selection_weight: float, unshown_ratio: float) -> None:
        self.networks = nn.ModuleDict({"relevance": relevance, "selection": _zero(width)})
        self.selection_weight, self.unshown_ratio = selection_weight, unshown_ratio

    def draws(self, width: int) -> float:
        """With each of these a list of S makes S pairs: `unshown_ratio` for each of the S (S - 1) / 2 of its own."""
        return self.unshown_ratio * max(width - 1, 1) / 2

    def sizes(self, batch: ListBatch) -> Tensor:
        """The total preference in each list."""
        return losses.preferences(batch.target, batch.weight).sum((1, 2))

    def losses(self, features: Tensor, batch: ListBatch) -> Tensor:
        """CLD's pairwise loss; pairs with an unshown candidate have `unshown_ratio` times the weight of the others."""
        scores, unshown_scores = self.scores("relevance", features, batch)
        selection, unshown_selection = self.scores("selection", features, batch)
        preference = losses.preferences(batch.target, batch.weight)
        shown = (batch.weight > 0).float()
        pairs = (shown.sum(1) * batch.drawn.sum(1)).clamp(min=1)
        each = self.unshown_ratio * preference.sum((1, 2)) / pairs
        mixed = each[:, None, None] * shown[:, :, None] * batch.drawn[:, None, :]
        return losses.cld_pair(
            scores, selection, unshown_scores, unshown_selection, preference, mixed, self.selection_weight
        )


class SelectedPoints(TrainingTask):
    """CLD's pointwise likelihood with any model of relevance, and a linear model of selection."""

    pairwise = False

    def __init__(self, relevance: nn.Module, width: int, gamma: float, unshown_ratio: float) -> None:
        self.networks = nn.ModuleDict(
            {"relevance": relevance, "selection": _zero(width), "level": nn.ParameterList([torch.zeros(1)])}
        )
        self.gamma, self.unshown_ratio = gamma, unshown_ratio

    def draws(self, width: int) -> float:
        """`unshown_ratio` for each pair of its own candidates, over their number."""
        return self.unshown_ratio * max(width - 1, 1) / 2

    @property
    def intercept(self) -> Tensor:
        """What is added to all scores; rankings do without it."""
        return next(self.networks["level"].parameters())

    def losses(self, features: Tensor, batch: ListBatch) -> Tensor:
        """Minus CLD's log-likelihood; those drawn stand for all that were not shown."""
        scores, _ = self.scores("relevance", features, batch)
        selection, unshown_selection = self.scores("selection", features, batch)
        scores = scores + self.intercept
        stands_for = batch.pages * batch.unshown / batch.drawn.sum(1).clamp(min=1)
        absent = stands_for[:, None] * batch.drawn
        return losses.cld(scores, selection, unshown_selection, batch.target, batch.weight, absent, self.gamma)

    def sizes(self, batch: ListBatch) -> Tensor:
        """The total weight in each list."""
        return batch.weight.sum(1) + batch.pages * batch.unshown


def _zero(width: int) -> nn.Linear:
    """A linear model that scores 0 until it has learned."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, width, 1)  # which draws no weights
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


# -- a propensity for each position ----------------------------------------------------------------------------------


class Examination(nn.Module):
    """A number for each position, looked up by the entry of a list."""

    place: Tensor

    def __init__(self, place: NDArray[np.int64], size: int) -> None:
        super().__init__()
        self.curve = nn.Parameter(torch.zeros(size))
        self.register_buffer("place", torch.from_numpy(np.ascontiguousarray(place)), persistent=False)

    @property
    def logs(self) -> Tensor:
        """(positions,) log ρ, up to a constant."""
        return _SPEED * self.curve

    def forward(self, entries: Tensor) -> Tensor:
        """The log ρ of the positions of some entries."""
        return self.logs[self.place[entries]]


class DualLists(TrainingTask):
    """Dual learning: two softmax losses, each with clicks weighted by the inverse of what the other model says.

        ranking:      -Σ_k c_k (e^g_1 / e^g_k) log softmax(f)_k
        examination:  -Σ_k c_k (e^f_1 / e^f_k) log softmax(g)_k

    f scores the candidates, g the positions; 1 stands for the first of the list. Entries of a list are cells, each with
    its own row of the table: target c/n, weight n. A cell stands in the softmax as often as it was shown, so that lists
    of several pages have the right weight.
    """

    pairwise = False

    def __init__(self, relevance: nn.Module, place: NDArray[np.int64], size: int) -> None:
        level = nn.ParameterList([torch.zeros(1)])
        self.networks = nn.ModuleDict({"relevance": relevance, "examination": Examination(place, size), "level": level})

    def losses(self, features: Tensor, batch: ListBatch) -> Tensor:
        """The sum of both losses; the weights have no gradient."""
        scores, _ = self.scores("relevance", features, batch)
        positions: Tensor = self.networks["examination"](batch.rows[:, : batch.target.shape[1]])
        shown = batch.weight.clamp(min=1e-12).log()
        clicks = batch.weight * batch.target
        inverse_position = _inverse(positions.detach())
        inverse_relevance = _inverse(scores.detach())
        ranking = (clicks * inverse_position * torch.log_softmax(scores + shown, dim=1)).sum(1)
        examination = (clicks * inverse_relevance * torch.log_softmax(positions + shown, dim=1)).sum(1)
        return -ranking - examination

    def sizes(self, batch: ListBatch) -> Tensor:
        """The clicks in each list."""
        return (batch.weight * batch.target).sum(1)


def _inverse(logs: Tensor) -> Tensor:
    """What the first entry of a list says over what each entry says."""
    return (logs[:, :1] - logs).exp().clamp(max=_LARGEST)
