"""What a tuning leaves: all its trials, the best of them, and how certain that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from cldrank.estimators import Method
from cldrank.tuning.judging import Floats, mean_of
from cldrank.tuning.space import Value

State = Literal["completed", "pruned", "failed"]
_TIE = 2.0  # standard errors of the difference


@dataclass(frozen=True)
class Trial:
    """Some parameters, and how well they did.

    value, standard_error    of the measure, over what was held out; None if the trial was pruned or failed
    behind, behind_error     how far behind the best trial, and the standard error of that, paired by query
    note                     why it failed

    >>> Trial(1, {"model__l2": 0.1}, "complete", value=0.70, behind=0.01, behind_error=0.02).ties
    True
    """

    number: int
    parameters: Mapping[str, Value]
    state: State
    value: float | None = None
    standard_error: float | None = None
    behind: float | None = None
    behind_error: float | None = None
    seconds: float = 0.0
    note: str = ""

    @property
    def ties(self) -> bool:
        """Whether what was held out cannot tell it from the best: less than two standard errors lie between them."""
        return self.behind is not None and self.behind <= _TIE * (self.behind_error or 0.0)


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning.

    best_parameters    of the best trial, whose own are `best_value` and `standard_error`
    measure            what trials were judged by
    held_out           the number of queries that they were judged on
    trials             all of them, in order
    estimator          fitted with the best parameters to all the data

    >>> trials = tuple(Trial(number, {"l2": l2}, "complete", value=l2) for number, l2 in enumerate((0.1, 0.3)))
    >>> found = Tuned({"l2": 0.3}, 0.3, 0.01, "concordance", 50, trials, estimator=None)
    >>> [trial.number for trial in found.best()]
    [1, 0]
    """

    best_parameters: dict[str, Value]
    best_value: float
    standard_error: float
    measure: str
    held_out: int
    trials: tuple[Trial, ...]
    estimator: Method = field(repr=False)

    def best(self, most: int = 5) -> list[Trial]:
        """The best trials, the best first."""
        completed = [trial for trial in self.trials if trial.value is not None]
        return sorted(completed, key=lambda trial: -(trial.value or 0.0))[:most]

    @property
    def ties(self) -> int:
        """How many other trials what was held out cannot tell from the best."""
        return sum(trial.ties for trial in self.trials) - 1

    def as_dict(self) -> dict[str, Any]:
        """All but the estimator, ready for JSON."""
        return {
            "best_parameters": self.best_parameters,
            "best_value": self.best_value,
            "standard_error": self.standard_error,
            "measure": self.measure,
            "held_out_queries": self.held_out,
            "ties_with_the_best": self.ties,
            "trials": [asdict(trial) for trial in self.trials],
        }


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The first trial with the largest value; None if none was completed."""
    completed = [trial for trial in trials if trial.value is not None]
    return max(completed, key=lambda trial: trial.value or 0.0, default=None)


def distances(trials: Sequence[Trial], gains: Callable[[int], Floats], weight: Floats) -> list[Trial]:
    """The trials with how far each is behind the best; `gains` gives those of a trial, by its number."""
    best = best_of(trials)
    found = []
    for trial in trials:
        if trial.value is not None and best is not None:
            behind = mean_of(gains(best.number) - gains(trial.number), weight)
            trial = replace(trial, behind=behind.value, behind_error=behind.error)
        found.append(trial)
    return found
