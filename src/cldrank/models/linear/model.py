"""`Linear`: scores that are linear in the scaled features."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from cldrank.models.fit import Context, Fit
from cldrank.models.model import Heeded, ScaledModel
from cldrank.parameters import parameter, value

if TYPE_CHECKING:
    from cldrank.models.network.model import MLP
    from cldrank.models.targets import Observations, PairSelection, PointSelection, Targets


@value
class Linear(ScaledModel):
    """A linear model, fitted to its one optimum in float64.

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

    def fit_targets(self, targets: Targets, context: Context) -> Fit:
        """Weighted least squares.

        minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
        """
        from cldrank.models.linear.least_squares import fit_targets

        return fit_targets(self, targets, context)

    def fit_points(self, problem: PointSelection, context: Context) -> Fit:
        """Relevance and selection, both linear, by one likelihood."""
        from cldrank.models.linear.selection_fit import fit_points

        return fit_points(self, problem, context)

    def fit_pairs(self, problem: PairSelection, context: Context) -> Fit:
        """Relevance and selection, both linear, by all pairs; no draws, no epochs, no torch."""
        from cldrank.models.linear.pairs import fit_pairs

        return fit_pairs(self, problem, context)

    def fit_two_stages(self, observed: Observations, context: Context) -> Fit:
        """An ordered probit of where candidates were shown, then least squares corrected for it."""
        from cldrank.models.linear.two_stages import fit_two_stages

        return fit_two_stages(self, observed, context)

    def as_network(self) -> MLP:
        """The same scores as those of a network without hidden layers."""
        from cldrank.models.network.model import MLP

        return MLP(hidden=(), l2=self.l2, scaling=self.scaling)
