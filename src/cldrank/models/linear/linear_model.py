"""`Linear`: scores that are linear in the scaled features."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cldrank.models.model import Heeded, ScaledModel, fitted_in
from cldrank.parameters import parameter, value

if TYPE_CHECKING:
    from cldrank.models.network.mlp import MLP


@value
class Linear(ScaledModel):
    """A linear model, fitted to its unique optimum in float64.

    >>> Linear(l2=0.01)
    Linear(l2=0.01)
    """

    name = "linear"
    label = "a linear model"
    family = "linear"
    remote_ways = ("fit_targets", "fit_points", "fit_two_stages")
    heeds: ClassVar[Heeded] = {
        "fit_targets": ("penalty", "blocks"),
        "fit_points": ("penalty", "blocks", "device", "steps"),
        "fit_pairs": ("penalty", "blocks", "steps"),
        "fit_two_stages": ("penalty", "blocks", "steps"),
        "fit_margins": (),
    }

    max_steps: int = parameter(default=50, about="most steps of Newton's method", least=1, option=False, role="steps")

    fit_targets = fitted_in("linear.least_squares")
    fit_points = fitted_in("linear.selection_fit")
    fit_pairs = fitted_in("linear.pair_fit")
    fit_two_stages = fitted_in("linear.two_stages")

    def as_network(self) -> MLP:
        """The same scores as those of a network without hidden layers."""
        from cldrank.models.network.mlp import MLP

        return MLP(hidden=(), l2=self.l2, scaling=self.scaling)
