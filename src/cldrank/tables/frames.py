"""DataFrames as tables: pandas, Polars, Arrow, DuckDB, Spark and whatever else narwhals knows."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from cldrank.errors import FormatError
from cldrank.reading import reading

if TYPE_CHECKING:
    import pyarrow as pa


def is_frame(source: Any) -> bool:
    """Whether something is a frame: a table that names its columns, in memory or yet to be computed."""
    import numpy as np

    if source is None or isinstance(source, str | bytes | PathLike | Sequence | Mapping | np.ndarray | numbers.Number):
        return False
    import narwhals.stable.v2 as nw

    known = _narwhals(source)
    return known is None or isinstance(known, nw.DataFrame | nw.LazyFrame)


def frame_name(frame: Any) -> str:
    """What messages call a frame."""
    import narwhals.stable.v2 as nw

    kind = type(nw.to_native(frame, pass_through=True))
    return f"the {kind.__module__.partition('.')[0]} {kind.__name__}"


def frame_columns(frame: Any) -> list[str]:
    """The names of the columns of a frame, none of them twice."""
    import narwhals.stable.v2 as nw

    native = native_frame(frame)
    return [str(name) for name in nw.from_native(native).collect_schema().names()]


def is_lazy(frame: Any) -> bool:
    """Whether a frame is yet to be computed."""
    import narwhals.stable.v2 as nw

    return isinstance(_narwhals(frame), nw.LazyFrame)


def is_spark_frame(frame: Any) -> bool:
    """Whether a frame is Spark's."""
    return type(frame).__module__.startswith("pyspark.")


def arrow_table(frame: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """A frame as an Arrow table, all of it or some columns; lazy frames are computed.

    Columns share memory with the frame where its library allows that. An index of pandas is not a column.
    """
    import narwhals.stable.v2 as nw

    native = native_frame(frame)
    with reading(frame_name(frame), "a table that Arrow can hold"):
        known = nw.from_native(native)
        chosen = known if columns is None else known.select(*columns)
        eager = chosen.collect() if isinstance(chosen, nw.LazyFrame) else chosen
        table: pa.Table = eager.to_arrow()
    return table.select(range(len(eager.columns)))  # an index of pandas comes after them


def native_frame(frame: Any) -> Any:
    """A frame as its own library has it; names that occur twice or hold a null character are refused."""
    native = _native(frame)
    if hasattr(native, "collect_schema"):
        columns = native.collect_schema()
    else:
        columns = getattr(native, "column_names", None) or list(getattr(native, "columns", ()))
    names = [str(column) for column in columns]
    for place, column in enumerate(names):
        if column in names[:place] or "\0" in column:
            problem = f"column {column!r} appears more than once or has a null character; rename it."
            raise FormatError(problem, path=frame_name(frame))
    return native


def _native(source: Any) -> Any:
    """A frame as its own library has it, a batch of Arrow as a table; anything else as it is."""
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    native = nw.to_native(source, pass_through=True)
    return pa.Table.from_batches([native]) if isinstance(native, pa.RecordBatch) else native


def _narwhals(source: Any) -> Any:
    """A frame as narwhals has it, or None if it has a name twice; anything else as it is."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(_native(source), pass_through=True)
    except DuplicateError:
        return None
