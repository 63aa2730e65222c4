"""`Engine`: what every engine can do, as far as it does not depend on which one it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.log.engines.limits import MOST_NAMED, check_interrupted, is_exhausted
from cldrank.clicks.log.nested import root_of
from cldrank.clicks.log.parts import LogPart, log_parts, partition_keys, union
from cldrank.clicks.log.paths import LogFrame, LogSource
from cldrank.errors import CldrankError, DataError, UsageError
from cldrank.reading import reading, reason
from cldrank.wording import some

if TYPE_CHECKING:
    import ibis
    import ibis.expr.types as ir
    import pyarrow as pa

INSTANT = "timestamp('UTC')"  # what names its time zone, or is known to be UTC


class Engine(ABC):
    """Something that can open log files as Ibis tables; files that are `left_out` it does not look at."""

    left_out: frozenset[Path] = frozenset()

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    def read(self, part: LogPart) -> ir.Table:
        """The rows of the files of a part: of exactly these, whatever characters their names contain."""

    def open(
        self, paths: Sequence[LogSource], choose: Callable[[Sequence[str]], Iterable[str]] | None = None
    ) -> ir.Table:
        """All files, and all files in folders, as one table; `choose` picks the columns that are wanted.

        The parts only have to agree on those (see `cldrank.clicks.log.parts`). Folders such as `day=1` below one that
        is named are columns too. A frame is the only part.
        """
        if isinstance(paths[0], LogFrame):
            return self._open_frame(paths[0], choose or (lambda columns: columns))
        files = [path for path in paths if isinstance(path, Path)]
        parts = [(part, self._read(part)) for part in log_parts(files, (), self.left_out)]
        keys = partition_keys(files, self.left_out)
        columns = list(dict.fromkeys([*(name for _, table in parts for name in table.columns), *keys]))
        wanted = columns if choose is None else list(choose(columns))
        kept_apart = [key for key in keys if key in wanted]
        if kept_apart:
            parts = [(part, self._read(part)) for part in log_parts(files, kept_apart, self.left_out)]
        return union(parts, wanted)

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """Whether it is cheap to prove that no (first, second) repeats, and true. False proves nothing."""
        del rows, first, second
        return False

    def repeated(self, rows: ir.Table, columns: Sequence[str], n: int) -> tuple[ir.Table, int] | None:
        """Values of some columns that may repeat among n rows, and how many rows lack one of them.

        All that repeat are there, and a few that do not may be; rows that lack a value are not looked at. None where
        this is not cheaper than grouping.
        """
        del rows, columns, n
        return None

    def _open_frame(self, log: LogFrame, choose: Callable[[Sequence[str]], Iterable[str]]) -> ir.Table:
        """The columns of a frame that are wanted, as Arrow holds them, or as a table where they are."""
        there = log.table_in(self.connection)
        if there is not None:
            return there.select(*_roots(there.columns, choose))
        from cldrank.data.frames import FramePart, frame_columns, is_lazy

        wanted = _roots(frame_columns(log.frame), choose)
        part = FramePart(log.frame, wanted) if is_lazy(log.frame) else log.part
        with reading(str(log), f"a table that {self.connection.name} can read"):
            return self.in_memory(part.table(wanted))

    def in_memory(self, table: pa.Table) -> ir.Table:
        """An Arrow table, which the engine reads where it lies if it can."""
        import ibis

        return ibis.memtable(table)

    # -- for logs of other programs, see `cldrank.clicks.imports` ----------------------------------------------------

    saves_folders = False  # whether `save` writes a folder of parts instead of a file

    def open_each(self, paths: Sequence[Path], schema: ibis.Schema) -> list[tuple[LogPart, ir.Table]]:
        """The parts of all files; JSON with the fields and types of a schema, without a look at all values first."""
        return [(part, self._read(part, schema)) for part in log_parts(paths)]

    def read_as(self, part: LogPart, schema: ibis.Schema) -> ir.Table:
        """The rows of a part, where its format allows it with the fields and types of a schema; others are null."""
        del schema
        return self.read(part)

    def keyed(self, rows: ir.Table, name: str) -> ir.Table:
        """A table that is held, with a column `key`: short, where the engine has something short, or the id `name`."""
        return rows.mutate(key=rows[name])

    @contextmanager
    def streaming_left(self) -> Iterator[None]:
        """Joins in which the table on the left is read only once and never held; the one on the right is held."""
        yield

    def differ(self, rows: ir.Table, columns: Sequence[str]) -> bool:
        """Whether it is cheap to prove that no two rows agree in some columns, and true. False proves nothing."""
        del rows, columns
        return False

    def lines(self, files: Sequence[Path]) -> ir.Table:
        """The lines of text files, and a number that grows from line to line of a file."""
        raise UsageError(f"{some(files, MOST_NAMED)}: lines of text are read by DuckDB and Spark only.")

    def save(self, rows: ir.Table, path: Path) -> None:
        """Write a table as Parquet, without holding it in memory."""
        import pyarrow.parquet as pq

        batches = rows.to_pyarrow_batches()
        with pq.ParquetWriter(path, batches.schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)

    def _read(self, part: LogPart, schema: ibis.Schema | None = None) -> ir.Table:
        try:
            return self.read(part) if schema is None else self.read_as(part, schema)
        except Exception as error:  # every engine has its own exceptions
            if isinstance(error, CldrankError) or is_exhausted(error):
                raise
            check_interrupted(error)
            files = some(part.files, MOST_NAMED)
            raise DataError(f"{files} cannot be read as {part.form} ({reason(error)}).") from error


def _roots(columns: Sequence[str], choose: Callable[[Sequence[str]], Iterable[str]]) -> list[str]:
    """The columns that are wanted, or that hold the fields that are."""
    return list(dict.fromkeys(root_of(columns, path) or path for path in choose(columns)))
