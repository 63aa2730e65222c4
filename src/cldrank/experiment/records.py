"""The table of results: one row per finished unit and measure, kept as one small Parquet file per unit.

A folder of an experiment holds `results/`, with a file for every finished unit, and `results.parquet`, all of them in
one file, to pass on. Files appear whole or not at all, and no two units share one, so no lock is needed and nothing
that stops a run can damage what is finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cldrank.arguments import shortened
from cldrank.decoding import check_plain, leaves
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.files import replacing
from cldrank.measures import parse
from cldrank.reading import reading, reason

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

_LARGEST = 1e100  # of a value: its square is still a number
_MOST_ROWS = 5_000_000  # far more than a run may have units; a damaged file can claim any number
_PLACE = ("experiment", "fold", "setting", "method", "seed")  # one unit may have several places


def save_unit(folder: str | PathLike[str], rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write the rows of one finished unit, one per measure, in place of any earlier ones; returns the file."""
    if not rows:
        raise UsageError("a unit has at least one row: one per measure.")
    target = Path(folder) / "results" / _file_name(rows[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as temporary:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA), temporary)
    return target


def load_results(folder: str | PathLike[str]) -> pa.Table:
    """All results in a folder or in a single `.parquet` file; of a unit that was run again, the latest."""
    return latest(load_all_results(folder))


def load_all_results(folder: str | PathLike[str]) -> pa.Table:
    """The same, including those that later ones have replaced."""
    source = Path(folder)
    if not source.exists():
        raise UsageError(f"{source}: there are no results here; no such folder or file.")
    whole = source if source.is_file() else source / "results.parquet"
    found = [_load_file(whole)] if whole.is_file() else []
    if not source.is_file():
        known = _finished_files(found[0]) if found else set()
        files = sorted((source / "results").glob("*.parquet"))
        found += [_load_file(file) for file in files if file.name not in known]
    if not found:
        raise DataError(f"{source}: there are no results here; `cldrank experiment run` writes them.")
    return pa.concat_tables(found)


def has_results(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds any."""
    return (Path(folder) / "results.parquet").exists() or any((Path(folder) / "results").glob("*.parquet"))


def consolidate(folder: str | PathLike[str]) -> Path:
    """Write all results in a folder to its `results.parquet`; returns the file."""
    target = Path(folder) / "results.parquet"
    table = load_results(folder)
    with replacing(target) as temporary:
        pq.write_table(table, temporary)
    return target


def _file_name(row: Mapping[str, Any]) -> str:
    place = hashlib.sha256(json.dumps([row[key] for key in _PLACE]).encode()).hexdigest()[:12]
    return f"{row['unit']}-{place}.parquet"


def _finished_files(table: pa.Table) -> set[str]:
    """The files of the units in a table that succeeded: these never change, so they need not be read again."""
    rows = table.select(["unit", "status", *_PLACE]).to_pylist()
    return {_file_name(row) for row in rows if row["status"] == "ok"}


def _load_file(path: Path) -> pa.Table:
    what = "a table of results"
    with reading(path, what):
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > _MOST_ROWS:
                raise FormatError(f"not {what}: no experiment has {file.metadata.num_rows:,} rows.", path=path)
            whole = file.read()
        whole.validate(full=True)
        names = whole.column_names
        wrong = next((name for name in SCHEMA.names if names.count(name) != 1), None)
        if wrong is not None:
            raise FormatError(
                f"not {what}: {'no' if wrong not in names else 'more than one'} column {wrong}.", path=path
            )
        table = whole.select(SCHEMA.names).cast(SCHEMA)
        pc.min_max(table["finished"]).as_py()  # fails for dates outside the calendar
    for problem in _problems(table):
        raise FormatError(
            f"not {what}: {problem}. If it is damaged, remove it; `cldrank experiment run` computes what is missing.",
            path=path,
        )
    return judged(table)


def judged(table: pa.Table) -> pa.Table:
    """The table, with rows that claim success but have no finite value marked as failed.

    One such value would turn the mean over all seeds into NaN, and every comparison with it.
    """
    empty = pc.invert(pc.fill_null(pc.is_finite(table["value"]), False))
    wrong = pc.and_(pc.equal(table["status"], "ok"), empty)
    if not pc.any(wrong).as_py():
        return table
    value = pc.fill_null(pc.cast(table["value"], pa.string()), "missing")
    reason = pc.binary_join_element_wise(table["measure"], " is ", value, ", although the fit succeeded", "")
    for name, marked in (("status", "failed"), ("error", reason)):
        column = pc.if_else(wrong, marked, table[name])
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


def latest(table: pa.Table) -> pa.Table:
    """One row per place and measure: a unit that was run again replaces what was recorded before.

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


# -- checks: other code relies on them -----------------------------------------------------------------------------


def _problems(table: pa.Table) -> Iterator[str]:
    """What is wrong with the values of a table whose columns and types are right."""
    for name in table.column_names:
        if name != "value" and table[name].null_count:  # a missing value means that the unit failed
            yield f"{name} is missing in row {pc.index(pc.is_null(table[name]), True).as_py()}"
            return
    over = pc.and_(pc.is_finite(table["value"]), pc.greater(pc.abs(table["value"]), _LARGEST))
    ok = pc.equal(table["status"], "ok")
    rules = {
        "status": pc.and_(pc.invert(ok), pc.not_equal(table["status"], "failed")),
        "seed": pc.less(table["seed"], 0),
        "value": pc.fill_null(over, False),
        "seconds": pc.or_(_impossible(table["seconds"]), pc.and_(ok, pc.is_nan(table["seconds"]))),
        "peak_mib": _impossible(table["peak_mib"]),
    }
    for name, wrong in rules.items():
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            yield f"{name} is {shortened(table[name][row].as_py())} in row {row}"
    for name, check in _TEXTS.items():
        for text in pc.unique(table[name]).to_pylist():
            try:
                check(text)
            except (CldrankError, ValueError, RecursionError) as error:
                yield f"{name} {shortened(text)} is not valid ({reason(error)})"
                return


def _impossible(amounts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.or_(pc.less(amounts, 0), pc.greater(amounts, 1e15))


def _check_setting(text: str) -> None:
    check_plain(_parsed(text, dict))


def _check_configuration(text: str) -> None:
    found = _parsed(text, dict)
    for _ in leaves(found):  # not too deep
        pass
    sections = {name: found.get(name, {}) for name in ("data", "production", "simulation", "propensities", "method")}
    sections |= {name: found.get(name, {}) for name in ("tuning", "tuned")}
    if isinstance(sections["method"], dict):
        sections |= {f"method.{name}": sections["method"].get(name, {}) for name in ("parameters", "defaults")}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise ValueError(f"{name} is {shortened(section)}")


def _check_warnings(text: str) -> None:
    if not all(isinstance(entry, str) for entry in _parsed(text, list)):
        raise ValueError("not a list of texts")


def _parsed(text: str, kind: type) -> Any:
    found = json.loads(text)
    json.dumps(found, ensure_ascii=False).encode()  # fails for half a character, which could not be written again
    if not isinstance(found, kind):
        raise ValueError("not a table" if kind is dict else "not a list")  # as json itself raises
    return found


_TEXTS: dict[str, Callable[[str], object]] = {
    "setting": _check_setting,
    "configuration": _check_configuration,
    "warnings": _check_warnings,
    "versions": lambda text: _parsed(text, dict),
    "measure": parse,
}
