"""What the table of results says: means over seeds with their intervals, and two methods compared."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from cldrank.errors import DataError, UsageError
from cldrank.experiment.makers import Identity, identify
from cldrank.experiment.records import judged
from cldrank.measures import Interval, mean_interval, parse
from cldrank.wording import listed

CONFIDENCE = 0.9


class Cell(NamedTuple):
    """What a mean is taken over seeds for."""

    experiment: str
    data: str
    setting: str
    method: str
    measure: str


@dataclass(frozen=True)
class Summary:
    """One method in one setting by one measure: the mean over seeds with its t-interval.

    setting     the varied keys and their values as JSON; `varied` gives them as a dictionary
    mean        over seeds; folds are averaged within a seed first. NaN if no seed finished
    low, high   the 90% t-interval; NaN with fewer than two seeds
    seeds       the number of seeds of which all folds finished
    failed      the number of units that failed or have no value
    gap         the share of the gap between Naive and Oracle that is closed: 0 is Naive, 1 is Oracle; NaN if either is
                missing, or if Oracle is not clearly better than Naive (by the same test as `tied`)
    sees_labels whether it learns from labels, as Oracle does; such a method is neither best nor tied
    best        whether no method that sees no labels has a better mean; none is, with fewer than two seeds
    tied        whether a paired t-test over seeds cannot tell it from the best: the 90% t-interval of the difference
                contains 0. The best itself is tied too
    behind      its mean difference from the best over the seeds of both, with the bounds of that interval; NaN if it
                sees labels, or with fewer than two such seeds
    seconds     the mean time of a fit
    peak_mib    the most memory that a fit took
    """

    experiment: str
    data: str
    synthetic: bool
    setting: str
    method: str
    measure: str
    mean: float
    low: float
    high: float
    seeds: int
    failed: int
    gap: float
    sees_labels: bool
    best: bool
    tied: bool
    behind: float
    behind_low: float
    behind_high: float
    seconds: float
    peak_mib: float

    @property
    def varied(self) -> dict[str, Any]:
        """The varied keys of the setting and their values."""
        found: dict[str, Any] = json.loads(self.setting)
        return found

    @property
    def interval(self) -> Interval | None:
        """The mean with its interval, if there is one.

        >>> row = Summary(
        ...     "table1", "msrd", False, "{}", "CLD", "AP", mean=0.5, low=0.4, high=0.6, seeds=5, failed=0, gap=0.9,
        ...     sees_labels=False, best=False, tied=True, behind=-0.01, behind_low=-0.03, behind_high=0.01,
        ...     seconds=1.0, peak_mib=300.0,
        ... )
        >>> print(row.interval, row.distance)
        0.500 ± 0.100 -0.010 ± 0.020
        """
        if math.isnan(self.low):
            return None
        return Interval(self.mean, self.low, self.high, CONFIDENCE, self.seeds)

    @property
    def distance(self) -> Interval | None:
        """Its difference from the best with its interval, if there is one."""
        if math.isnan(self.behind):
            return None
        return Interval(self.behind, self.behind_low, self.behind_high, CONFIDENCE, self.seeds)

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self)


def per_seed(table: pa.Table) -> dict[Cell, dict[int, float]]:
    """The value of each seed; folds are averaged, and a seed counts only when all its folds have finished."""
    folds: dict[tuple[str, str], set[str]] = defaultdict(set)
    values: dict[Cell, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in _rows(table):
        folds[row["experiment"], row["data"]].add(row["fold"])
        seeds = values[_cell(row)]
        if row["status"] == "ok":
            seeds[row["seed"]][row["fold"]] = row["value"]
    return {
        cell: {
            seed: math.fsum(by_fold.values()) / len(by_fold)
            for seed, by_fold in sorted(seeds.items())
            if by_fold.keys() == folds[cell.experiment, cell.data]
        }
        for cell, seeds in values.items()
    }


def summary(table: pa.Table) -> list[Summary]:
    """Every method in every setting by every measure, in the order of experiment, data, setting, measure, method."""
    by_seed = per_seed(table)
    facts, known = _facts(table), _identities(table)
    groups: dict[tuple[str, str, str, str], list[Cell]] = defaultdict(list)
    for cell in by_seed:
        groups[cell.experiment, cell.data, cell.setting, cell.measure].append(cell)
    measures = list(dict.fromkeys(table["measure"].to_pylist()))
    found: list[Summary] = []
    for group in sorted(groups, key=lambda key: (key[0], key[1], setting_order(key[2]), measures.index(key[3]))):
        cells = sorted(groups[group], key=lambda cell: known[cell].order)
        found += _summarise({cell: by_seed[cell] for cell in cells}, facts, known)
    return found


def setting_order(setting: str) -> list[Any]:
    """A key that sorts settings by their values, numbers as numbers.

    >>> sorted(['{"simulation.depth": 10}', '{"simulation.depth": 2}'], key=setting_order)
    ['{"simulation.depth": 2}', '{"simulation.depth": 10}']
    """
    values = sorted(json.loads(setting).items())
    return [
        (key, 0, value, "")
        if isinstance(value, int | float)
        else (key, 1, 0, value if isinstance(value, str) else json.dumps(value))
        for key, value in values
    ]


def _summarise(
    by_seed: Mapping[Cell, Mapping[int, float]], facts: Mapping[Cell, dict[str, Any]], known: Mapping[Cell, Identity]
) -> list[Summary]:
    """The methods of one setting by one measure."""
    higher = parse(next(iter(by_seed)).measure).higher_is_better
    means = {cell: math.fsum(seeds.values()) / len(seeds) if seeds else math.nan for cell, seeds in by_seed.items()}
    named = {cell.method.casefold(): cell for cell in by_seed}
    floor, width = _gap(named.get("naive"), named.get("oracle"), by_seed, means, higher)
    rivals = [cell for cell in by_seed if not known[cell].sees_labels and len(by_seed[cell]) > 1]
    best = max(rivals, key=lambda cell: means[cell] if higher else -means[cell], default=None)
    return [
        Summary(
            **cell._asdict(),
            mean=means[cell],
            **_bounds(seeds),
            seeds=len(seeds),
            gap=(means[cell] - floor) / width,
            sees_labels=known[cell].sees_labels,
            **_distance(cell, best if cell in rivals else None, by_seed, means),
            **facts[cell],
        )
        for cell, seeds in by_seed.items()
    ]


def _distance(
    cell: Cell, best: Cell | None, by_seed: Mapping[Cell, Mapping[int, float]], means: Mapping[Cell, float]
) -> dict[str, Any]:
    """How far a cell is behind the best, and whether that can be told from chance."""
    found = _difference(by_seed[cell], by_seed[best]) if best is not None else None
    return {
        "best": best is not None and means[cell] == means[best],
        "tied": best is not None and _tied(by_seed[cell], by_seed[best]),
        "behind": math.nan if found is None else found.estimate,
        "behind_low": math.nan if found is None else found.low,
        "behind_high": math.nan if found is None else found.high,
    }


def _gap(
    naive: Cell | None,
    oracle: Cell | None,
    by_seed: Mapping[Cell, Mapping[int, float]],
    means: Mapping[Cell, float],
    higher: bool,
) -> tuple[float, float]:
    """Where the gap between Naive and Oracle begins, and how wide it is; NaN if there is no clear one."""
    if naive is None or oracle is None or _tied(by_seed[naive], by_seed[oracle]):
        return math.nan, math.nan
    width = means[oracle] - means[naive]
    return means[naive], width if width and (width > 0) == higher else math.nan


def _bounds(seeds: Mapping[int, float]) -> dict[str, Any]:
    if len(seeds) < 2:
        return {"low": math.nan, "high": math.nan}
    interval = mean_interval(list(seeds.values()), CONFIDENCE)
    return {"low": interval.low, "high": interval.high}


def _difference(mine: Mapping[int, float], others: Mapping[int, float]) -> Interval | None:
    """The mean difference over the seeds of both with its t-interval; None with fewer than two of them."""
    common = sorted(mine.keys() & others.keys())
    return mean_interval([mine[seed] - others[seed] for seed in common], CONFIDENCE) if len(common) > 1 else None


def _tied(mine: Mapping[int, float], best: Mapping[int, float]) -> bool:
    found = _difference(mine, best)
    return mine == best or (found is not None and found.low <= 0 <= found.high)


def _facts(table: pa.Table) -> dict[Cell, dict[str, Any]]:
    """Synthetic or not, failures, time and memory of each cell."""
    gathered: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(table):
        gathered[_cell(row)].append(row)
    return {
        cell: {
            "synthetic": rows[0]["synthetic"],
            "failed": sum(row["status"] != "ok" for row in rows),
            "seconds": _mean(row["seconds"] for row in rows if row["status"] == "ok"),
            "peak_mib": max((row["peak_mib"] for row in rows if row["status"] == "ok"), default=math.nan),
        }
        for cell, rows in gathered.items()
    }


def _identities(table: pa.Table) -> dict[Cell, Identity]:
    """Who the method of each cell is, by the configuration of one of its units."""
    texts = {_cell(row): row["configuration"] for row in table.select([*Cell._fields, "configuration"]).to_pylist()}
    return {cell: identify(cell.method, json.loads(text)) for cell, text in texts.items()}


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    wanted = [
        "experiment", "data", "synthetic", "fold", "setting", "method", "seed", "measure", "value", "status", "seconds",
        "peak_mib",
    ]  # fmt: skip
    rows: list[dict[str, Any]] = judged(table).select(wanted).to_pylist()
    return rows


def _cell(row: Mapping[str, Any]) -> Cell:
    return Cell(*(row[key] for key in Cell._fields))


# -- two methods compared ----------------------------------------------------------------------------------------


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


def contrasts(table: pa.Table, first: str, second: str) -> list[Contrast]:
    """Compare two methods over the seeds that both finished, per setting."""
    by_seed = per_seed(table)
    known = {cell.method: one for cell, one in _identities(table).items()}
    labels = sorted(known, key=lambda label: known[label].order)
    first, second = (_known_label(label, labels) for label in (first, second))
    found = []
    for cell, mine in by_seed.items():
        theirs = by_seed.get(cell._replace(method=second), {})
        common = sorted(mine.keys() & theirs.keys())
        if cell.method == first and len(common) > 1:
            pairs = [(mine[seed], theirs[seed]) for seed in common]
            found.append(_contrast(cell, pairs))
    if not found:
        raise DataError(f"{first} and {second} do not have two seeds of one setting in common; run more seeds.")
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
    raise UsageError(f"there are no results of {label!r}; there are results of {listed(labels)}.")
