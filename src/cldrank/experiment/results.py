"""The table of results: one row a finished unit and measure, kept as one small Parquet file a unit.

A folder of an experiment holds `results/`, with a file for every finished unit, and `results.parquet`, all of them
in one file, for passing on. Files appear whole or not at all, and no two units share one, so that no lock is needed
and nothing that stops a run can harm what is finished.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cldrank.errors import DataError, FormatError, UsageError
from cldrank.experiment.result_checks import problems
from cldrank.files import replacing
from cldrank.measures import Interval, mean_interval, parse
from cldrank.reading import reading

CONFIDENCE = 0.9

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
        "peak_mib": pa.float64(),
        "configuration": pa.string(),
        "data_fingerprint": pa.string(),
        "versions": pa.string(),
        "commit": pa.string(),
        "command": pa.string(),
        "finished": pa.timestamp("us", tz="UTC"),
    }
)

_MOST_ROWS = 5_000_000  # far more than a run may have units; a damaged file can claim any number
_PLACE = ("experiment", "fold", "setting", "method", "seed")  # where a unit stands; one unit may stand in several


# -- the table on disk -------------------------------------------------------------------------------------------


def append(folder: str | PathLike[str], rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the rows of one finished unit, replacing what was recorded of it before; returns the file."""
    if not rows:
        raise UsageError("a unit has at least one row: one per measure.")
    target = Path(folder) / "results" / _file_name(rows[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA), temporary)
    return target


def read(folder: str | PathLike[str]) -> pa.Table:
    """All results in a folder (or in a single `.parquet` file), the latest of each place."""
    return latest(read_all(folder))


def read_all(folder: str | PathLike[str]) -> pa.Table:
    """The same with those that later ones have replaced."""
    source = Path(folder)
    if not source.exists():
        raise UsageError(f"{source}: there are no results here, there is no such folder or file.")
    whole = source if source.is_file() else source / "results.parquet"
    found = [_read_file(whole)] if whole.is_file() else []
    if not source.is_file():
        known = _finished_files(found[0]) if found else set()
        files = sorted((source / "results").glob("*.parquet"))
        found += [_read_file(file) for file in files if file.name not in known]
    if not found:
        raise DataError(f"{source}: there are no results here; `cldrank experiment run` writes them.")
    return pa.concat_tables(found)


def has_any(folder: str | PathLike[str]) -> bool:
    """Whether there is anything to read in a folder."""
    return (Path(folder) / "results.parquet").exists() or any((Path(folder) / "results").glob("*.parquet"))


def consolidate(folder: str | PathLike[str]) -> Path:
    """Write all results in a folder to its `results.parquet`; returns the file."""
    target = Path(folder) / "results.parquet"
    table = read(folder)
    with replacing(target) as temporary:
        pq.write_table(table, temporary)
    return target


def _file_name(row: Mapping[str, Any]) -> str:
    place = hashlib.sha256(json.dumps([row[key] for key in _PLACE]).encode()).hexdigest()[:12]
    return f"{row['unit']}-{place}.parquet"


def _finished_files(table: pa.Table) -> set[str]:
    """The files of the units in a table that went well: those never change, so they need not be read again."""
    rows = table.select(["unit", "status", *_PLACE]).to_pylist()
    return {_file_name(row) for row in rows if row["status"] == "ok"}


def _read_file(path: Path) -> pa.Table:
    what = "a table of results"
    with reading(path, what):
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > _MOST_ROWS:
                raise FormatError(f"not {what}: {file.metadata.num_rows:,} rows are more than any has.", path=path)
            whole = file.read()
        whole.validate(full=True)
        names = whole.column_names
        wrong = next((name for name in SCHEMA.names if names.count(name) != 1), None)
        if wrong is not None:
            raise FormatError(
                f"not {what}: {'no' if wrong not in names else 'more than one'} column {wrong}.", path=path
            )
        table = whole.select(SCHEMA.names).cast(SCHEMA)
        pc.min_max(table["finished"]).as_py()  # dates that no calendar has
    for problem in problems(table):
        raise FormatError(
            f"not {what}: {problem}. If it is damaged, remove it; `cldrank experiment run` computes again what is then "
            "missing.",
            path=path,
        )
    return judged(table)


def judged(table: pa.Table) -> pa.Table:
    """The table with those rows failed, and why, that claim to have gone well but have no finite value.

    One such value would make the mean over all seeds, and what is told of other methods by it, as empty as itself.
    """
    empty = pc.invert(pc.fill_null(pc.is_finite(table["value"]), False))
    wrong = pc.and_(pc.equal(table["status"], "ok"), empty)
    if not pc.any(wrong).as_py():
        return table
    value = pc.fill_null(pc.cast(table["value"], pa.string()), "missing")
    reason = pc.binary_join_element_wise(table["measure"], " is ", value, ", although the fit went well", "")
    for name, marked in (("status", "failed"), ("error", reason)):
        column = pc.if_else(wrong, marked, table[name])
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


def latest(table: pa.Table) -> pa.Table:
    """One row a place and measure: a unit that was run again replaces what was recorded before.

    Sorted by place; the measures of a unit stay in their order.
    """
    keys = ("data", *_PLACE, "measure")
    rows = list(zip(*(table[key].to_pylist() for key in keys), strict=True))
    finished = table["finished"].to_pylist()
    newest: dict[tuple[Any, ...], int] = {}
    for index, key in enumerate(rows):
        if key not in newest or finished[index] >= finished[newest[key]]:
            newest[key] = index
    order = sorted(newest.values(), key=lambda index: (rows[index][:-1], index))
    return table.take(pa.array(order, pa.int64()))


# -- what it says ------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """What a mean is taken for."""

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
    seeds       how many seeds finished, all folds of them
    failed      how many units failed, or came out without a value
    gap         the share of the way from Naive to Oracle: 0 is Naive, 1 is Oracle; NaN where either is missing, or
                where Oracle is not surely better than Naive (by the same test as `tied`)
    best        whether no method that learns from clicks (all but Oracle) has a better mean
    tied        whether a paired t-test over seeds cannot tell it from the best: the 90% t-interval of the difference
                holds 0. The best itself is tied too
    seconds     mean time of a fit
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
    best: bool
    tied: bool
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

        >>> row = Summary("table1", "msrd", False, "{}", "CLD", "AP", .5, .4, .6, 5, 0, .9, True, True, 1.0, 300.0)
        >>> print(row.interval)
        0.500 ± 0.100
        """
        if math.isnan(self.low):
            return None
        return Interval(self.mean, self.low, self.high, CONFIDENCE, self.seeds)

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
    facts = _facts(table)
    groups: dict[tuple[str, str, str, str], list[Cell]] = defaultdict(list)
    for cell in by_seed:
        groups[cell.experiment, cell.data, cell.setting, cell.measure].append(cell)
    measures = list(dict.fromkeys(table["measure"].to_pylist()))
    found: list[Summary] = []
    for group in sorted(groups, key=lambda key: (key[0], key[1], setting_order(key[2]), measures.index(key[3]))):
        cells = sorted(groups[group], key=lambda cell: method_order(cell.method))
        found += _summarise({cell: by_seed[cell] for cell in cells}, facts)
    return found


def setting_order(setting: str) -> list[Any]:
    """A key that sorts settings by their values, numbers as numbers.

    >>> sorted(['{"simulation.cutoff": 10}', '{"simulation.cutoff": 2}'], key=setting_order)
    ['{"simulation.cutoff": 2}', '{"simulation.cutoff": 10}']
    """
    values = sorted(json.loads(setting).items())
    return [
        (key, 0, value, "")
        if isinstance(value, int | float)
        else (key, 1, 0, value if isinstance(value, str) else json.dumps(value))
        for key, value in values
    ]


def method_order(label: str) -> tuple[int, str]:
    """A key that sorts methods as the paper lists them, then others by name, Oracle last.

    >>> sorted(["Oracle", "CLD", "mine", "Naive"], key=method_order)
    ['Naive', 'CLD', 'mine', 'Oracle']
    """
    from cldrank.experiment.methods import find

    kind = find(label)
    return (0 if kind is None else len(kind.corrects) + 9 * (kind.needs == "labels")), label.casefold()


def _summarise(by_seed: Mapping[Cell, Mapping[int, float]], facts: Mapping[Cell, dict[str, Any]]) -> list[Summary]:
    """The methods of one setting by one measure."""
    higher = parse(next(iter(by_seed)).measure).higher_is_better
    means = {cell: math.fsum(seeds.values()) / len(seeds) if seeds else math.nan for cell, seeds in by_seed.items()}
    named = {cell.method.casefold(): cell for cell in by_seed}
    floor, way = _way(named.get("naive"), named.get("oracle"), by_seed, means, higher)
    rivals = [cell for cell in by_seed if cell.method.casefold() != "oracle" and by_seed[cell]]
    best = max(rivals, key=lambda cell: means[cell] if higher else -means[cell], default=None)
    return [
        Summary(
            **cell._asdict(),
            mean=means[cell],
            **_bounds(seeds),
            seeds=len(seeds),
            gap=(means[cell] - floor) / way,
            best=best is not None and cell in rivals and means[cell] == means[best],
            tied=best is not None and cell in rivals and _tied(seeds, by_seed[best]),
            **facts[cell],
        )
        for cell, seeds in by_seed.items()
    ]


def _way(
    naive: Cell | None,
    oracle: Cell | None,
    by_seed: Mapping[Cell, Mapping[int, float]],
    means: Mapping[Cell, float],
    higher: bool,
) -> tuple[float, float]:
    """Where the way from Naive to Oracle begins, and how long it is; NaN where there is none to speak of."""
    if naive is None or oracle is None or _tied(by_seed[naive], by_seed[oracle]):
        return math.nan, math.nan
    way = means[oracle] - means[naive]
    return means[naive], way if way and (way > 0) == higher else math.nan


def _bounds(seeds: Mapping[int, float]) -> dict[str, Any]:
    if len(seeds) < 2:
        return {"low": math.nan, "high": math.nan}
    interval = mean_interval(list(seeds.values()), CONFIDENCE)
    return {"low": interval.low, "high": interval.high}


def _tied(mine: Mapping[int, float], best: Mapping[int, float]) -> bool:
    if mine == best:
        return True
    common = sorted(mine.keys() & best.keys())
    if len(common) < 2:
        return False
    interval = mean_interval([mine[seed] - best[seed] for seed in common], CONFIDENCE)
    return interval.low <= 0 <= interval.high


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
