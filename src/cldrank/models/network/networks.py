"""What networks are made of: dropout, first weights, and parameters as a single vector, updated by a single kernel."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

_ALIGNMENT = 16  # numbers: matrix products are slower where a matrix begins elsewhere
_PIECE = 1 << 14  # numbers that an optimiser takes as a parameter: a GPU works on several at the same time


def dropout(share: float) -> nn.Dropout:
    """Dropout that on a CPU draws a byte for each number, not a float: drawing is most of what dropout costs there."""

    class Dropout(nn.Dropout):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            threshold = round(256 * self.p)
            if not self.training or values.device.type != "cpu" or not 0 < threshold < 256:
                return super().forward(values)
            words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
            kept = (words.view(torch.uint8)[: values.numel()] >= threshold).view(values.shape)
            return values * kept.to(values.dtype).mul_(256 / (256 - threshold))

    return Dropout(share)


def initialise(network: nn.Module, seed: int) -> None:
    """Draw the weights of all linear layers by Xavier's rule."""
    random = torch.Generator().manual_seed(int(seed) % 2**63)  # torch takes neither numpy's nor longer integers
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=random)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class FlatParameters:
    """Parameters that are views of a single vector while they are learned; `release` gives each its own memory again.

    decayed, others   all matrices, and all else, in pieces, as parameters for an optimiser
    gradient          of all; what lies between two parameters is always 0
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
        pieces = []
        for first in range(start, stop, _PIECE):
            own = slice(first, min(first + _PIECE, stop))
            pieces.append(nn.Parameter(self._values[own]))
            pieces[-1].grad = self.gradient[own]
        return pieces

    @property
    def pieces(self) -> list[nn.Parameter]:
        """The parts of the vector of parameters: those with weight decay, then the others."""
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
