"""The losses of `models.pairs` on a GPU, beside the trees that are grown there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.models.model import LossForm
from cldrank.models.pairs import PairTable, Slopes, clicks_and_mass, scaled_discounts

_MOST_PAIRS = 1 << 25  # that are worked on at a time
_WIDTHS = 2.0 ** np.arange(1, 30, 0.5)  # queries are padded to one of these


class _Group(NamedTuple):
    """Q queries of up to S candidates by place, of which the first A prefer; padding has weight 0.

    rows                     (Q, S) places among the scores; of padding, one behind the last
    inside                   (Q, S) 1 for a candidate
    target, weight           (Q, S)
    shown                    (Q, S) 1 for a shown candidate
    mixed                    (Q, 1, 1) the weight of each pair of a shown and an unshown candidate
    clicks, mass             (Q, S) as the softmax needs them
    """

    rows: Tensor
    inside: Tensor
    target: Tensor
    weight: Tensor
    shown: Tensor
    mixed: Tensor
    clicks: Tensor
    mass: Tensor
    preferring: int


class DeviceLoss:
    """As `PairLoss`, in float32; derivatives stay on the device."""

    def __init__(self, table: PairTable, queries: IntArray, device: str, form: LossForm = "pairs") -> None:
        self._form, self._device = form, torch.device(device)
        self._n_rows = len(table.rows)
        clicks, mass = clicks_and_mass(table)
        discounts = scaled_discounts(table) if form == "top" else np.zeros(1)
        self._discounts = torch.from_numpy(discounts).to(self._device, torch.float32)
        self._groups = [self._group(table, part, clicks, mass) for part in _parts(table, queries)]
        by_query = segments.sums_of_segments(clicks, table.offsets) if form == "softmax" else table.totals()
        self._total = float(by_query[queries].sum())

    def at(self, scores: NDArray[np.float32]) -> Slopes:
        """The derivatives at the score of each candidate."""
        sums = torch.zeros((2, self._n_rows + 1), device=self._device)
        lost = torch.zeros((), dtype=torch.float64, device=self._device)
        for group, f in self._scored(scores):
            slope, curve, loss = self._softmax(group, f) if self._form == "softmax" else self._pairs(group, f)
            sums[0].index_put_((group.rows,), slope, accumulate=False)
            sums[1].index_put_((group.rows,), curve, accumulate=False)
            lost += loss.double()
        gradient: Any = sums[0, :-1]
        hessian: Any = sums[1, :-1]
        return Slopes(gradient, hessian, float(lost) / self._total)

    def judged(self, scores: NDArray[np.float32]) -> tuple[float, float]:
        """The mean loss of all preferences, each alike, and the share of them that the scores agree with."""
        sums = torch.zeros(3, dtype=torch.float64, device=self._device)
        for group, f in self._scored(scores):
            preference = self._preference(group, torch.zeros_like(group.mixed))
            ahead = f[:, : group.preferring, None] - f[:, None, :]
            lost = (preference * torch.nn.functional.softplus(-ahead)).sum()
            agreed = (preference * (0.5 * (1 + ahead.sign()))).sum()
            sums += torch.stack([lost, agreed, preference.sum()]).double()
        lost_sum, agreed_sum, total = sums.tolist()
        return lost_sum / total, agreed_sum / total

    def _scored(self, scores: NDArray[np.float32]) -> Iterator[tuple[_Group, Tensor]]:
        padded = torch.from_numpy(np.append(scores, np.float32(0))).to(self._device)
        for group in self._groups:
            yield group, padded[group.rows]

    def _preference(self, group: _Group, mixed: Tensor) -> Tensor:
        """(Q, A, S) how much each of the first candidates is preferred to each other."""
        first = slice(0, group.preferring)
        above = (group.target[:, first, None] - group.target[:, None, :]).clamp(min=0)
        preference = above * group.weight[:, first, None].minimum(group.weight[:, None, :])
        preference *= group.shown[:, first, None] * group.shown[:, None, :]
        unshown = (group.inside - group.shown)[:, None, :]
        return preference + mixed * group.shown[:, first, None] * unshown

    def _pairs(self, group: _Group, f: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The derivatives by each score, and the loss."""
        preference = self._preference(group, group.mixed)
        if self._form == "top":
            ranked = torch.where(group.inside > 0, f, -torch.inf).argsort(dim=1, descending=True, stable=True)
            discount = torch.empty_like(f).scatter_(1, ranked, self._discounts[: f.shape[1]].expand_as(f))
            preference = preference * (discount[:, : group.preferring, None] - discount[:, None, :]).abs()
        ahead = f[:, : group.preferring, None] - f[:, None, :]
        wrong = torch.sigmoid(-ahead)
        slope = preference * wrong
        curve = slope * (1 - wrong)
        first, second = slope.sum(1), curve.sum(1)
        first[:, : group.preferring] -= slope.sum(2)
        second[:, : group.preferring] += curve.sum(2)
        return first, second, (preference * torch.nn.functional.softplus(-ahead)).sum()

    def _softmax(self, group: _Group, f: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chances = torch.log_softmax(f + group.mass.log(), 1)
        total, chance = group.clicks.sum(1, keepdim=True), chances.exp()
        lost = torch.where(group.clicks > 0, group.clicks * chances, 0.0).sum()
        return total * chance - group.clicks, total * chance * (1 - chance), -lost

    def _group(self, table: PairTable, queries: IntArray, clicks: NDArray[Any], mass: NDArray[Any]) -> _Group:
        sizes = np.diff(table.offsets)[queries]
        column = np.arange(sizes.max())
        inside = column < sizes[:, None]
        place = np.where(inside, table.offsets[queries][:, None] + column, 0)
        rows = np.where(inside, table.order[place], self._n_rows)
        shown = column < table.n_shown[queries][:, None]
        prefers = (table.follows[place] < table.ends[queries][:, None]) | (table.mixed[queries] > 0)[:, None]

        def tensor(values: NDArray[Any]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(self._device, torch.float32)

        return _Group(
            torch.from_numpy(rows).to(self._device, torch.int64),
            *(tensor(values) for values in (inside, table.target[place] * inside, table.weight[place] * inside, shown)),
            tensor(table.mixed[queries])[:, None, None],
            *(tensor(values[place] * inside) for values in (clicks, mass)),
            preferring=int((prefers & shown).sum(axis=1).max()),
        )


def _parts(table: PairTable, queries: IntArray) -> Iterator[IntArray]:
    """Queries of like size together, few enough for the device."""
    sizes = np.diff(table.offsets)[queries]
    width = np.searchsorted(_WIDTHS, sizes)
    for own in np.unique(width):
        group = queries[width == own]
        most = max(1, _MOST_PAIRS // int(sizes[width == own].max()) ** 2)
        yield from (group[start : start + most] for start in range(0, len(group), most))
