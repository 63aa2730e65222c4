"""`Linear`: scores that are linear in the scaled features."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from cldrank.models.fit import Context, Fit
from cldrank.models.model import Heeded, ScaledModel
from cldrank.parameters import parameter, value

if TYPE_CHECKING:
    from cldrank.models.network.model import MLP
    from cldrank.models.targets import PairSelection, PointSelection, Targets


@value
class Linear(ScaledModel):
    """A linear model, fitted to its one optimum in float64, with standard errors.

    >>> Linear(l2=0.01)
    Linear(l2=0.01)
    """

    name = "linear"
    label = "a linear model"
    family = "linear"
    remote_ways = ("fit_targets", "fit_points")
    heeds: ClassVar[Heeded] = {
        "fit_targets": ("penalty", "blocks", "errors"),
        "fit_points": ("penalty", "blocks", "device", "errors", "intercept", "steps", "tolerance"),
        "fit_pairs": ("penalty", "blocks", "steps", "tolerance"),
    }

    cluster: Literal["query"] | None = parameter(
        default=None, about="standard errors robust to dependence within queries", role="errors"
    )
    fit_intercept: bool = parameter(
        default=True, about="whether scores have an intercept", option=False, role="intercept"
    )
    max_steps: int = parameter(default=50, about="most steps of Newton's method", least=1, option=False, role="steps")
    tolerance: float = parameter(
        default=1e-9,
        about="largest relative step of a parameter at the optimum",
        above=0,
        option=False,
        role="tolerance",
    )

    def fit_targets(self, targets: Targets, context: Context) -> Fit:
        """Weighted least squares.

        minimise  Σ w (target - intercept - x·β)² / Σ w + l2 ‖β‖²
        """
        from cldrank.models.linear.least_squares import fit_least_squares

        return fit_least_squares(self, targets, context)

    def fit_points(self, problem: PointSelection, context: Context) -> Fit:
        """Relevance and selection, both linear, by one likelihood."""
        from cldrank.models.linear.selection_fit import fit_likelihood

        return fit_likelihood(self, problem, context)

    def fit_pairs(self, problem: PairSelection, context: Context) -> Fit:
        """Relevance and selection, both linear, by all pairs; no draws, no epochs, no torch."""
        from cldrank.models.linear.pairs import fit_pairs

        return fit_pairs(self, problem, context)

    def as_network(self) -> MLP:
        """The same scores as those of a network without hidden layers."""
        from cldrank.models.network.model import MLP

        return MLP(hidden=(), l2=self.l2, scaling=self.scaling)

    @property
    def errors(self) -> str:
        """Where standard errors come from, in words."""
        return "robust within queries" if self.cluster else "from the observed information"
