"""The table of results, one row per finished unit and measure, and what it says: means over seeds, methods compared."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.errors import DataError, UsageError
from cldrank.experiment.makers import Identity, identify
from cldrank.files import replacing
from cldrank.measures import Interval, mean_interval, parse
from cldrank.reading import reading
from cldrank.wording import listed

CONFIDENCE = 0.9
PLACE = ("experiment", "data", "fold", "setting", "method", "seed")
SCHEMA = pa.schema(
    {
        "experiment": pa.string(),
        "unit": pa.string(),
        "data": pa.string(),
        "synthetic": pa.bool_(),
        "fold": pa.string(),
        "setting": pa.string(),
        "method": pa.string(),
        "seed": pa.int64(),
        "measure": pa.string(),
        "value": pa.float64(),
        "status": pa.string(),
        "error": pa.string(),
        "warnings": pa.string(),
        "seconds": pa.float64(),
        "configuration": pa.string(),
        "data_fingerprint": pa.string(),
        "versions": pa.string(),
        "commit": pa.string(),
        "command": pa.string(),
        "finished": pa.timestamp("us", tz="UTC"),
    }
)
_RESULTS = "results.parquet"
_JSON = {"setting": dict, "configuration": dict, "warnings": list, "versions": dict}  # columns of JSON


def save_results(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write all results of a folder to its `results.parquet`, if there are any."""
    if rows:
        with replacing(folder / _RESULTS) as temporary:
            pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), temporary, write_page_checksum=True)


def load_results(folder: str | PathLike[str]) -> pa.Table:
    """All results in the folder of an experiment, or in a single `.parquet` file, sorted by place."""
    path = Path(folder) / _RESULTS if Path(folder).is_dir() else Path(folder)
    if not path.is_file():
        raise (DataError if Path(folder).is_dir() else UsageError)(
            f"{folder}: there are no results here; `cldrank experiment run` writes them."
        )
    with reading(path, "a table of results"):
        table = pq.read_table(path, columns=SCHEMA.names, page_checksum_verification=True).cast(SCHEMA)
        for name, kind in _JSON.items():
            for text in table[name].unique().to_pylist():
                if not isinstance(json.loads(text), kind):
                    raise ValueError(f"{name} is {text}")
        for measure in table["measure"].unique().to_pylist():
            parse(measure)
    return table


# -- means over seeds ----------------------------------------------------------------------------------------------


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

    @property
    def varied(self) -> dict[str, Any]:
        """The varied keys of the setting and their values."""
        varied: dict[str, Any] = json.loads(self.setting)
        return varied

    @property
    def interval(self) -> Interval | None:
        """The mean with its interval, if there is one."""
        return None if math.isnan(self.low) else Interval(self.mean, self.low, self.high, CONFIDENCE, self.seeds)

    def as_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return asdict(self)


def per_seed(table: pa.Table) -> dict[Cell, dict[int, float]]:
    """The value of each seed; folds are averaged, and a seed counts only when all its folds have finished."""
    return _per_seed(_by_cell(table))


def _per_seed(by_cell: Mapping[Cell, Sequence[Mapping[str, Any]]]) -> dict[Cell, dict[int, float]]:
    folds: dict[tuple[str, str], set[str]] = defaultdict(set)
    values: dict[Cell, dict[int, dict[str, float]]] = {}
    for cell, rows in by_cell.items():
        folds[cell.experiment, cell.data] |= {row["fold"] for row in rows}
        values[cell] = defaultdict(dict)
        for row in filter(_is_done, rows):
            values[cell][row["seed"]][row["fold"]] = row["value"]
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
    rows = _by_cell(table)
    by_seed = _per_seed(rows)
    known = {cell: identify(cell.method, json.loads(own[-1]["configuration"])) for cell, own in rows.items()}
    measures = list(dict.fromkeys(table["measure"].to_pylist()))
    groups: dict[Cell, dict[Cell, dict[int, float]]] = defaultdict(dict)
    for cell in sorted(by_seed, key=lambda cell: known[cell].order):
        groups[cell._replace(method="")][cell] = by_seed[cell]

    def place(group: Cell) -> tuple[Any, ...]:
        return group.experiment, group.data, setting_order(group.setting), measures.index(group.measure)

    return [cell for group in sorted(groups, key=place) for cell in _summarise(groups[group], rows, known)]


def setting_order(setting: str) -> list[Any]:
    """A key that sorts settings by their values, numbers as numbers.

    >>> sorted(['{"simulation.depth": 10}', '{"simulation.depth": 2}'], key=setting_order)
    ['{"simulation.depth": 2}', '{"simulation.depth": 10}']
    """
    return [
        (key, 0, value, "") if isinstance(value, int | float) else (key, 1, 0, json.dumps(value))
        for key, value in sorted(json.loads(setting).items())
    ]


def _summarise(
    by_seed: Mapping[Cell, Mapping[int, float]],
    rows: Mapping[Cell, Sequence[Mapping[str, Any]]],
    known: Mapping[Cell, Identity],
) -> list[Summary]:
    """The methods of one setting by one measure."""
    means = {cell: math.fsum(seeds.values()) / len(seeds) if seeds else math.nan for cell, seeds in by_seed.items()}
    floor, width = _gap(by_seed, means)
    rivals = [cell for cell in by_seed if not known[cell].sees_labels and len(by_seed[cell]) > 1]
    best = max(rivals, key=means.__getitem__, default=None)
    unknown = Interval(math.nan, math.nan, math.nan, CONFIDENCE, 0)
    summaries = []
    for cell, seeds in by_seed.items():
        mean = mean_interval(list(seeds.values()), CONFIDENCE) if len(seeds) > 1 else unknown
        rival = by_seed[best] if best is not None and cell in rivals else None
        behind = (None if rival is None else _difference(seeds, rival)) or unknown
        done = [row["seconds"] for row in filter(_is_done, rows[cell])]
        summaries.append(
            Summary(
                **cell._asdict(),
                synthetic=rows[cell][0]["synthetic"],
                mean=means[cell],
                low=mean.low,
                high=mean.high,
                seeds=len(seeds),
                failed=len(rows[cell]) - len(done),
                gap=(means[cell] - floor) / width,
                sees_labels=known[cell].sees_labels,
                best=rival is not None and best is not None and means[cell] == means[best],
                tied=rival is not None and _tied(seeds, rival),
                behind=behind.estimate,
                behind_low=behind.low,
                behind_high=behind.high,
                seconds=math.fsum(done) / len(done) if done else math.nan,
            )
        )
    return summaries


def _gap(by_seed: Mapping[Cell, Mapping[int, float]], means: Mapping[Cell, float]) -> tuple[float, float]:
    """Where the gap between Naive and Oracle begins, and how wide it is; NaN if there is no clear one."""
    named = {cell.method.casefold(): cell for cell in by_seed}
    naive, oracle = named.get("naive"), named.get("oracle")
    if naive is None or oracle is None or _tied(by_seed[naive], by_seed[oracle]):
        return math.nan, math.nan
    width = means[oracle] - means[naive]
    return means[naive], width if width > 0 else math.nan


def _difference(mine: Mapping[int, float], others: Mapping[int, float]) -> Interval | None:
    """The mean difference over the seeds of both with its t-interval; None with fewer than two of them."""
    common = sorted(mine.keys() & others.keys())
    return mean_interval([mine[seed] - others[seed] for seed in common], CONFIDENCE) if len(common) > 1 else None


def _tied(mine: Mapping[int, float], best: Mapping[int, float]) -> bool:
    difference = _difference(mine, best)
    return mine == best or (difference is not None and difference.low <= 0 <= difference.high)


def _is_done(row: Mapping[str, Any]) -> bool:
    return row["status"] == "ok" and row["value"] is not None and math.isfinite(row["value"])


def _by_cell(table: pa.Table) -> dict[Cell, list[dict[str, Any]]]:
    rows: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[Cell(*(row[key] for key in Cell._fields))].append(row)
    return rows


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
    labels = {cell.method.casefold(): cell.method for cell in by_seed}
    for label in (first, second):
        if label.casefold() not in labels:
            raise UsageError(f"there are no results of {label!r}; there are results of {listed(labels.values())}.")
    first, second = labels[first.casefold()], labels[second.casefold()]
    compared = []
    for cell, mine in by_seed.items():
        theirs = by_seed.get(cell._replace(method=second), {})
        common = sorted(mine.keys() & theirs.keys())
        if cell.method == first and len(common) > 1:
            compared.append(_contrast(cell, [(mine[seed], theirs[seed]) for seed in common]))
    if not compared:
        raise DataError(f"{first} and {second} do not have two seeds of one setting in common; run more seeds.")
    return sorted(compared, key=lambda contrast: (contrast.experiment, contrast.data, setting_order(contrast.setting)))


def _contrast(cell: Cell, pairs: Sequence[tuple[float, float]]) -> Contrast:
    from scipy.special import stdtr, stdtrit

    differences = [mine - theirs for mine, theirs in pairs]
    interval = mean_interval(differences, CONFIDENCE)
    degrees = len(pairs) - 1
    error = (interval.high - interval.estimate) / stdtrit(degrees, (1 + CONFIDENCE) / 2)
    certain = 0.0 if interval.estimate else 1.0
    p_value = 2 * float(stdtr(degrees, -abs(interval.estimate) / error)) if error else certain
    first, second = (math.fsum(side) / len(pairs) for side in zip(*pairs, strict=True))
    wins = sum(difference > 0 for difference in differences)
    return Contrast(cell.experiment, cell.data, cell.setting, cell.measure, first, second, interval, p_value, wins)
