"""One log, aggregated segment by segment: the pages of phones and of desktops each by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cldrank.clicks.aggregate import Aggregation, aggregate
from cldrank.clicks.engines import Engine, connected, reading
from cldrank.clicks.log import Paths, existing, listed
from cldrank.clicks.parts import Batch
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError

if TYPE_CHECKING:
    import ibis.expr.types as ir

MOST_SEGMENTS = 100
MISSING = "(missing)"  # the segment of rows that name none


class Part(Engine):
    """Another engine, but of each table only the rows with one value in a column."""

    def __init__(self, whole: Engine, column: str, value: Any) -> None:
        super().__init__(whole.connection)
        self.whole, self.column, self.value = whole, column, value
        self.part = f"{column}={MISSING if value is None else value}"

    def read(self, batch: Batch) -> ir.Table:
        """As the whole engine reads."""
        return self.whole.read(batch)

    def open(self, paths: Sequence[Path], choose: Callable[[Sequence[str]], Iterable[str]] | None = None) -> ir.Table:
        """All files as one table."""
        return self._of(self.whole.open(paths, choose and (lambda columns: [*choose(columns), self.column])))

    def rises(self, rows: ir.Table, first: str, second: str) -> bool:
        """As the whole engine proves it."""
        return self.whole.rises(rows, first, second)

    def _of(self, table: ir.Table) -> ir.Table:
        column = table[self.column]
        return table.filter(column.isnull() if self.value is None else column == self.value)


def aggregate_segments(
    paths: Paths,
    column: str,
    dataset: RankingDataset | None = None,
    *,
    engine: str | Any = "duckdb",
    memory_limit: str = "3GB",
    threads: int | None = None,
    master: str = "local[*]",
    **options: Any,
) -> dict[str, Aggregation]:
    r"""Aggregate the rows of each value of a column by themselves; any column of the log will do.

    `options` are those of `cldrank.clicks.aggregate.aggregate`, for each segment alike. Each costs a pass over the log.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "log.csv"
    ...     _ = path.write_text(
    ...         "device,session_id,query_id,doc_id,position,clicked\n"
    ...         "phone,1,shoes,a,1,0\nphone,1,shoes,b,2,1\ndesktop,2,shoes,a,1,1\n"
    ...     )
    ...     found = aggregate_segments(path, "device")
    >>> {name: int(part.clicks.impressions.sum()) for name, part in found.items()}
    {'desktop': 1, 'phone': 2}
    """
    files = existing(paths)
    with connected(engine, memory_limit=memory_limit, threads=threads, master=master) as opened:
        values = _values(opened, files, column)
        return {
            MISSING if value is None else str(value): aggregate(
                files, dataset, engine=Part(opened, column, value), **options
            )
            for value in values
        }


def _values(engine: Engine, files: list[Path], column: str) -> list[Any]:
    """What the column holds, in order; too many different values are no segments."""

    def choose(columns: Sequence[str]) -> list[str]:
        if column not in columns:
            raise FormatError(f"there is no column {column!r} to tell segments by; {listed(columns)}.", path=files[0])
        return [column]

    table = engine.open(files, choose)
    with reading(files):
        found = table.select(column).distinct().limit(MOST_SEGMENTS + 1).to_pyarrow()[column].to_pylist()
    if len(found) > MOST_SEGMENTS:
        raise DataError(
            f"column {column!r} has more than {MOST_SEGMENTS} values; segments are few, such as devices or surfaces."
        )
    return sorted(found, key=lambda value: (value is None, str(value)))
