"""`MLP`: scores by a neural network, trained on pairs or rows of whole queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from cldrank.models.model import Heeded, LossForm, ScaledModel, fitted_in, loss_choice
from cldrank.parameters import parameter, value

if TYPE_CHECKING:
    import torch

_MOST = 2**31 - 1


@value
class MLP(ScaledModel):
    """A multi-layer perceptron: hidden layers, each with activation and dropout, then a score without a bias.

    It is trained by AdamW on batches of whole queries. The epoch that is kept is the last that is not worse than
    the best on held-out queries by two standard errors of the difference. The paper's has dropout 0.5, with which it
    needs two to three times the epochs for the same quality on our data.

    >>> MLP(hidden=(64, 32), epochs=5)
    MLP(epochs=5, hidden=(64, 32))
    >>> MLP().build(140, seed=0)[0]
    Linear(in_features=140, out_features=256, bias=True)
    """

    name = "mlp"
    label = "a network"
    family = "network"
    needs = ("torch", "neural")
    heeds: ClassVar[Heeded] = {
        "fit_points": ("penalty", "device", "torch", "resume", "log"),
        **dict.fromkeys(("fit_targets", "fit_pairs"), ("penalty", "device", "torch", "resume", "log", "loss")),
    }

    loss: LossForm = loss_choice()
    epochs: int = parameter(default=12, about="passes over the queries", least=1)
    learning_rate: float = parameter(
        default=2e-3, about="step size of AdamW", above=0, tried="2e-4,5e-4,1e-3,2e-3,5e-3"
    )
    batch_queries: int | None = parameter(
        default=None, about="queries per step; by default a 64th of them, 8 to 128", least=1, most=_MOST
    )
    validation: float = parameter(default=0.1, about="share of queries that choose the epoch", least=0, most=0.9)
    warmup: float = parameter(
        default=0.05, about="share of the steps before the learning rate falls", least=0, most=1, option=False
    )
    clip_norm: float | None = parameter(default=1.0, about="the largest norm of a gradient", least=1e-12, option=False)
    list_size: int = parameter(
        default=128, about="longer lists are cut at random into lists of at most this many", least=2, most=_MOST,
        option=False,
    )  # fmt: skip
    hidden: Sequence[int] = parameter(default=(256, 128, 64), about="sizes of the hidden layers", least=1)
    dropout: float = parameter(
        default=0.2, about="share of hidden units dropped in each step", least=0, below=1, tried="0.0,0.2,0.5"
    )
    activation: Literal["elu", "relu", "tanh"] = parameter(default="elu", about="of the hidden layers")

    fit_targets = fitted_in("network.network_fit")
    fit_points = fitted_in("network.network_fit")
    fit_pairs = fitted_in("network.network_fit")

    def progress(self) -> tuple[str, int]:
        """Epochs."""
        return "epoch", self.epochs

    def build(self, width: int, seed: int) -> torch.nn.Sequential:
        """The network for `width` features, its weights drawn by Xavier's rule."""
        self.check_installed()
        from torch import nn

        from cldrank.models.network.networks import dropout, initialise

        kinds = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}
        layers: list[nn.Module] = []
        for size in self.hidden:
            layers += [nn.Linear(width, size), kinds[self.activation]()]
            layers += [dropout(self.dropout)] if self.dropout else []
            width = size
        layers.append(nn.Linear(width, 1, bias=False))
        network = nn.Sequential(*layers)
        initialise(network, seed)
        return network
