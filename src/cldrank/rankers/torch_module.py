"""`ranker_of` a trained network of torch: its layers as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError
from cldrank.rankers.base import Ranker
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.network import ACTIVATIONS, Layer, NetworkRanker

if TYPE_CHECKING:
    import torch

_SILENT = ("dropout", "identity")  # when scoring


def ranker_of(network: torch.nn.Module, **parts: Any) -> Ranker:
    """The simplest kind of ranker that scores as a sequence of layers does.

    >>> from cldrank import scaling
    >>> from torch import nn
    >>> own = scaling.fit(None, [[1, 1]])
    >>> ranker_of(nn.Sequential(nn.Linear(2, 3), nn.ELU(), nn.Linear(3, 1)), feature_names="ab", scaling=own)
    NetworkRanker(2 features, 2 → 3 → 1, scaling Unscaled(), of unknown origin)
    """
    layers = [_layer(module) for module in network.eval().cpu() if _kind(module) not in _SILENT]  # type: ignore[attr-defined]
    if len(layers) == 1 and layers[0].weight is not None:
        intercept = 0.0 if layers[0].bias is None else float(layers[0].bias[0])
        return LinearRanker(coefficients=layers[0].weight[0].astype(np.float64), intercept=intercept, **parts)
    return NetworkRanker(layers=layers, **parts)


def _kind(module: torch.nn.Module) -> str:
    return type(module).__name__.lower()


def _layer(module: Any) -> Layer:
    kind = _kind(module)
    if kind == "linear":
        return Layer(kind, _array(module.weight), None if module.bias is None else _array(module.bias))
    if kind not in ACTIVATIONS:
        raise UsageError(f"a ranker has linear layers and {', '.join(ACTIVATIONS)}, not {module!r}.")
    return Layer(kind)


def _array(values: torch.Tensor) -> NDArray[np.float32]:
    return values.detach().float().numpy().copy()
