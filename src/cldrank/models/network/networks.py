"""Networks that score candidates: the MLP of the paper, a linear model, or any torch module."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.reading import reason

if TYPE_CHECKING:
    import torch

Activation = Literal["elu", "relu", "gelu", "silu", "tanh"]


_BYTES_OF_A_WEIGHT = 16  # in float32: itself, its gradient, and two averages of AdamW


@dataclass(frozen=True)
class MLP:
    """A multi-layer perceptron: hidden layers, each with activation and dropout, then one score without a bias.

    The paper's has dropout 0.5, with which it needs two to three times the epochs for the same quality on our data.

    >>> MLP().build(140, seed=0)[0]
    Linear(in_features=140, out_features=256, bias=True)
    """

    hidden: Sequence[int] = (256, 128, 64)
    dropout: float = 0.2
    activation: Activation = "elu"

    def __post_init__(self) -> None:
        sizes = self.hidden if isinstance(self.hidden, Sequence) else [None]
        if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
            raise UsageError(f"hidden must be the sizes of the layers, such as (256, 128, 64), not {self.hidden!r}.")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise UsageError(f"dropout must be a number from 0 to below 1, not {self.dropout!r}.")
        if self.activation not in get_args(Activation):
            raise UsageError(f"activation must be one of {', '.join(get_args(Activation))}, not {self.activation!r}.")
        object.__setattr__(self, "hidden", tuple(self.hidden))

    def _check_size(self, width: int) -> None:
        """Refuse a network that this machine cannot train, before anything is allocated."""
        weights = sum((before + 1) * size for before, size in pairwise((width, *self.hidden, 1)))
        needed, memory = weights * _BYTES_OF_A_WEIGHT, _memory()
        if needed > memory:
            raise UsageError(
                f"hidden={self.hidden} makes a network of {weights:.3g} weights for {width} features, which takes "
                f"{needed / 2**30:,.0f} GiB to train; this machine has {memory / 2**30:,.0f} GiB. Choose smaller "
                "layers, such as (256, 128, 64)."
            )

    def build(self, width: int, seed: int) -> torch.nn.Sequential:
        """The network for `width` features, its weights drawn by Xavier's rule."""
        from torch import nn

        self._check_size(width)
        kinds = {"elu": nn.ELU, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}
        layers: list[nn.Module] = []
        for size in self.hidden:
            layers += [nn.Linear(width, size), kinds[self.activation]()]
            layers += [_dropout(self.dropout)] if self.dropout else []
            width = size
        layers.append(nn.Linear(width, 1, bias=False))
        network = nn.Sequential(*layers)
        _initialise(network, seed)
        return network


def build(model: Any, width: int, seed: int) -> torch.nn.Module:
    """A fresh network from what an estimator was given as its model: "mlp", "linear", an `MLP`, or a torch module.

    >>> build("linear", 3, seed=0)
    Sequential(
      (0): Linear(in_features=3, out_features=1, bias=False)
    )
    """
    check_torch()
    import torch

    if isinstance(model, str) and model == "mlp":
        return MLP().build(width, seed)
    if isinstance(model, str) and model == "linear":
        return MLP(hidden=()).build(width, seed)
    if isinstance(model, MLP):
        return model.build(width, seed)
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"model must be 'linear', 'mlp', an MLP, or a torch module, not {model!r}.")
    network = copy.deepcopy(model).float().cpu()
    try:
        with torch.no_grad():
            found = network.eval()(torch.zeros(2, width)).shape
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the model cannot score rows of {width} features: {str(error).splitlines()[0]}") from None
    if tuple(found) not in ((2,), (2, 1)):
        raise UsageError(f"the model gives {tuple(found)} for 2 rows; it must give one score per row.")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise UsageError("the model has no parameter that can be trained.")
    return network


@contextmanager
def enough_memory() -> Iterator[None]:
    """What torch raises where memory runs out becomes an error that says what takes less."""
    import torch

    try:
        yield
    except RuntimeError as error:  # torch has a class of its own for this on a GPU only
        if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
            raise
        raise CldrankError(
            f"there is not enough memory to train this network ({reason(error)}); choose smaller layers, or fewer "
            "queries for a step (batch_queries)."
        ) from error


def check_torch() -> None:
    """Say what to install where torch is not there."""
    if find_spec("torch") is None:
        raise MissingDependencyError("neural rankers need torch: pip install 'cldrank[neural]'.")


def device_of(name: str | None) -> torch.device:
    """The device of this name; the CPU where none is named."""
    check_torch()
    import torch

    try:
        device = torch.device("cpu" if name is None else name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UsageError(f"device {name!r} cannot be used here: {str(error).splitlines()[0]}") from None
    return device


def _memory() -> float:
    """The memory of this machine in bytes, where it can be known."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _dropout(share: float) -> torch.nn.Dropout:
    """Dropout that on a CPU draws a byte for each number, not a float: drawing is most of what dropout costs there."""
    import torch

    class Dropout(torch.nn.Dropout):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            threshold = round(256 * self.p)
            if not self.training or values.device.type != "cpu" or not 0 < threshold < 256:
                return super().forward(values)
            words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
            kept = (words.view(torch.uint8)[: values.numel()] >= threshold).view(values.shape)
            return values * kept.to(values.dtype).mul_(256 / (256 - threshold))

    return Dropout(share)


def _initialise(network: torch.nn.Module, seed: int) -> None:
    import torch

    random = torch.Generator().manual_seed(int(seed) % 2**63)  # torch takes neither numpy's numbers nor longer ones
    for layer in network.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.xavier_uniform_(layer.weight, generator=random)
            if layer.bias is not None:
                torch.nn.init.zeros_(layer.bias)
