"""What must be true of ranking data, and what to say when it is not. Each check returns its input in canonical form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import FloatArray, IntArray
from cldrank.errors import DataError


def matrix(features: ArrayLike) -> NDArray[np.float32]:
    """Features as a row-major float32 table."""
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
            matrix = np.ascontiguousarray(features, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"features must be a table of numbers: {error}.") from None
    if matrix.ndim != 2:
        raise DataError(f"features must be a table (rows × features), not an array of shape {np.shape(features)}.")
    return matrix


def query_offsets(offsets: ArrayLike, rows: int) -> IntArray:
    """Offsets that cover all rows and leave no query empty."""
    offsets = np.asarray(offsets, dtype=np.int64)
    if offsets.ndim != 1 or not len(offsets) or offsets[0] != 0 or offsets[-1] != rows:
        raise DataError(f"offsets must run from 0 to the number of rows ({rows:,}).")
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise DataError(f"query {empty[0]} (counted from 0) has no rows; leave empty queries out.")
    return offsets


def row_labels(labels: ArrayLike, rows: int) -> NDArray[np.float32]:
    """One finite label a row."""
    try:
        values = np.asarray(labels, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError("labels must be numbers.") from None
    if values.shape != (rows,):
        raise DataError(f"labels have shape {values.shape} for {rows:,} rows; they need one entry a row.")
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(f"the label of row {bad[0]} is {values[bad[0]]}; labels must be finite numbers.")
    return values


def flat_ids(values: ArrayLike, what: str) -> NDArray[Any]:
    """Ids as int64 or text, whatever they came as."""
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise DataError(f"{what} must be a flat array, not one of shape {ids.shape}.")
    if ids.size == 0 or np.issubdtype(ids.dtype, np.integer):
        return ids.astype(np.int64)
    if ids.dtype == object and any(value is None for value in ids):
        raise DataError(f"{what} has an entry without a value (the first at {[v is None for v in ids].index(True)}).")
    if np.issubdtype(ids.dtype, np.floating):
        if not np.array_equal(ids, np.rint(ids)):
            raise DataError(f"{what} must be whole numbers or text; {ids[ids != np.rint(ids)][0]} is neither.")
        return ids.astype(np.int64)
    return ids.astype(np.str_)


def unique_query_ids(values: ArrayLike, queries: int) -> NDArray[Any]:
    """One id a query, none twice."""
    ids = flat_ids(values, "query_ids")
    if len(ids) != queries:
        raise DataError(f"query_ids has {len(ids):,} entries for {queries:,} queries; it needs one entry a query.")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) < len(ids):
        raise DataError(f"query id {unique[counts > 1][0].item()!r} appears more than once; ids must be unique.")
    return ids


def unique_doc_ids(values: ArrayLike, offsets: IntArray) -> NDArray[Any]:
    """One id a row, none twice within a query."""
    ids = flat_ids(values, "doc_ids")
    if len(ids) != offsets[-1]:
        raise DataError(f"doc_ids has {len(ids):,} entries for {offsets[-1]:,} rows; it needs one entry a row.")
    import pyarrow as pa

    codes = pa.array(ids).dictionary_encode().indices.to_numpy().astype(np.int64)
    keys = segments.segment_of_rows(offsets) * (codes.max(initial=0) + 1) + codes
    unique, first, counts = np.unique(keys, return_index=True, return_counts=True)
    if len(unique) < len(keys):
        row = first[counts > 1][0]
        raise DataError(f"document {ids[row].item()!r} appears more than once in one query (first in row {row}).")
    return ids


def unique_names(names: Sequence[str], width: int) -> tuple[str, ...]:
    """One name a feature, none twice; f1, f2, … if there are none."""
    if not names:
        return tuple(f"f{index}" for index in range(1, width + 1))
    names = tuple(str(name) for name in names)
    if len(names) != width:
        raise DataError(f"there are {len(names)} feature names for {width} features.")
    if len(set(names)) < width:
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"feature name {repeated!r} appears more than once; names must be unique.")
    return names


def check_finite(features: FloatArray, offsets: IntArray, query_ids: NDArray[Any], names: Sequence[str]) -> None:
    """Refuse NaN and infinity, naming the first."""
    if np.isfinite(features.sum(dtype=np.float64)):  # one NaN or infinity would show in the sum
        return
    row, column = (int(found[0]) for found in np.nonzero(~np.isfinite(features)))
    query = query_ids[np.searchsorted(offsets, row, side="right") - 1]
    raise DataError(
        f"feature {names[column]!r} of row {row} (query {query}) is {features[row, column]}; "
        "features must be finite: fill or drop missing values first."
    )
