"""Two methods of an experiment, compared over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from cldrank.errors import DataError, UsageError
from cldrank.experiment.results import CONFIDENCE, Cell, method_order, per_seed, setting_order
from cldrank.measures import Interval, mean_interval, parse


@dataclass(frozen=True)
class Contrast:
    """Two methods in one setting by one measure, first minus second, paired over seeds.

    interval   the mean difference with its t-interval
    p_value    of the paired t-test over seeds, two-sided
    wins       seeds in which the first is better, of interval.n
    """

    experiment: str
    data: str
    setting: str
    measure: str
    first: float
    second: float
    interval: Interval
    p_value: float
    wins: int


def compare(table: pa.Table, first: str, second: str) -> list[Contrast]:
    """Compare two methods over the seeds that both finished, setting by setting."""
    by_seed = per_seed(table)
    labels = sorted({cell.method for cell in by_seed}, key=method_order)
    first, second = (_known_label(label, labels) for label in (first, second))
    found = []
    for cell, mine in by_seed.items():
        theirs = by_seed.get(cell._replace(method=second), {})
        common = sorted(mine.keys() & theirs.keys())
        if cell.method == first and len(common) > 1:
            pairs = [(mine[seed], theirs[seed]) for seed in common]
            found.append(_contrast(cell, pairs))
    if not found:
        raise DataError(f"{first} and {second} have no two seeds of one setting in common; run more seeds.")
    return sorted(found, key=lambda one: (one.experiment, one.data, setting_order(one.setting)))


def _contrast(cell: Cell, pairs: Sequence[tuple[float, float]]) -> Contrast:
    from scipy.special import stdtr, stdtrit

    differences = [one - other for one, other in pairs]
    interval = mean_interval(differences, CONFIDENCE)
    degrees = len(pairs) - 1
    error = (interval.high - interval.estimate) / stdtrit(degrees, (1 + CONFIDENCE) / 2)
    certain = 0.0 if interval.estimate else 1.0
    p_value = 2 * float(stdtr(degrees, -abs(interval.estimate) / error)) if error else certain
    sign = 1 if parse(cell.measure).higher_is_better else -1
    first, second = (math.fsum(side) / len(pairs) for side in zip(*pairs, strict=True))
    wins = sum(sign * difference > 0 for difference in differences)
    return Contrast(cell.experiment, cell.data, cell.setting, cell.measure, first, second, interval, p_value, wins)


def _known_label(label: str, labels: Sequence[str]) -> str:
    for known in labels:
        if known.casefold() == label.casefold():
            return known
    raise UsageError(f"there are no results of a method {label!r}; there are {', '.join(labels)}.")
