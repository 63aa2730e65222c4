"""How long a run will take: a guess before it begins, better ones while it goes on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cldrank.experiment.datasets import Fold
from cldrank.experiment.definition import Experiment
from cldrank.experiment.methods import maker
from cldrank.experiment.plan import Unit

_PACE = 0.5  # seconds a million feature values, of a method that nobody knows
_PROCESS_BYTES = 600 << 20  # what a process takes before it has any data
_COPIES = 4  # of the training features: as read, scaled, and in the precision of the solver


class Forecast:
    """The work left, by method, each with the seconds that one fit of it may take.

    >>> work = Forecast({"CLD": 1.0, "CLD-pair": 9.0}, {"CLD": 2, "CLD-pair": 2})
    >>> work.seconds(jobs=2)
    10.0
    >>> work.observe("CLD")
    >>> work.seconds_left(elapsed=3.0)  # a twentieth took 3 seconds
    57.0
    """

    def __init__(self, each: Mapping[str, float], counts: Mapping[str, int] | None = None) -> None:
        self.each = dict(each)
        self.left = Counter(counts or {})
        self.total = self._expected()
        self.done = 0.0

    def seconds(self, jobs: int) -> float:
        """The time of all that is left, in so many processes."""
        return self._expected() / max(jobs, 1)

    def observe(self, method: str) -> None:
        """One of these is done."""
        self.left[method] -= 1
        self.done += self.each.get(method, 0.0)

    def seconds_left(self, elapsed: float) -> float:
        """The time left if the rest goes as what was done in the time that has passed; NaN if nothing is known."""
        return (self.total - self.done) * elapsed / self.done if self.done else math.nan

    def _expected(self) -> float:
        return sum(count * self.each.get(method, 0.0) for method, count in self.left.items())


def forecast(
    experiments: Sequence[Experiment],
    todo: Mapping[str, Sequence[Unit]],
    values: int,
    recorded: Sequence[Mapping[str, Any]],
) -> Forecast:
    """From the times on record, where there are any of a method, else from the size of the training data."""
    each = {
        method.label: maker(method.use, method.parameters, method.label).pace * values / 1e6 + 0.2
        for experiment in experiments
        for method in experiment.methods
    }
    for label in each:
        times = [row["seconds"] for row in recorded if row["method"] == label and row["status"] == "ok"]
        if times:
            each[label] = math.fsum(times) / len(times)
    for experiment in experiments:
        for method in experiment.methods:  # tuning fits each combination once, for all seeds together
            tries = math.prod(map(len, method.tune.values())) if method.tune else 0
            each[method.label] *= 1 + tries / len(experiment.seeds)
    counts = Counter(found[0].method for found in todo.values())
    return Forecast(each, counts)


def size(fold: Fold) -> tuple[int, int]:
    """The feature values of the training part of a fold, and the bytes that a process working on it takes."""
    train, test = fold.load()
    return train.features.size, _PROCESS_BYTES + _COPIES * train.features.nbytes + 2 * test.features.nbytes
