"""Warm starts of networks: the weights of an earlier ranker, put into the networks of a task."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cldrank.errors import UsageError
from cldrank.models.network.tasks import TrainingTask
from cldrank.models.warm import WarmStart, held_start, selection_start
from cldrank.rankers import Layer, LinearRanker
from cldrank.rankers.torch_module import plain_layers

_LEVEL = "level"


@torch.no_grad()
def begin_with(warm: WarmStart, task: TrainingTask, user: str) -> None:
    """Put the numbers of an earlier ranker into the networks of a task; refused where these have other layers."""
    network = task.networks["relevance"]
    layers, own = _layers(warm), plain_layers(network)
    if own is None:
        raise UsageError("a torch module of your own starts from its own weights; leave `warm_start` out.")
    if _shapes(layers) != _shapes(own):
        raise UsageError(
            f"{user} cannot start from a network of other layers: it has {_shapes(own)}, the earlier one "
            f"{_shapes(layers)}; leave `warm_start` out."
        )
    modules = [module for module in network.modules() if isinstance(module, nn.Linear)]
    for module, layer in zip(modules, (one for one in layers if one.weight is not None), strict=True):
        module.weight.copy_(torch.from_numpy(np.asarray(layer.weight)))
        if module.bias is not None and layer.bias is not None:
            module.bias.copy_(torch.from_numpy(np.asarray(layer.bias)))
    selection = warm.selection()
    if "selection" in task.networks and selection is not None:
        weight, bias = task.networks["selection"].parameters()
        weight.copy_(torch.from_numpy(selection[0])[None])
        bias.fill_(selection[1])
    level = warm.number(_LEVEL)
    if _LEVEL in task.networks and level is not None:
        next(task.networks[_LEVEL].parameters()).fill_(level)


def start_of(task: TrainingTask, held: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What a later fit can start from, beside the network of relevance; `held` are the queries held out."""
    found: dict[str, NDArray[Any]] = dict(held_start(held))
    if "selection" in task.networks:
        found |= selection_start(*task.linear_part("selection"))
    if _LEVEL in task.networks:
        found[_LEVEL] = next(task.networks[_LEVEL].parameters()).detach().double().cpu().numpy()
    return found


def _layers(warm: WarmStart) -> list[Layer]:
    """The layers of the earlier ranker, the first of them for the features of today."""
    ranker = warm.ranker
    if isinstance(ranker, LinearRanker):
        coefficients, _ = warm.linear(ranker.coefficients, 0.0)
        return [Layer("linear", coefficients[None].astype(np.float32), None)]
    first, *others = ranker.layers
    if first.weight is None:
        raise AssertionError("a network begins with weights")
    weight, shift = warm.layer(first.weight)
    bias = None if first.bias is None else (first.bias + shift).astype(np.float32)
    return [Layer("linear", weight.astype(np.float32), bias), *others]


def _shapes(layers: list[Layer]) -> str:
    """Layers in words, such as 46 → 64 elu → 1."""
    found = ""
    for layer in layers:
        if layer.weight is None:
            found += f" {layer.kind}"
        else:
            found += (" → " if found else f"{layer.weight.shape[1]} → ") + str(layer.weight.shape[0])
    return found
