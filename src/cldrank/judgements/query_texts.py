"""The texts of queries, for tools that search by text and know no ids."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from cldrank.data import checks
from cldrank.errors import FormatError
from cldrank.reading import reading

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
            texts = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()), strings_can_be_null=False
            )
            lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
            table = pyarrow.csv.read_csv(file, convert_options=texts, parse_options=lines)
    for column in COLUMNS:
        if table.column_names.count(column) != 1:
            number = table.column_names.count(column)
            what = f"there are {number} columns {column!r}" if number else f"there is no column {column!r}"
            raise FormatError(f"{what}; query texts are in {' and '.join(COLUMNS)}.", path=file)
        if table[column].null_count:
            raise FormatError(f"column {column!r} has null entries.", path=file)
    ids, texts = (table[column].cast(pa.string()).to_pylist() for column in COLUMNS)
    found: dict[str, str] = {}
    for one, text in zip(ids, texts, strict=True):
        if found.setdefault(one, text) != text:
            raise FormatError(f"query {one} has two texts, {found[one]!r} and {text!r}.", path=file)
    return found
