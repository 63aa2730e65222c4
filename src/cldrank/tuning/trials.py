"""What a tuning leaves: all its trials, the best of them, and how certain that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cldrank.tuning.judges import Floats, mean_of
from cldrank.tuning.space import Value

if TYPE_CHECKING:
    from cldrank.clicks.holding_out import HeldOut
    from cldrank.methods import Method

_TIE = 2.0  # standard errors of the difference


@dataclass(frozen=True)
class Trial:
    """Some parameters, and how well they did.

    state                    completed, pruned (given up early) or failed
    value, standard_error    of the measure, over the queries that judge; None if the trial was pruned or failed
    behind, behind_error     how far behind the best trial, and the standard error of that, paired by query
    note                     why it failed

    >>> Trial(1, {"model__l2": 0.1}, "completed", value=0.70, behind=0.01, behind_error=0.02).ties
    True
    """

    number: int
    parameters: Mapping[str, Value]
    state: str
    value: float | None = None
    standard_error: float | None = None
    behind: float | None = None
    behind_error: float | None = None
    seconds: float = 0.0
    note: str = ""

    @property
    def ties(self) -> bool:
        """Whether the queries that judge cannot tell it from the best: less than two standard errors lie between."""
        return self.behind is not None and self.behind <= _TIE * (self.behind_error or 0.0)


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning.

    best_parameters      of the best trial, whose own are `best_value` and `standard_error`
    measure              what trials were judged by
    validation_queries   the number of queries that they were judged on
    trials               all of them, in order
    estimator            fitted with the best parameters to all the data but what `held_out` says

    >>> trials = tuple(Trial(number, {"l2": l2}, "completed", value=l2) for number, l2 in enumerate((0.1, 0.3)))
    >>> tuned = Tuned({"l2": 0.3}, 0.3, 0.01, "concordance", 50, trials, estimator=None)
    >>> [trial.number for trial in tuned.best()]
    [1, 0]
    """

    best_parameters: dict[str, Value]
    best_value: float
    standard_error: float
    measure: str
    validation_queries: int
    trials: tuple[Trial, ...]
    estimator: Method = field(repr=False)
    held_out: HeldOut | None = field(default=None, repr=False)

    def best(self, most: int = 5) -> list[Trial]:
        """The best trials, the best first."""
        return best_first(self.trials)[:most]

    @property
    def ties(self) -> int:
        """How many other trials cannot be told from the best."""
        return sum(trial.ties for trial in self.trials) - 1

    def as_dict(self) -> dict[str, Any]:
        """All but the estimator, ready for JSON."""
        own = ("best_parameters", "best_value", "standard_error", "measure", "validation_queries")
        return {
            **{name: getattr(self, name) for name in own},
            "hold_out": None if self.held_out is None else self.held_out.as_dict(),
            "ties_with_the_best": self.ties,
            "trials": [asdict(trial) for trial in self.trials],
        }


def best_first(trials: Sequence[Trial]) -> list[Trial]:
    """The completed trials, the best first; of equals, the one that was tried first."""
    completed = [trial for trial in trials if trial.value is not None]
    return sorted(completed, key=lambda trial: -(trial.value or 0.0))


def with_distances(trials: Sequence[Trial], gains: Callable[[int], Floats], weight: Floats) -> list[Trial]:
    """The trials with how far each is behind the best; `gains` gives those of a trial, by its number."""
    best = [gains(trial.number) for trial in best_first(trials)[:1]]
    compared = []
    for trial in trials:
        if trial.value is not None:
            behind = mean_of(best[0] - gains(trial.number), weight)
            trial = replace(trial, behind=behind.value, behind_error=behind.error)
        compared.append(trial)
    return compared
