"""The texts of queries, for tools that search by text and know no ids."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from cldrank.data import checks
from cldrank.errors import FormatError
from cldrank.reading import reading

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("query_id", "query_text")


def read_query_texts(path: str | PathLike[str]) -> dict[str, str]:
    r"""The text of each query id, from a CSV file with a header, or from Parquet: columns query_id and query_text.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "queries.csv"
    ...     _ = file.write_text('query_id,query_text\n7,"red shoes, size 39"\n')
    ...     read_query_texts(file)
    {'7': 'red shoes, size 39'}
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    file = Path(path)
    checks.check_file(file)
    with reading(file, "a readable file of query texts"):
        if file.suffix in (".parquet", ".pq"):
            table = pq.read_table(file)
        else:
            as_texts = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()), strings_can_be_null=False
            )
            lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
            table = pyarrow.csv.read_csv(file, convert_options=as_texts, parse_options=lines)
        names = table.column_names
    for column in COLUMNS:
        number = names.count(column)
        if number != 1:
            there = f"there are {number} columns" if number else "there is no column"
            raise FormatError(f"{there} {column!r}; query texts are in {' and '.join(COLUMNS)}.", path=file)
        if table[column].null_count:
            raise FormatError(f"column {column!r} has null entries.", path=file)
    ids, texts = (_words(table, column, file) for column in COLUMNS)
    found: dict[str, str] = {}
    for one, text in zip(ids, texts, strict=True):
        if found.setdefault(one, text) != text:
            raise FormatError(f"query {one} has two texts, {found[one]!r} and {text!r}.", path=file)
    if not found:
        raise FormatError("there are no query texts.", path=file)
    return found


def _words(table: pa.Table, column: str, path: Path) -> list[str]:
    """A column as texts."""
    import pyarrow as pa

    kind = table[column].type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise FormatError(f"column {column!r} holds {kind}, not text or whole numbers.", path=path)
    with reading(path, "a readable file of query texts"):
        found: list[str] = table[column].cast(pa.string()).to_pylist()
    return found
