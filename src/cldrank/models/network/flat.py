"""The parameters of networks as one long vector, and their gradients as another: one kernel serves them all."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

_ALIGNMENT = 16  # numbers: matrix products are slower where a matrix begins elsewhere


class FlatParameters:
    """Parameters that are views of one vector while they are learned; `release` gives each its own memory again.

    parts      what decays (matrices) and what does not, as parameters for an optimiser
    gradient   of all; what lies between two parameters is always 0

    >>> layer = nn.Linear(2, 1)
    >>> flat = FlatParameters(layer.parameters())
    >>> layer(torch.tensor([[1.0, 2.0]])).sum().backward()
    >>> [part.grad.tolist()[:2] for part in flat.parts]
    [[1.0, 2.0], [1.0, 0.0]]
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._all = sorted(parameters, key=lambda parameter: parameter.ndim <= 1)
        sizes = [-(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT for parameter in self._all]
        values = torch.zeros(sum(sizes), device=self._all[0].device)
        self.gradient = torch.zeros_like(values)
        start = decayed = 0
        for parameter, size in zip(self._all, sizes, strict=True):
            own = slice(start, start + parameter.numel())
            values[own] = parameter.detach().flatten()
            parameter.data = values[own].view(parameter.shape)
            parameter.grad = self.gradient[own].view(parameter.shape)
            start += size
            decayed += size * (parameter.ndim > 1)
        self.parts = [nn.Parameter(values[:decayed]), nn.Parameter(values[decayed:])]
        for part, gradient in zip(self.parts, (self.gradient[:decayed], self.gradient[decayed:]), strict=True):
            part.grad = gradient

    def clip(self, norm: float) -> None:
        """Shorten the gradient to this norm, if it is longer."""
        self.gradient.mul_((norm / (self.gradient.norm() + 1e-6)).clamp(max=1.0))

    @property
    def finite(self) -> bool:
        """Whether all parameters are numbers."""
        return all(bool(part.isfinite().all()) for part in self.parts)

    def release(self) -> None:
        """Give each parameter memory of its own."""
        for parameter in self._all:
            parameter.data, parameter.grad = parameter.detach().clone(), None
