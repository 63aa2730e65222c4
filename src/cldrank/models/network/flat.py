"""The parameters of networks as one long vector, and their gradients as another: one kernel serves them all."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

_ALIGNMENT = 16  # numbers: matrix products are slower where a matrix begins elsewhere
_PIECE = 1 << 14  # numbers that an optimiser takes as one parameter: a GPU works on several at the same time


class FlatParameters:
    """Parameters that are views of one vector while they are learned; `release` gives each its own memory again.

    decayed, others   all matrices, and all else, in pieces, as parameters for an optimiser
    gradient          of all; what lies between two parameters is always 0

    >>> layer = nn.Linear(2, 1)
    >>> flat = FlatParameters(layer.parameters())
    >>> layer(torch.tensor([[1.0, 2.0]])).sum().backward()
    >>> [piece.grad.tolist()[:2] for piece in flat.pieces]
    [[1.0, 2.0], [1.0, 0.0]]
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._all = sorted(parameters, key=lambda parameter: parameter.ndim <= 1)
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in self._all]
        self._values = torch.zeros(sum(sizes), device=self._all[0].device)
        self.gradient = torch.zeros_like(self._values)
        start = split = 0
        for parameter, size in zip(self._all, sizes, strict=True):
            own = slice(start, start + parameter.numel())
            self._values[own] = parameter.detach().flatten()
            parameter.data = self._values[own].view(parameter.shape)
            parameter.grad = self.gradient[own].view(parameter.shape)
            start += size
            split += size * (parameter.ndim > 1)
        self.decayed, self.others = self._pieces(0, split), self._pieces(split, start)

    def _pieces(self, start: int, stop: int) -> list[nn.Parameter]:
        found = []
        for first in range(start, stop, _PIECE):
            own = slice(first, min(first + _PIECE, stop))
            found.append(nn.Parameter(self._values[own]))
            found[-1].grad = self.gradient[own]
        return found

    @property
    def pieces(self) -> list[nn.Parameter]:
        """All pieces."""
        return [*self.decayed, *self.others]

    @property
    def finite(self) -> bool:
        """Whether all parameters are numbers."""
        return bool(self._values.isfinite().all())

    def clip(self, norm: float) -> None:
        """Shorten the gradient to this norm, if it is longer."""
        self.gradient.mul_((norm / (self.gradient.norm() + 1e-6)).clamp(max=1.0))

    def release(self) -> None:
        """Give each parameter memory of its own."""
        for parameter in self._all:
            parameter.data, parameter.grad = parameter.detach().clone(), None
