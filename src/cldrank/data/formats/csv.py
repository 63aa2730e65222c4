"""CSV files of candidates: a header with the names of the columns, then one row per candidate."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.lines import open_bytes
from cldrank.data.formats.parquet import checked_dataset
from cldrank.data.formats.parquet_columns import ColumnNames
from cldrank.data.frames import FramePart
from cldrank.errors import FormatError, UsageError
from cldrank.reading import reading

_DELIMITERS = ",\t;|"
_LONGEST_HEADER = 1 << 20


def csv_header(path: Path) -> tuple[tuple[str, ...], str]:
    r"""The names in the first line of a CSV file, and the delimiter between them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "log.csv").write_text('query_id;"title; match"\n1;0.5\n')
    ...     csv_header(Path(folder) / "log.csv")
    (('query_id', 'title; match'), ';')
    """
    with open_bytes(path) as file, reading(path, "a CSV file"):
        start = file.read(_LONGEST_HEADER).decode("utf-8-sig", errors="replace").lstrip("\r\n")
    line = start.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=line.count)
    with reading(path, "a CSV file"):
        names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
    if not names:
        raise FormatError("the file is empty; a CSV file begins with the names of its columns.", path=path)
    return tuple(names), delimiter


def read_csv(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    columns: ColumnNames | None = None,
    missing: Missing = None,
    name: str = "",
) -> RankingDataset:
    r"""Read one CSV file, or one data set split into several; the options are those of `read_parquet`.

    Ids are whole numbers only if every one of them is written as such: 007 makes all of them text, and stays 007.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "x.csv").write_text("query_id,doc_id,bm25\n007,a,1.5\n8,b,2\n")
    ...     read_csv(Path(folder) / "x.csv").query_ids.tolist()
    ['007', '8']
    """
    listed = [Path(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]
    if not listed:
        raise UsageError("there is nothing to read: no CSV file was named.")
    ids = [str((columns or {}).get(role, role)) for role in ("query_id", "doc_id")]
    tables = [_table(path, ids) for path in listed]
    for column in ids:
        tables = _with_numbers(tables, column)
    parts = [CsvPart(path, table) for path, table in zip(listed, tables, strict=True)]
    return checked_dataset(parts, columns, missing, name)


class CsvPart(FramePart):
    """A CSV file, once it is read."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        super().__init__(table)
        self.path = path


def _table(path: Path, ids: Sequence[str]) -> pa.Table:
    """All columns, those of ids as text; an empty id is null."""
    names, delimiter = csv_header(path)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise FormatError(f"column {twice[0]!r} appears more than once; names must be unique.", path=path)
    with open_bytes(path) as file, reading(path, "a CSV file"):
        table = arrow_csv.read_csv(
            file,
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(ids, pa.large_string())),
        )
        columns = {name: _plain(table[name], name in ids) for name in table.column_names}
    return pa.table(columns)


def _plain(values: pa.ChunkedArray, are_ids: bool) -> pa.ChunkedArray:
    """Ids with nulls where they are empty; a column without any value is one of numbers, all missing."""
    if are_ids:
        return pc.if_else(pc.equal(values, ""), None, values)
    return values.cast(pa.float32()) if pa.types.is_null(values.type) else values


def _with_numbers(tables: Sequence[pa.Table], column: str) -> list[pa.Table]:
    """The tables with a column of text as whole numbers, where each is written just as the number would be."""
    found: list[pa.Table] = []
    for table in tables:
        if column not in table.column_names:
            return list(tables)
        text = table[column]
        try:
            numbers = text.cast(pa.int64())
        except pa.ArrowInvalid:
            return list(tables)
        if not pc.all(pc.equal(numbers.cast(pa.large_string()), text)).as_py():
            return list(tables)
        found.append(table.set_column(table.column_names.index(column), column, numbers))
    return found
