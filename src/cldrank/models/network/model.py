"""`Network`: scores by a neural network, trained on pairs or rows of whole queries."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from cldrank.errors import UsageError
from cldrank.memory import machine_memory
from cldrank.models.fit import Context, Fit
from cldrank.models.model import ScaledModel
from cldrank.parameters import parameter, value

if TYPE_CHECKING:
    import torch

    from cldrank.models.targets import PairSelection, PointSelection, Targets

_BYTES_OF_A_WEIGHT = 16  # in float32: itself, its gradient, and two averages of AdamW
_MOST = 2**31 - 1


@value
class Network(ScaledModel, ABC):
    """A network and how it is trained, by AdamW on batches of whole queries.

    The epoch that is kept is the last one that is not worse than the best on held-out queries by two standard errors of
    the difference.
    """

    label = "a network"
    family = "network"
    needs = ("torch", "neural")
    heeds = dict.fromkeys(("fit_targets", "fit_points", "fit_pairs"), ("penalty", "device", "torch", "resume", "log"))

    epochs: int = parameter(default=12, about="passes over the queries", least=1)
    learning_rate: float = parameter(
        default=2e-3, about="step size of AdamW", above=0, tried="2e-4,5e-4,1e-3,2e-3,5e-3"
    )
    batch_queries: int | None = parameter(
        default=None, about="queries per step; by default a 64th of them, 8 to 128", least=1, most=_MOST
    )
    validation: float = parameter(default=0.1, about="share of queries that choose the epoch", least=0, most=0.9)
    patience: int | None = parameter(
        default=None, about="stop after this many epochs without a better one", least=1, most=_MOST
    )
    schedule: Literal["cosine", "linear", "constant"] = parameter(
        default="cosine", about="of the learning rate after the warm-up", option=False
    )
    warmup: float = parameter(default=0.05, about="share of all steps", least=0, most=1, option=False)
    clip_norm: float | None = parameter(default=1.0, about="the largest norm of a gradient", least=1e-12, option=False)
    list_size: int = parameter(
        default=128, about="longer lists are cut at random into lists of at most this many", least=2, most=_MOST,
        option=False,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patience is not None and not self.validation:
            raise UsageError(
                "`patience` waits for a better epoch on held-out queries, and `validation=0` holds none out."
            )

    def progress(self) -> tuple[str, int]:
        """Epochs."""
        return "epoch", self.epochs

    @abstractmethod
    def build(self, width: int, seed: int) -> torch.nn.Module:
        """A fresh network for `width` features."""

    def fit_targets(self, targets: Targets, context: Context) -> Fit:
        """Pairs of one query in the order of their targets.

        minimise  -Σ_{t_i > t_j} (t_i - t_j) min(w_i, w_j) log σ(f(x_i) - f(x_j))
        """
        from cldrank.models.network import fitting

        return fitting.fit_targets(self, targets, context)

    def fit_points(self, problem: PointSelection, context: Context) -> Fit:
        """CLD's likelihood with a network of relevance and a linear model of selection."""
        from cldrank.models.network import fitting

        return fitting.fit_points(self, problem, context)

    def fit_pairs(self, problem: PairSelection, context: Context) -> Fit:
        """CLD-pair's loss with a network of relevance and a linear model of selection."""
        from cldrank.models.network import fitting

        return fitting.fit_pairs(self, problem, context)


@value
class MLP(Network):
    """A multi-layer perceptron: hidden layers, each with activation and dropout, then one score without a bias.

    The paper's has dropout 0.5, with which it needs two to three times the epochs for the same quality on our data.

    >>> MLP(hidden=(64, 32), epochs=5)
    MLP(epochs=5, hidden=(64, 32))
    >>> MLP().build(140, seed=0)[0]
    Linear(in_features=140, out_features=256, bias=True)
    """

    name = "mlp"

    hidden: Sequence[int] = parameter(default=(256, 128, 64), about="sizes of the hidden layers", least=1)
    dropout: float = parameter(
        default=0.2, about="share of hidden units dropped in each step", least=0, below=1, tried="0.0,0.2,0.5"
    )
    activation: Literal["elu", "relu", "gelu", "silu", "tanh"] = parameter(default="elu", about="of the hidden layers")

    def build(self, width: int, seed: int) -> torch.nn.Sequential:
        """The network for `width` features, its weights drawn by Xavier's rule."""
        self.check_installed()
        from torch import nn

        from cldrank.models.network.networks import dropout, initialise

        self._check_size(width)
        kinds = {"elu": nn.ELU, "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}
        layers: list[nn.Module] = []
        for size in self.hidden:
            layers += [nn.Linear(width, size), kinds[self.activation]()]
            layers += [dropout(self.dropout)] if self.dropout else []
            width = size
        layers.append(nn.Linear(width, 1, bias=False))
        network = nn.Sequential(*layers)
        initialise(network, seed)
        return network

    def _check_size(self, width: int) -> None:
        """Refuse a network that this machine cannot train, before anything is allocated."""
        weights = sum((before + 1) * size for before, size in pairwise((width, *self.hidden, 1)))
        needed, memory = weights * _BYTES_OF_A_WEIGHT, machine_memory(free=False) or math.inf
        if needed > memory:
            raise UsageError(
                f"`hidden={self.hidden!r}` makes a network of {weights:.3g} weights for {width} features, which "
                f"takes {needed / 2**30:,.0f} GiB to train; this machine has {memory / 2**30:,.0f} GiB. "
                "Choose smaller layers, such as 256, 128, 64."
            )


@value
class TorchModule(Network):
    """A torch module of your own: rows of features in, one score per row out. It is copied, never trained itself.

    >>> import torch
    >>> TorchModule(module=torch.nn.Linear(3, 1), epochs=5).epochs
    5
    """

    label = "a torch module"

    module: Any = parameter(default=None, about="scores rows of features", option=False)

    def build(self, width: int, seed: int) -> torch.nn.Module:
        """A copy of the module, checked to score rows of `width` features."""
        del seed
        self.check_installed()
        import torch

        if not isinstance(self.module, torch.nn.Module):
            raise UsageError(f"`module` must be a torch module, not {self.module!r}.")
        network = copy.deepcopy(self.module).float().cpu()
        try:
            with torch.no_grad():
                shape = network.eval()(torch.zeros(2, width)).shape
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"the module cannot score rows of {width} features: {reason}") from None
        if tuple(shape) not in ((2,), (2, 1)):
            raise UsageError(f"the module gives {tuple(shape)} for 2 rows; it must give one score per row.")
        if not any(part.requires_grad for part in network.parameters()):
            raise UsageError("the module has no parameter that can be trained.")
        return network
