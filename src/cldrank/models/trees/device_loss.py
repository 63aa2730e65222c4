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
_KEPT_PAIRS = 1 << 28  # whose preferences are kept from round to round


class _Group(NamedTuple):
    """Q queries of up to S candidates by place, of which the first A prefer; padding has weight 0.

    rows                     (Q, S) places among the scores; of padding, one behind the last
    inside                   (Q, S) 1 for a candidate
    target, weight           (Q, S)
    shown                    (Q, S) 1 for a shown candidate
    mixed, learned           (Q, 1, 1) the weight of each pair of a shown and an unshown candidate; 0 where held out
    clicks, mass             (Q, S) as the softmax needs them
    """

    rows: Tensor
    inside: Tensor
    target: Tensor
    weight: Tensor
    shown: Tensor
    mixed: Tensor
    learned: Tensor
    clicks: Tensor
    mass: Tensor
    preferring: int

    def preferences(self) -> Tensor:
        """(Q, A, S) how much each of the first candidates is preferred to each other, both shown."""
        first = slice(0, self.preferring)
        above = (self.target[:, first, None] - self.target[:, None, :]).clamp(min=0)
        above *= self.weight[:, first, None].minimum(self.weight[:, None, :])
        return above * (self.shown[:, first, None] * self.shown[:, None, :])


class DeviceLoss:
    """As `PairLoss`, in float32; derivatives stay on the device."""

    def __init__(
        self, table: PairTable, queries: IntArray, device: str, form: LossForm = "pairs", held: IntArray | None = None
    ) -> None:
        self._form, self._device = form, torch.device(device)
        self._n_rows, self._holds = len(table.rows), held is not None and len(held) > 0
        self._mixes = bool(table.mixed.any())
        clicks, mass = clicks_and_mass(table)
        discounts = scaled_discounts(table) if form == "top" else np.zeros(1)
        self._discounts = torch.from_numpy(discounts).to(self._device, torch.float32)
        learned = np.zeros(len(table))
        learned[queries] = 1.0
        used = queries if held is None else np.union1d(queries, held)
        self._groups = [self._group(table, part, learned, clicks, mass) for part in _parts(table, used)]
        pairs = sum(group.rows.numel() * group.preferring for group in self._groups)
        self._kept = [group.preferences() for group in self._groups] if pairs <= _KEPT_PAIRS else None
        by_query = segments.sums_of_segments(clicks, table.offsets) if form == "softmax" else table.totals()
        self._total = float(by_query[queries].sum())

    def at(self, scores: NDArray[np.float32]) -> Slopes:
        """The derivatives at the score of each candidate."""
        padded = torch.from_numpy(np.append(scores, np.float32(0))).to(self._device)
        slopes = torch.zeros((2, self._n_rows + 1), device=self._device)
        sums = torch.zeros(4, dtype=torch.float64, device=self._device)  # the loss; then of those held out
        for number, group in enumerate(self._groups):
            f = padded[group.rows]
            preference = group.preferences() if self._kept is None else self._kept[number]
            ahead = f[:, : group.preferring, None] - f[:, None, :]
            lost = torch.nn.functional.softplus(-ahead)
            if self._holds:
                held = preference * (1 - group.learned)
                agreed = held * (0.5 * (1 + ahead.sign()))
                sums[1:] += torch.stack([(held * lost).sum(), agreed.sum(), held.sum()]).double()
            learned = group.learned[:, :, 0]
            if self._form == "softmax":
                slope, curve, loss = self._softmax(group, f)
                sums[0] += (loss * learned[:, 0]).sum().double()
            else:
                slope, curve, weighted = self._pairs(group, f, ahead, preference)
                sums[0] += (weighted * lost * group.learned).sum().double()
            slopes[:, group.rows] = torch.stack([slope * learned, curve * learned])
        loss_sum, held_loss, held_agreed, held_total = sums.tolist()
        gradient: Any = slopes[0, :-1]
        hessian: Any = slopes[1, :-1]
        held_out = (held_loss / held_total, held_agreed / held_total) if self._holds else (None, None)
        return Slopes(gradient, hessian, loss_sum / self._total, *held_out)

    def _pairs(self, group: _Group, f: Tensor, ahead: Tensor, preference: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The derivatives by each score, and how much each pair counts."""
        first = slice(0, group.preferring)
        if self._form == "top":
            ranked = torch.where(group.inside > 0, f, -torch.inf).argsort(dim=1, descending=True, stable=True)
            discount = torch.empty_like(f).scatter_(1, ranked, self._discounts[: f.shape[1]].expand_as(f))
            preference = preference * (discount[:, first, None] - discount[:, None, :]).abs()
        if self._mixes:
            unshown = (group.inside - group.shown)[:, None, :]
            preference = preference + group.mixed * group.shown[:, first, None] * unshown
        wrong = torch.sigmoid(-ahead)
        slope = preference * wrong
        curve = slope * (1 - wrong)
        by_score, twice = slope.sum(1), curve.sum(1)
        by_score[:, first] -= slope.sum(2)
        twice[:, first] += curve.sum(2)
        return by_score, twice, preference

    def _softmax(self, group: _Group, f: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        chances = torch.log_softmax(f + group.mass.log(), 1)
        total, chance = group.clicks.sum(1, keepdim=True), chances.exp()
        lost = torch.where(group.clicks > 0, group.clicks * chances, 0.0).sum(1)
        return total * chance - group.clicks, total * chance * (1 - chance), -lost

    def _group(
        self, table: PairTable, queries: IntArray, learned: NDArray[Any], clicks: NDArray[Any], mass: NDArray[Any]
    ) -> _Group:
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
            rows=torch.from_numpy(rows).to(self._device, torch.int64),
            inside=tensor(inside),
            target=tensor(table.target[place] * inside),
            weight=tensor(table.weight[place] * inside),
            shown=tensor(shown),
            mixed=tensor(table.mixed[queries])[:, None, None],
            learned=tensor(learned[queries])[:, None, None],
            clicks=tensor(clicks[place] * inside),
            mass=tensor(mass[place] * inside),
            preferring=int((prefers & shown).sum(axis=1).max()),
        )


def _parts(table: PairTable, queries: IntArray) -> Iterator[IntArray]:
    """Queries of like size together, up to twice as long as another, few enough for the device."""
    sizes = np.diff(table.offsets)[queries]
    width = np.ceil(np.log2(sizes / sizes.max()))
    for own in np.unique(width):
        group = queries[width == own]
        most = max(1, _MOST_PAIRS // int(sizes[width == own].max()) ** 2)
        yield from (group[start : start + most] for start in range(0, len(group), most))
