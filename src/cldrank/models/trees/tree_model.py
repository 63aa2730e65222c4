"""`Trees`: scores by gradient-boosted trees, fitted to pairs of whole queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cldrank.errors import UsageError
from cldrank.models.model import Heeded, LossForm, Model, fitted_in, loss_choice
from cldrank.parameters import parameter, value

_MOST = 2**31 - 1


@value
class Trees(Model):
    """Boosted trees, grown leaf by leaf by XGBoost; missing values go to the better side of each split.

    Pairs are those of networks, with weights such that a candidate's is 1 on average. The rounds up to the least loss
    on held-out queries are kept, all where none are held out.

    >>> Trees(rounds=100, leaves=31)
    Trees(rounds=100, leaves=31)
    """

    name = "trees"
    label = "boosted trees"
    family = "trees"
    needs = ("xgboost", "trees")
    takes_missing = True
    heeds: ClassVar[Heeded] = {
        **dict.fromkeys(("fit_targets", "fit_pairs"), ("device", "resume", "log", "loss")),
        "fit_scores": ("device", "resume", "log"),
    }

    loss: LossForm = loss_choice()
    rounds: int = parameter(default=500, about="most trees", least=1, most=_MOST)
    learning_rate: float = parameter(
        default=0.05, about="how much of each tree is taken", above=0, most=1, tried="0.03:0.3:log"
    )
    leaves: int = parameter(default=15, about="most leaves of a tree", least=2, most=1 << 16, tried="7,15,31,63")
    min_weight: float = parameter(
        default=20.0,
        about="least weight (sum of second derivatives) of a leaf; a shown candidate has about 1",
        least=0,
        tried="5.0:50.0:log",
    )
    l2: float = parameter(default=10.0, about="ridge penalty on the values of leaves", least=0)
    column_share: float = parameter(
        default=0.2, about="share of the features, drawn at random, that a split chooses from", above=0, most=1
    )
    increasing: Sequence[str] = parameter(default=(), about="features by name whose larger values never lower a score")
    decreasing: Sequence[str] = parameter(default=(), about="features by name whose larger values never raise a score")
    categorical: Sequence[str] = parameter(
        default=(), about="features by name whose values are codes (whole numbers from 0) without an order"
    )
    validation: float = parameter(default=0.1, about="share of queries that choose the rounds", least=0, most=0.9)
    patience: int | None = parameter(
        default=50, about="stop after this many rounds without a better one", least=1, most=_MOST
    )
    max_bin: int = parameter(
        default=256, about="most values of a feature to split at", least=2, most=1 << 16, option=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        named = [*self.increasing, *self.decreasing, *self.categorical]
        if twice := {name for name in named if named.count(name) > 1}:
            raise UsageError(
                f"{min(twice)!r} is named twice in `increasing`, `decreasing` and `categorical`; once is enough."
            )

    fit_targets = fitted_in("trees.tree_fit")
    fit_pairs = fitted_in("trees.tree_fit")
    fit_scores = fitted_in("trees.tree_fit")

    def progress(self) -> tuple[str, int]:
        """Rounds."""
        return "round", self.rounds
