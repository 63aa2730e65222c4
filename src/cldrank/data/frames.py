"""DataFrames: pandas, Polars, Arrow and whatever else narwhals knows. A frame becomes Arrow columns, on demand.

From there on it goes the way of a Parquet file: `FramePart` stands where `ParquetPart` does. An index is not a column.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.parquet import checked_dataset, feature_table
from cldrank.data.formats.parquet_columns import ColumnNames, Roles, TablePart, check_numeric
from cldrank.errors import FormatError, UsageError
from cldrank.reading import reading, reason
from cldrank.wording import some

_KINDS = {
    "PANDAS": "the pandas DataFrame",
    "POLARS": "the Polars DataFrame",
    "PYARROW": "the Arrow table",
    "DUCKDB": "the DuckDB relation",
    "PYSPARK": "the Spark DataFrame",
    "IBIS": "the Ibis table",
}
_FLOAT32 = np.dtype(np.float32)


def is_frame(source: Any) -> bool:
    """Whether something is a frame: a table that names its columns, in memory or yet to be computed.

    >>> is_frame(pa.table({"a": [1]})), is_frame(np.eye(2)), is_frame("train.parquet"), is_frame({"a": [1]})
    (True, False, False, False)
    """
    if source is None or isinstance(source, str | bytes | PathLike | Sequence | Mapping | np.ndarray | numbers.Number):
        return False
    if isinstance(source, pa.RecordBatch):
        return True
    try:
        return isinstance(_known(source), nw.DataFrame | nw.LazyFrame)
    except DuplicateError:
        return True


def _known(source: Any) -> Any:
    """A frame as narwhals has it; anything else as it is."""
    return nw.from_native(nw.to_native(source, pass_through=True), pass_through=True)


def frame_name(source: Any) -> str:
    """What to call a frame in messages.

    >>> frame_name(pa.table({"a": [1]}))
    'the Arrow table'
    """
    try:
        known = _known(source)
    except DuplicateError:
        known = None
    kind = known.implementation.name if isinstance(known, nw.DataFrame | nw.LazyFrame) else ""
    name = _KINDS.get(kind, f"the {type(source).__name__}")
    return name.replace("DataFrame", "LazyFrame") if kind == "POLARS" and isinstance(known, nw.LazyFrame) else name


def frame_columns(source: Any) -> list[str]:
    """The names of the columns of a frame; a lazy one is not computed for that."""
    native = nw.to_native(source, pass_through=True)
    if isinstance(native, pa.RecordBatch):
        return list(native.schema.names)
    try:
        return [str(name) for name in nw.from_native(native).collect_schema().names()]
    except DuplicateError:
        return list(checks.column_names(native) or ())


class FramePart(TablePart):
    """A frame, whose columns are converted when they are asked for; a lazy one is computed first."""

    readable = "a table that Arrow can hold"

    def __init__(self, source: Any, columns: Sequence[str] | None = None) -> None:
        """Of a lazy frame, only `columns` are computed where they are named."""
        self.path = frame_name(source)
        native = nw.to_native(source, pass_through=True)
        if isinstance(native, pa.RecordBatch):
            native = pa.Table.from_batches([native])
        try:
            with reading(self.path, self.readable):
                frame = nw.from_native(native)
                if isinstance(frame, nw.LazyFrame):
                    frame = (frame if columns is None else frame.select(*columns)).collect()
                self._frame = frame
        except FormatError as error:
            twice = _first_twice(checks.column_names(native) or ())
            if twice is None:
                raise
            raise FormatError(
                f"column {twice!r} appears more than once; names must be unique.", path=self.path
            ) from error
        if odd := [name for name in self.names if "\0" in name]:  # Polars would end the process
            raise FormatError(
                f"a column is called {odd[0]!r}; rename it: names are without null characters.", path=self.path
            )
        self._converted: dict[str, pa.ChunkedArray] = {}

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of all columns, as text."""
        return [str(name) for name in self._frame.columns]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._frame)

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """What an Arrow table from a file of ours notes about the data; other frames note nothing."""
        native = self._frame.to_native()
        return (native.schema.metadata or {}) if isinstance(native, pa.Table) else {}

    def hint(self, column: str) -> str:
        """Whether the column is a level of a pandas index."""
        levels = getattr(getattr(self._frame.to_native(), "index", None), "names", ())
        return f" {column!r} is a level of its index; reset_index() makes it a column." if column in levels else ""

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns, batch by batch; numbers are converted only then, all else once."""
        if not all(self._series(column).dtype.is_numeric() for column in columns):
            yield from self.table(columns).to_batches(max_chunksize=batch_rows)
            return
        places = [self.names.index(column) for column in columns]
        for start in range(0, self.rows, batch_rows):
            part = self._frame[start : start + batch_rows]
            arrays = [_arrow(part[:, place]).combine_chunks() for place in places]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Some columns as an Arrow table."""
        return pa.table([self._values(column) for column in columns], names=list(columns))

    def whole(self, columns: Sequence[str]) -> pa.Table:
        """The same with what is noted about the whole."""
        return self.table(columns).replace_schema_metadata(dict(self.metadata))

    def shared(self, features: Sequence[str]) -> NDArray[np.float32] | None:
        """The features without a copy: columns of one row-major float32 table, or a list column of fixed width."""
        if not self.rows or not features:
            return None
        if len(features) == 1 and pa.types.is_fixed_size_list(self.kind(features[0])):
            return _flat(self._values(features[0]))
        columns = [self._series(column) for column in features]
        if any(column.dtype != nw.Float32 for column in columns):
            return None
        return _interleaved([column.to_numpy() for column in columns])

    def _type(self, column: str) -> pa.DataType:
        if self._series(column).dtype.is_numeric():
            return _arrow(self._series(column)[:0]).type
        return self._values(column).type

    def _values(self, column: str) -> pa.ChunkedArray:
        if column not in self._converted:
            try:
                self._converted[column] = _arrow(self._series(column))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise FormatError(
                    f"column {column!r} does not hold values of one kind ({reason(error)}).", path=self.path
                ) from None
        return self._converted[column]

    def _series(self, column: str) -> nw.Series[Any]:
        series: nw.Series[Any] = self._frame[:, self.names.index(column)]
        return series


def read_frame(
    source: Any, *, columns: ColumnNames | None = None, missing: Missing = None, name: str = ""
) -> RankingDataset:
    """The dataset in a frame, row by row: what is in row i of the frame is row i of the dataset.

    >>> frame = pa.table({"qid": [7, 7, 8], "bm25": [1.0, 2.0, 3.0], "grade": [0, 1, 2]})
    >>> read_frame(frame, columns={"query_id": "qid", "label": "grade"}).feature_names
    ('bm25',)
    """
    return checked_dataset([FramePart(source)], columns, missing, name, in_order=True)


def frame_features(source: Any, names: Sequence[str]) -> NDArray[np.float32]:
    """Some columns of a frame as a table of features, in this order; missing values are NaN.

    >>> frame_features(pa.table({"b": [1, None], "other": ["x", "y"], "a": [True, False]}), ["a", "b"])
    array([[ 1.,  1.],
           [ 0., nan]], dtype=float32)
    """
    if is_lazy(source):
        raise UsageError(
            f"{frame_name(source)} is yet to be computed, and its rows have no fixed order that scores could follow; "
            "collect it first."
        )
    part = FramePart(source)
    absent = [name for name in names if name not in part.counts]
    if absent:
        lost, there = (some(map(repr, names), most=5) for names in (absent, part.names))
        raise FormatError(
            f"{lost} {'is' if len(absent) == 1 else 'are'} missing among its columns ({there}); "
            "the ranker finds its features by their names. To take columns by their place, pass an array.",
            path=part.path,
        )
    if not part.rows:
        return np.empty((0, len(names)), dtype=np.float32)
    for name in names:
        check_numeric(part, name)
    roles = Roles("", None, None, tuple(names))
    return feature_table([part], roles, part.rows, checks.KEEP)


def as_series(source: Any, scores: NDArray[np.float64]) -> Any:
    """Scores as a column that fits a frame: a Series of its kind, called `score`, or an Arrow array.

    >>> as_series(pa.table({"a": [1, 2]}), np.array([0.5, 0.25])).to_pylist()
    [0.5, 0.25]
    """
    native = nw.to_native(source, pass_through=True)
    if isinstance(native, pa.RecordBatch):
        return pa.array(scores)
    frame = nw.from_native(native, eager_only=True)
    if frame.implementation.is_pandas_like():
        found = nw.get_native_namespace(frame).Series(scores, index=native.index, name="score", copy=False)
    else:
        found = nw.new_series("score", scores, backend=frame.implementation).to_native()
    return found if source is native else nw.from_native(found, series_only=True)


def is_lazy(source: Any) -> bool:
    """Whether a frame is yet to be computed.

    >>> is_lazy(pa.table({"a": [1]}))
    False
    """
    try:
        return isinstance(_known(source), nw.LazyFrame)
    except DuplicateError:
        return False


def _arrow(series: nw.Series[Any]) -> pa.ChunkedArray:
    """A column as Arrow has it, in its own memory where its library allows that."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return native
    if hasattr(native, "__arrow_c_stream__") and series.dtype not in (nw.Categorical, nw.Enum):
        return pa.chunked_array(native)
    return pa.chunked_array([series.to_arrow()])


def _flat(lists: pa.ChunkedArray) -> NDArray[np.float32] | None:
    """The table that a column of lists of fixed width is, if it lies in one piece."""
    if lists.num_chunks != 1 or lists.null_count or not pa.types.is_float32(lists.type.value_type):
        return None
    values = lists.chunk(0).flatten()
    width = lists.type.list_size
    return values.to_numpy().reshape(-1, width) if width and not values.null_count else None


def _interleaved(columns: list[NDArray[Any]]) -> NDArray[np.float32] | None:
    """The row-major table that all columns are views of, if there is one."""
    first, width = columns[0], len(columns)
    start, step = first.__array_interface__["data"][0], width * _FLOAT32.itemsize
    for place, column in enumerate(columns):
        at = column.__array_interface__["data"][0]
        if column.dtype != _FLOAT32 or column.strides != (step,) or at != start + place * _FLOAT32.itemsize:
            return None
    return np.lib.stride_tricks.as_strided(first, (len(first), width), (step, _FLOAT32.itemsize), writeable=False)


def _first_twice(names: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
