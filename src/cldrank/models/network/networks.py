"""What networks are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cldrank.errors import CldrankError
from cldrank.reading import reason


@contextmanager
def enough_memory() -> Iterator[None]:
    """What torch raises where memory runs out becomes an error that says what takes less."""
    try:
        yield
    except RuntimeError as error:  # torch has a separate class for this on a GPU only
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise CldrankError(
            f"there is not enough memory to train this network ({reason(error)}); choose smaller layers, or fewer "
            "queries for a step (batch_queries)."
        ) from error


def dropout(share: float) -> torch.nn.Dropout:
    """Dropout that on a CPU draws a byte for each number, not a float: drawing is most of what dropout costs there."""

    class Dropout(torch.nn.Dropout):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            threshold = round(256 * self.p)
            if not self.training or values.device.type != "cpu" or not 0 < threshold < 256:
                return super().forward(values)
            words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
            kept = (words.view(torch.uint8)[: values.numel()] >= threshold).view(values.shape)
            return values * kept.to(values.dtype).mul_(256 / (256 - threshold))

    return Dropout(share)


def initialise(network: torch.nn.Module, seed: int) -> None:
    """Draw the weights of all linear layers by Xavier's rule."""
    random = torch.Generator().manual_seed(int(seed) % 2**63)  # torch takes neither numpy's numbers nor longer ones
    for layer in network.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.xavier_uniform_(layer.weight, generator=random)
            if layer.bias is not None:
                torch.nn.init.zeros_(layer.bias)
