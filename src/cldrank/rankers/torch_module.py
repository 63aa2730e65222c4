"""Networks of torch as rankers: `ranker_of` a trained one, and `ModuleRanker` for those that are no plain layers.

The numbers of a module are saved, its code is not.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError, UsageError
from cldrank.rankers.base import Config, Ranker, ScalingRanker, Scorer, Weights, member
from cldrank.rankers.devices import device_of
from cldrank.rankers.linear import LinearRanker
from cldrank.rankers.network import Layer, NetworkRanker

if TYPE_CHECKING:
    import torch

_ACTIVATIONS = {"ELU": "elu", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu", "Tanh": "tanh", "Sigmoid": "sigmoid"}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModuleRanker(ScalingRanker):
    """A torch module over the scaled features. Loaded again, it needs a module of the same shape to take its numbers.

    state         the module's numbers by name
    class_name    what the module was, to tell a user who has forgotten
    module        the module itself; None until one is given

    >>> import torch
    >>> from cldrank import scaling
    >>> parts = {"feature_names": "ab", "scaling": scaling.fit(None, [[1, 2]])}
    >>> ranker = ModuleRanker.of(torch.nn.Linear(2, 1), **parts)
    >>> ranker.class_name, sorted(ranker.state)
    ('Linear', ['bias', 'weight'])
    """

    kind = "module"
    state: Weights
    class_name: str
    module: torch.nn.Module | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, values in self.state.items():
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise DataError(f"the numbers {name!r} of the module hold NaN.")
        if self.module is not None:
            object.__setattr__(self, "module", _precise(self.module, len(self.feature_names)))

    @classmethod
    def of(cls, module: torch.nn.Module, **parts: Any) -> Self:
        """The ranker that scores with this module."""
        state = {name: value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}
        return cls(state=state, class_name=type(module).__qualname__, module=module, **parts)

    def with_module(self, module: torch.nn.Module | None) -> Self:
        """The same ranker, scoring with a copy of a module that takes up the numbers."""
        if module is None:
            raise UsageError(
                f"this ranker scores with a torch module of the class {self.class_name}, whose code is not saved; "
                "pass one: load_ranker(folder, module=…)."
            )
        import torch

        if not isinstance(module, torch.nn.Module):
            raise UsageError(f"`module` must be a torch module such as {self.class_name}(…), not {module!r}.")
        own = copy.deepcopy(module)
        try:
            own.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in self.state.items()})
        except (RuntimeError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"the module given does not fit the ranker's numbers: {reason}") from None
        return replace(self, module=own)

    def score_scaled(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        """The module's output, worked out in float64 where the module can, and rounded to float32."""
        return self.scorer_on("cpu")(block)

    def scorer_on(self, device: str) -> Scorer:
        """The same on a device."""
        if self.module is None:
            self.with_module(None)
        place = device_of(device)
        import torch

        module: Any = self.module if place.type == "cpu" else copy.deepcopy(self.module).to(place)  # type: ignore[union-attr]
        kind = next((value.dtype for value in module.parameters()), torch.float32)

        def score(block: NDArray[np.float32]) -> NDArray[np.float64]:
            with torch.no_grad():
                scores = module(torch.from_numpy(np.ascontiguousarray(block)).to(place).to(kind))
            return scores.reshape(len(block)).float().double().cpu().numpy()  # type: ignore[no-any-return]

        return score

    def scorer_state(self) -> tuple[Config, Weights]:
        """The name of the module's class, and its numbers."""
        return {"class_name": self.class_name}, dict(self.state)

    @classmethod
    def from_scorer(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker without its module."""
        return cls(state=weights, class_name=member(config, "class_name", str), **parts)

    def _parts(self) -> list[str]:
        return [self.class_name, *super()._parts()]


def _precise(module: torch.nn.Module, width: int) -> torch.nn.Module:
    """A copy that scores in float64, so that rounding makes equal rows equal; as it is, where its code insists on less.

    In float32, what a row adds up to depends on how many others it is scored with.
    """
    import torch

    copied = copy.deepcopy(module).eval().cpu()
    try:
        with torch.no_grad():
            copied.double()(torch.zeros(2, width, dtype=torch.float64))
    except (RuntimeError, TypeError):
        copied.float()
    return copied


def ranker_of(network: torch.nn.Module, **parts: Any) -> Ranker:
    """The simplest kind of ranker that scores as the network does.

    >>> from cldrank import scaling
    >>> from torch import nn
    >>> own = scaling.fit(None, [[1, 1]])
    >>> ranker_of(nn.Sequential(nn.Linear(2, 3), nn.ELU(), nn.Linear(3, 1)), feature_names="ab", scaling=own)
    NetworkRanker(2 features, 2 → 3 → 1, scaling Unscaled(), of unknown origin)
    """
    network = network.eval().cpu()
    layers = plain_layers(network)
    if layers is None:
        return ModuleRanker.of(network, **parts)
    if len(layers) == 1 and layers[0].weight is not None:
        intercept = 0.0 if layers[0].bias is None else float(layers[0].bias[0])
        return LinearRanker(coefficients=layers[0].weight[0].astype(np.float64), intercept=intercept, **parts)
    return NetworkRanker(layers=layers, **parts)


def plain_layers(network: torch.nn.Module) -> list[Layer] | None:
    """The network as plain layers; None where it is something else."""
    from torch import nn

    layers: list[Layer] = []
    parts: list[Any] = [*network] if type(network) is nn.Sequential else [network]
    if any(module._forward_pre_hooks or module._forward_hooks for module in (network, *parts)):
        return None
    for module in parts:
        kind = type(module)
        activation = _ACTIVATIONS.get(kind.__name__, "") if kind is getattr(nn, kind.__name__, None) else ""
        is_usual = getattr(module, "alpha", 1.0) == 1.0 and getattr(module, "approximate", "none") == "none"
        if isinstance(module, nn.Dropout | nn.Identity):
            continue  # silent when scoring
        if kind is nn.Linear:
            layers.append(Layer("linear", _array(module.weight), None if module.bias is None else _array(module.bias)))
        elif activation and is_usual:
            layers.append(Layer(activation))
        else:
            return None
    return layers


def _array(values: torch.Tensor) -> NDArray[np.float32]:
    return values.detach().float().numpy().copy()
