"""Score files, written piece by piece: Parquet, CSV, and runs as TREC has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cldrank.errors import DataError, UsageError

_GROUP_ROWS = 1 << 16  # of a row group: smaller ones would make the file's own index grow


class ScoreWriter(ABC):
    """Writes tables, one after the other, to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Append some rows."""

    @abstractmethod
    def close(self) -> None:
        """Write what is left."""


class ParquetScores(ScoreWriter):
    """A Parquet file with the columns of the first table."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []

    def write(self, table: pa.Table) -> None:
        """Append some rows; they are kept until they fill a row group."""
        self._waiting.append(table)
        if sum(map(len, self._waiting)) >= _GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the index."""
        self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        table, self._waiting = pa.concat_tables(self._waiting), []
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema, compression="zstd", compression_level=1)
        self._writer.write_table(table, row_group_size=len(table) or 1)


class CsvScores(ScoreWriter):
    """A CSV file with a header; text is in quotes, numbers are written so that they read back equal."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Append some rows."""
        if self._writer is None:
            self._writer = pyarrow.csv.CSVWriter(self._path, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write what is buffered."""
        if self._writer is not None:
            self._writer.close()


class RunScores(ScoreWriter):
    """A run: `query Q0 document rank score tag` in each line, separated by spaces."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = path.open("wb")

    def write(self, table: pa.Table) -> None:
        """Append some rows; refused where a document has no id, or an id holds a space."""
        if "doc_id" not in table.column_names:
            raise DataError("a run names documents, and these data have no document ids; write .parquet or .csv.")
        text = {name: table.column(name).cast(pa.string()) for name in ("query_id", "doc_id", "rank", "score")}
        for name in ("query_id", "doc_id"):
            bad = pc.index(pc.match_substring_regex(text[name], r"^$|\s"), True).as_py()
            if bad >= 0:
                raise DataError(
                    f"the {name} {text[name][bad].as_py()!r} cannot stand in a run, whose columns are separated by "
                    "spaces; write .parquet or .csv."
                )
        lines = pc.binary_join_element_wise(
            text["query_id"], "Q0", text["doc_id"], text["rank"], text["score"], "cldrank\n", " "
        )
        for chunk in lines.chunks:
            self._file.write(pc.binary_join(pa.array([chunk.to_pylist()], pa.list_(pa.string())), "")[0].as_buffer())

    def close(self) -> None:
        """Write what is buffered."""
        self._file.close()


_WRITERS: dict[str, type[ScoreWriter]] = {
    ".parquet": ParquetScores,
    ".pq": ParquetScores,
    ".csv": CsvScores,
    ".run": RunScores,
    ".trec": RunScores,
}


def writer_for(path: Path) -> type[ScoreWriter]:
    """The writer of the format that the name of a file says.

    >>> writer_for(Path("scores.csv")).__name__
    'CsvScores'
    """
    if path.suffix not in _WRITERS:
        raise UsageError(f"{path}: the file to write must end in .parquet, .csv, or .run or .trec for a run.")
    return _WRITERS[path.suffix]
