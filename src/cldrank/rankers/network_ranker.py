"""`NetworkRanker`: a sequence of layers, as numbers; scoring needs numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.errors import DataError
from cldrank.rankers.base import Config, ScalingRanker, Scorer, Weights, member, taken_scaling
from cldrank.rankers.devices import device_of, is_cpu
from cldrank.rankers.linear_ranker import LinearRanker

Matrix = NDArray[np.float64]


ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
}


@dataclass(frozen=True, eq=False)
class Layer:
    """A layer: "linear" with weight (out, in) and maybe a bias (out,), or an activation without numbers."""

    kind: str
    weight: NDArray[np.float32] | None = None
    bias: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        numbers = [values for values in (self.weight, self.bias) if values is not None]
        if self.kind != "linear":
            if not isinstance(self.kind, str) or self.kind not in ACTIVATIONS or numbers:
                known = " or ".join(ACTIVATIONS)
                raise DataError(f"a layer is linear, or it is {known} without numbers, not {shortened(self.kind)}.")
            return
        if self.weight is None or self.weight.ndim != 2:
            raise DataError("a linear layer needs a matrix of weights.")
        if self.bias is not None and self.bias.shape != self.weight.shape[:1]:
            raise DataError(f"a bias of shape {self.bias.shape} does not fit weights of shape {self.weight.shape}.")
        if any(values.dtype != np.float32 or not np.isfinite(values).all() for values in numbers):
            raise DataError("the numbers of a layer must be finite and float32.")

    def apply(self, rows: Matrix) -> Matrix:
        """The output of the layer, a row for each row of input."""
        if self.weight is None:
            return ACTIVATIONS[self.kind](rows)
        sums: Matrix = rows @ self.weight.T.astype(np.float64)
        return sums if self.bias is None else sums + self.bias


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NetworkRanker(ScalingRanker):
    """A feed-forward network over the scaled features, whose last layer gives the score.

    >>> from cldrank import scaling
    >>> layers = [Layer("linear", np.array([[1, -1]], dtype=np.float32)), Layer("relu")]
    >>> ranker = NetworkRanker(feature_names=("a", "b"), scaling=scaling.fit(None, [[1, 1]]), layers=layers)
    >>> ranker
    NetworkRanker(2 features, 2 → 1, scaling Unscaled(), of unknown origin)
    >>> ranker.predict([[3, 1], [1, 3]])
    array([2., 0.])
    """

    kind = "network"
    layers: Sequence[Layer]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layers", tuple(self.layers))
        width = len(self.feature_names)
        for layer in self.layers:
            if layer.weight is not None:
                if layer.weight.shape[1] != width:
                    raise DataError(f"a layer takes {layer.weight.shape[1]} numbers where {width} come in.")
                width = layer.weight.shape[0]
        if width != 1:
            raise DataError(f"the network ends {width} wide; it must end in a single score.")

    def scorer(self, device: str | None) -> Scorer:
        """The network's output, worked out in float64 and rounded to float32: by numpy, or on a GPU by torch."""
        return self._scores if is_cpu(device) else self._scorer_by_torch(device)

    def _scores(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        rows = block.astype(np.float64)
        for layer in self.layers:
            rows = layer.apply(rows)
        # a matrix product adds up a row in an order that depends on where it lies; rounded, equal rows are equal again
        return rows[:, 0].astype(np.float32).astype(np.float64)

    def _scorer_by_torch(self, device: str | None) -> Scorer:
        place = device_of(device)
        import torch
        from torch.nn import functional

        def moved(values: NDArray[np.float32] | None) -> Any:
            return None if values is None else torch.from_numpy(values.copy()).to(place, torch.float64)

        layers = [(layer.kind, moved(layer.weight), moved(layer.bias)) for layer in self.layers]

        def score(block: NDArray[np.float32]) -> NDArray[np.float64]:
            rows = torch.from_numpy(block).to(place).double()
            for kind, weight, bias in layers:
                rows = getattr(functional, kind)(rows) if weight is None else functional.linear(rows, weight, bias)
            return rows[:, 0].float().double().cpu().numpy()

        return score

    def to_state(self) -> tuple[Config, Weights]:
        """The layers in order, and `0.weight`, `0.bias` and so on."""
        config, weights = super().to_state()
        for index, layer in enumerate(self.layers):
            weights |= {} if layer.weight is None else {f"{index}.weight": layer.weight}
            weights |= {} if layer.bias is None else {f"{index}.bias": layer.bias}
        return {**config, "layers": [layer.kind for layer in self.layers]}, weights

    @classmethod
    def from_state(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker with these layers."""
        scaling = taken_scaling(config, weights, len(parts["feature_names"]))
        layers = [
            Layer(kind, weights.pop(f"{index}.weight", None), weights.pop(f"{index}.bias", None))
            for index, kind in enumerate(member(config, "layers", list))
        ]
        if weights:
            raise DataError(f"the network has no array {min(weights)!r}.")
        return cls(layers=layers, scaling=scaling, **parts)

    def _parts(self) -> list[str]:
        sizes = [len(self.feature_names), *(len(layer.weight) for layer in self.layers if layer.weight is not None)]
        return [" → ".join(map(str, sizes)), *super()._parts()]


def ranker_of(network: Any, **parts: Any) -> NetworkRanker | LinearRanker:
    """The ranker that scores as a sequence of torch layers does: a linear ranker for a single layer.

    >>> from cldrank import scaling
    >>> from cldrank.models import MLP
    >>> own = scaling.fit(None, [[1, 1]])
    >>> ranker_of(MLP(hidden=(3,)).build(2, seed=0), feature_names="ab", scaling=own)
    NetworkRanker(2 features, 2 → 3 → 1, scaling Unscaled(), of unknown origin)
    """
    layers = []
    for module in network.eval().cpu():
        kind = type(module).__name__.lower()
        numbers = [getattr(module, name, None) for name in ("weight", "bias")]
        if kind != "dropout":
            layers.append(Layer(kind, *(None if own is None else own.detach().numpy().copy() for own in numbers)))
    if len(layers) > 1 or layers[0].weight is None:
        return NetworkRanker(layers=layers, **parts)
    intercept = 0.0 if layers[0].bias is None else float(layers[0].bias[0])
    return LinearRanker(coefficients=layers[0].weight[0].astype(np.float64), intercept=intercept, **parts)
