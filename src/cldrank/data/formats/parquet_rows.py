"""Rows of Parquet files and frames: batches of columns as ids and tables of features.

`parquet` reads whole files with this, `parquet_stream` files of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.formats.parquet_columns import TablePart, is_text
from cldrank.errors import FormatError
from cldrank.reading import reading

BATCH_ROWS = 1 << 14


def row_batches(part: TablePart, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Some columns, batch by batch, in this order."""
    with reading(part.path, part.readable):
        for batch in part.batches(columns, batch_rows):
            if batch.num_rows:
                yield batch


def feature_block(columns: Sequence[Any], is_list: bool, part: TablePart, row: int) -> NDArray[np.float32]:
    """The feature columns of a batch as a table; `row` is where the batch begins in its part."""
    with reading(part.path, part.readable):
        return _list_block(columns[0], part, row) if is_list else _column_block(columns)


def check_rows(part: TablePart, found: int) -> None:
    """Refuse a file that ends before the rows that it promises."""
    if found != part.rows:
        raise FormatError(f"a feature column ends after {found:,} of {part.rows:,} rows.", path=part.path)


def id_array(values: Any) -> NDArray[Any]:
    """Ids, int64 or text, as numpy holds them; refused where it would not hold them unchanged."""
    if is_text(values.type) and len(values):
        lengths = pc.binary_length(values)
        checks.check_lengths(len(values), pc.max(lengths).as_py(), pc.sum(lengths).as_py())
        if pc.any(pc.ends_with(values, "\0")).as_py():
            raise checks.ends_in_nul("an id")
    ids: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return ids if ids.dtype == np.int64 else ids.astype(np.str_)


def id_runs(values: pa.Array) -> tuple[IntArray, NDArray[Any]]:
    """Where each run of equal ids starts, and its id."""
    encoded = values.dictionary_encode()
    codes = encoded.indices.to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return starts, id_array(encoded.dictionary)[codes[starts]]


def list_names(paths: Sequence[Path | str], described: Sequence[dict[str, Any]], width: int) -> tuple[str, ...]:
    """The names of the entries of a list column, as this library noted them; none for files of others."""
    known: tuple[str, ...] = ()
    for path, one in zip(paths, described, strict=True):
        names = tuple(one.get("feature_names", ()))
        if names and len(names) != width:
            raise FormatError(f"the metadata names {len(names)} features, but the lists hold {width}.", path=path)
        for place, (own, first) in enumerate(zip(names, known, strict=False), start=1):
            if own != first:
                raise FormatError(f"has {own!r} as feature {place}, where {paths[0]} has {first!r}.", path=path)
        known = known or names
    return known


def _column_block(columns: Sequence[Any]) -> NDArray[np.float32]:
    block = np.empty((len(columns[0]), len(columns)), dtype=np.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        for index, column in enumerate(columns):
            if pa.types.is_boolean(column.type):
                column = column.cast(pa.uint8())  # numpy would have objects for true, false and null
            block[:, index] = column.to_numpy(zero_copy_only=False)  # nulls become NaN
    return block


def _list_block(column: Any, part: TablePart, row: int) -> NDArray[np.float32]:
    if column.null_count:
        at = row + pc.index(column.is_null(), True).as_py()
        raise FormatError(f"the list of features is null in row {at} (counted from 0).", path=part.path)
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise FormatError(
            f"the lists of features differ in length (row {row + odd[0]}, counted from 0: {lengths[odd[0]]}).",
            path=part.path,
        )
    if not lengths[0]:
        raise FormatError("the lists of features are empty.", path=part.path)
    with np.errstate(over="ignore"):
        block: NDArray[np.float32] = column.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    return block.reshape(len(column), -1)
