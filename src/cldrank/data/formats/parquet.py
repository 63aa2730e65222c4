"""Parquet files of candidates: `query_id`, `doc_id`, `label`, and one column per feature or one list column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.parquet_columns import METADATA, READABLE, ColumnNames, ParquetPart, Roles, is_text
from cldrank.data.grouping import gather_queries
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing
from cldrank.reading import reading

_LARGEST = 2**63 - 1
_BATCH_ROWS = 1 << 14


def read_parquet(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    columns: ColumnNames | None = None,
    missing: Missing = None,
    name: str = "",
) -> RankingDataset:
    """Read one Parquet file, or one data set split into several.

    columns   the names of the columns, where they differ from `query_id`, `doc_id`, `label`; `features` is the name of
              a list column, or a list of columns. By default the features are in a list column called `features`, or
              else every other column is a feature.
    missing   the value to fill in where a feature is null or NaN, or "keep"; by default such a feature is refused,
              unless a dataset that has missing values was saved

    >>> import tempfile
    >>> data = RankingDataset.from_arrays([[1, 2], [3, 4]], ["a", "b"], labels=[0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.save(Path(folder) / "train.parquet")
    ...     read_parquet(Path(folder) / "train.parquet")
    RankingDataset(2 queries, 2 rows, 2 features, labels 0…1)
    """
    parts = [ParquetPart.open(Path(path)) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]
    if not parts:
        raise UsageError("there is nothing to read: no Parquet file was named.")
    roles = Roles.of(parts[0], columns)
    for part in parts:
        roles.check(part)
    if not sum(part.rows for part in parts):
        raise FormatError("holds no rows.", path=parts[0].path)
    checks.check_missing(missing)
    with checks.about(parts[0].path):
        return _dataset(parts, roles, missing, name)


def save_parquet(
    blocks: Iterable[RankingDataset],
    path: str | PathLike[str],
    *,
    features: Literal["columns", "list"] = "columns",
) -> int:
    """Save datasets one after the other in one Parquet file, holding one at a time; returns the number of rows.

    The file appears under its name only when it is complete.
    """
    rows = 0
    with replacing(path) as temporary:
        writer: pq.ParquetWriter | None = None
        try:
            for block in blocks:
                table = _table(block, features)
                if writer is None:
                    writer = pq.ParquetWriter(temporary, table.schema, compression="zstd")
                writer.write_table(table)
                rows += block.n_rows
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise DataError(f"{path}: there is nothing to save; no dataset was given.")
    return rows


# -- reading -----------------------------------------------------------------------------------------------------


def _dataset(parts: Sequence[ParquetPart], roles: Roles, missing: Missing, name: str) -> RankingDataset:
    described = [part.description() for part in parts]
    if missing is None and any(one.get("has_missing", False) for one in described):
        missing = checks.KEEP
    rows = sum(part.rows for part in parts)
    run_starts, run_ids = _runs(_ids(parts, roles.query_id))
    query_ids, offsets, order = gather_queries(run_starts, run_ids, rows)
    labels = None if roles.label is None else np.concatenate([_labels(part, roles.label) for part in parts])
    doc_ids = None if roles.doc_id is None else _plain_ids(_ids(parts, roles.doc_id).combine_chunks())
    features = _features(parts, roles, rows, missing)

    def ordered(values: Any) -> Any:
        return values if values is None or order is None else values[order]

    return RankingDataset(
        features=ordered(features),
        offsets=offsets,
        labels=ordered(labels),
        query_ids=query_ids,
        doc_ids=ordered(doc_ids),
        feature_names=_list_names(parts, described, features.shape[1]) if roles.is_list else roles.features,
        name=name or described[0].get("name", ""),
        synthetic=any(one.get("synthetic", False) for one in described),
        source_rows=order,
        has_missing=missing == checks.KEEP,
    )


def _list_names(parts: Sequence[ParquetPart], described: Sequence[dict[str, Any]], width: int) -> tuple[str, ...]:
    """The names of the entries of a list column, as this library noted them; none for files of others."""
    known: tuple[str, ...] = ()
    for part, one in zip(parts, described, strict=True):
        names = tuple(one.get("feature_names", ()))
        if names and len(names) != width:
            raise FormatError(f"the metadata names {len(names)} features, but the lists hold {width}.", path=part.path)
        for place, (own, first) in enumerate(zip(names, known, strict=False), start=1):
            if own != first:
                raise FormatError(
                    f"has {own!r} as feature {place}, where {parts[0].path} has {first!r}.", path=part.path
                )
        known = known or names
    return known


def _ids(parts: Sequence[ParquetPart], column: str) -> pa.ChunkedArray:
    """The ids of all parts: int64 or text."""
    chunks = []
    for part in parts:
        values = part.column(column)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_uint64(values.type) and pc.max(values).as_py() > _LARGEST:
            row = pc.index(pc.greater(values, pa.scalar(_LARGEST, pa.uint64())), True).as_py()
            raise FormatError(
                f"column {column!r} is {values[row]} in row {row} (counted from 0), too large for a 64-bit number; "
                "store such ids as text.",
                path=part.path,
            )
        chunks.append(values.cast(pa.large_string() if is_text(values.type) else pa.int64()))
        if chunks[-1].type != chunks[0].type:
            here, first = ("text" if is_text(one.type) else "whole numbers" for one in (chunks[-1], chunks[0]))
            raise FormatError(f"column {column!r} holds {here} here, {first} in {parts[0].path}.", path=part.path)
    return pa.chunked_array([piece for chunk in chunks for piece in chunk.chunks], type=chunks[0].type)


def _plain_ids(values: Any) -> NDArray[Any]:
    if is_text(values.type):
        lengths = pc.binary_length(values)
        checks.check_lengths(len(values), pc.max(lengths).as_py(), pc.sum(lengths).as_py())
        if pc.any(pc.ends_with(values, "\0")).as_py():
            raise checks.ends_in_nul("an id")
    ids: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return ids if ids.dtype == np.int64 else ids.astype(np.str_)


def _runs(values: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where each run of equal ids starts, and its id."""
    encoded = values.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    return starts, _plain_ids(encoded.dictionary)[codes[starts]]


def _labels(part: ParquetPart, column: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        labels: NDArray[np.float32] = part.column(column).to_numpy().astype(np.float32)
    return labels


def _features(parts: Sequence[ParquetPart], roles: Roles, rows: int, missing: Missing) -> NDArray[np.float32]:
    """The feature table, filled batch by batch so that no second copy of it ever exists."""
    features = np.empty((0, 0), dtype=np.float32)
    end = 0
    for part in parts:
        start = end
        for batch in _batches(part, roles.features):
            with reading(part.path, READABLE):
                block = _list_block(batch.column(0), part, end - start) if roles.is_list else _column_block(batch)
            if not len(features):
                checks.check_room(part.path, rows, block.shape[1])
                features = np.empty((rows, block.shape[1]), dtype=np.float32)
            if block.shape[1] != features.shape[1]:
                raise FormatError(
                    f"the list of features has {block.shape[1]} entries in row {end - start} (counted from 0), "
                    f"{features.shape[1]} before.",
                    path=part.path,
                )
            block = checks.filled(block[: start + part.rows - end], missing)
            features[end : end + len(block)] = block
            end += len(block)
        if end - start != part.rows:
            raise FormatError(f"a feature column ends after {end - start:,} of {part.rows:,} rows.", path=part.path)
    return features


def _batches(part: ParquetPart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with reading(part.path, READABLE):
        for batch in part.file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
            if batch.num_rows:
                yield batch.select(list(columns))


def _column_block(batch: pa.RecordBatch) -> NDArray[np.float32]:
    block = np.empty((batch.num_rows, batch.num_columns), dtype=np.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        for index, column in enumerate(batch.columns):
            block[:, index] = column.to_numpy(zero_copy_only=False)  # nulls become NaN
    return block


def _list_block(column: Any, part: ParquetPart, row: int) -> NDArray[np.float32]:
    """The lists of a batch as a table; `row` is where the batch begins in its part."""
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


# -- writing -----------------------------------------------------------------------------------------------------


def _table(dataset: RankingDataset, layout: Literal["columns", "list"]) -> pa.Table:
    columns: dict[str, Any] = {"query_id": pa.array(dataset.query_ids[dataset.row_queries])}
    if dataset.doc_ids is not None:
        columns["doc_id"] = pa.array(dataset.doc_ids)
    if dataset.labels is not None:
        columns["label"] = pa.array(dataset.labels)
    clash = set(columns).intersection(dataset.feature_names)
    if clash:
        raise DataError(f"a feature is called {sorted(clash)[0]!r}, as a column of ids; rename it.")
    if layout == "list":
        flat = pa.array(dataset.features.ravel())
        columns["features"] = pa.FixedSizeListArray.from_arrays(flat, dataset.n_features)
    else:
        for index, feature in enumerate(dataset.feature_names):
            columns[feature] = pa.array(np.ascontiguousarray(dataset.features[:, index]))
    described: dict[str, Any] = {"name": dataset.name, "synthetic": dataset.synthetic}
    if dataset.has_missing:
        described["has_missing"] = True
    if layout == "list":
        described["feature_names"] = list(dataset.feature_names)
    return pa.table(columns).replace_schema_metadata({METADATA: json.dumps(described).encode()})
