"""The table of results, a row per finished unit and measure, and the means over seeds."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.errors import DataError, UsageError
from cldrank.experiment.makers import method_order, sees_labels
from cldrank.files import replacing
from cldrank.measures import Interval, mean_interval, parse
from cldrank.reading import reading

CONFIDENCE = 0.9
PLACE = ("experiment", "data", "fold", "setting", "method", "seed")
_COLUMNS = (
    "experiment", "unit", "data", "synthetic", "fold", "setting", "method", "seed", "measure", "value", "status",
    "error", "warnings", "seconds", "configuration", "data_fingerprint", "versions", "commit", "command", "finished",
)  # fmt: skip
_OTHERS = {  # than text
    "synthetic": pa.bool_(),
    "seed": pa.int64(),
    "value": pa.float64(),
    "seconds": pa.float64(),
    "finished": pa.timestamp("us", tz="UTC"),
}
SCHEMA = pa.schema(dict.fromkeys(_COLUMNS, pa.string()) | _OTHERS)
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
    """Identifies a mean over seeds."""

    experiment: str
    data: str
    setting: str
    method: str
    measure: str


@dataclass(frozen=True)
class Summary:
    """A method in a setting by a measure: the mean over seeds with its t-interval.

    setting     the varied keys and their values as JSON; `varied` gives them as a dictionary
    mean        over seeds; folds are averaged within a seed first. NaN if no seed finished
    low, high   the 90% t-interval; NaN with fewer than two seeds
    seeds       the number of seeds of which all folds finished
    failed      the number of units that failed or have no value
    sees_labels whether it learns from labels, as Oracle does; such a method is neither best nor tied
    best        whether no method that sees no labels has a better mean; none is, with fewer than two seeds
    tied        whether a paired t-test over seeds cannot tell it from the best: the 90% t-interval of the difference
                contains 0. The best itself is tied too
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
    sees_labels: bool
    best: bool
    tied: bool
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
        """As plain values, ready for JSON."""
        return asdict(self)


def _per_seed(by_cell: Mapping[Cell, Sequence[Mapping[str, Any]]]) -> dict[Cell, dict[int, float]]:
    """The value of each seed; folds are averaged, and a seed counts only when all its folds have finished."""
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
    rows: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[Cell(*(row[key] for key in Cell._fields))].append(row)
    by_seed = _per_seed(rows)
    configurations = {cell: json.loads(own[-1]["configuration"]) for cell, own in rows.items()}
    measures = list(dict.fromkeys(table["measure"].to_pylist()))
    groups: dict[Cell, dict[Cell, dict[int, float]]] = defaultdict(dict)
    for cell in sorted(by_seed, key=lambda cell: method_order(cell.method, configurations[cell])):
        groups[cell._replace(method="")][cell] = by_seed[cell]

    def place(group: Cell) -> tuple[Any, ...]:
        return group.experiment, group.data, setting_order(group.setting), measures.index(group.measure)

    labelled = {cell for cell, configuration in configurations.items() if sees_labels(configuration)}
    return [cell for group in sorted(groups, key=place) for cell in _summarise(groups[group], rows, labelled)]


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
    labelled: Collection[Cell],
) -> list[Summary]:
    """The methods of a setting by a measure; `labelled` cells are of methods that learn from labels."""
    means = {cell: math.fsum(seeds.values()) / len(seeds) if seeds else math.nan for cell, seeds in by_seed.items()}
    rivals = [cell for cell, seeds in by_seed.items() if cell not in labelled and len(seeds) > 1]
    best = max(rivals, key=means.__getitem__, default=None)
    unknown = Interval(math.nan, math.nan, math.nan, CONFIDENCE, 0)
    summaries = []
    for cell, seeds in by_seed.items():
        mean = mean_interval(list(seeds.values()), CONFIDENCE) if len(seeds) > 1 else unknown
        rival = by_seed[best] if best is not None and cell in rivals else None
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
                sees_labels=cell in labelled,
                best=rival is not None and best is not None and means[cell] == means[best],
                tied=rival is not None and _tied(seeds, rival),
                seconds=math.fsum(done) / len(done) if done else math.nan,
            )
        )
    return summaries


def _tied(mine: Mapping[int, float], best: Mapping[int, float]) -> bool:
    """Whether the differences over the seeds of both cannot be told from 0; not with fewer than two of them."""
    common = sorted(mine.keys() & best.keys())
    if mine == best or len(common) < 2:
        return mine == best
    difference = mean_interval([mine[seed] - best[seed] for seed in common], CONFIDENCE)
    return difference.low <= 0 <= difference.high


def _is_done(row: Mapping[str, Any]) -> bool:
    return row["status"] == "ok" and row["value"] is not None and math.isfinite(row["value"])
