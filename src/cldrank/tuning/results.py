"""What a tuning leaves: all its trials, the best of them, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from cldrank.estimators import Method
from cldrank.tuning.space import Value

State = Literal["completed", "pruned", "failed"]
_TIE = 2.0  # standard errors of the difference


@dataclass(frozen=True)
class Trial:
    """One try of some parameters.

    value, standard_error    of the measure, over what was held out; None where the trial was pruned or failed
    behind, behind_error     how far behind the best trial, and the standard error of that, query by query
    note                     why it failed
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

    best_parameters    of the best trial; `best_value` and `standard_error` are its own
    measure            what trials were judged by, over so many `held_out` queries
    trials             all of them, in their order
    estimator          fitted with the best parameters to all that was given
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
