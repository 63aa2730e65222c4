"""The ranker that a trained network becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from cldrank.rankers import Layer, LinearRanker, ModuleRanker, NetworkRanker, Ranker

_ACTIVATIONS: dict[type[nn.Module], str] = {
    nn.ELU: "elu",
    nn.ReLU: "relu",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.Tanh: "tanh",
    nn.Sigmoid: "sigmoid",
}


def ranker_of(network: nn.Module, **parts: Any) -> Ranker:
    """The simplest kind of ranker that scores as the network does.

    >>> from cldrank import scaling
    >>> one = scaling.fit(None, [[1, 1]])
    >>> ranker_of(nn.Sequential(nn.Linear(2, 3), nn.ELU(), nn.Linear(3, 1)), feature_names="ab", scaling=one)
    NetworkRanker(2 features, 2 → 3 → 1, scaling Unscaled(), of unknown origin)
    """
    network = network.eval().cpu()
    layers = layers_of(network)
    if layers is None:
        return ModuleRanker.of(network, **parts)
    if len(layers) == 1 and layers[0].weight is not None:
        intercept = 0.0 if layers[0].bias is None else float(layers[0].bias[0])
        return LinearRanker(coefficients=layers[0].weight[0].astype(np.float64), intercept=intercept, **parts)
    return NetworkRanker(layers=layers, **parts)


def layers_of(network: nn.Module) -> list[Layer] | None:
    """The network as plain layers; None where it is something else."""
    found: list[Layer] = []
    parts = [*network] if type(network) is nn.Sequential else [network]
    if any(module._forward_pre_hooks or module._forward_hooks for module in (network, *parts)):
        return None
    for module in parts:
        if isinstance(module, nn.Dropout | nn.Identity):
            continue  # silent when scoring
        if type(module) is nn.Linear:
            bias = None if module.bias is None else _array(module.bias)
            found.append(Layer("linear", _array(module.weight), bias))
        elif type(module) in _ACTIVATIONS and _is_usual(module):
            found.append(Layer(_ACTIVATIONS[type(module)]))
        else:
            return None
    return found


def _is_usual(module: nn.Module) -> bool:
    """Whether an activation is in its usual form."""
    return getattr(module, "alpha", 1.0) == 1.0 and getattr(module, "approximate", "none") == "none"


def _array(values: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return values.detach().float().numpy().copy()
