"""Parquet files of candidates: `query_id`, `doc_id`, `label`, and one column per feature or one list column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.parquet_columns import METADATA, ColumnNames, ParquetPart, Roles, TablePart, check_same_ids
from cldrank.data.formats.parquet_rows import (
    check_rows,
    feature_block,
    id_array,
    id_runs,
    list_names,
    row_batches,
)
from cldrank.data.grouping import gather_queries
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing


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
    return checked_dataset(parts, columns, missing, name)


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


def checked_dataset(
    parts: Sequence[TablePart], columns: ColumnNames | None, missing: Missing, name: str, *, in_order: bool = False
) -> RankingDataset:
    """The dataset that is in some parts, once their columns are found to hold what they should.

    in_order   refuse a query whose rows do not lie together: they would have to move
    """
    roles = Roles.of(parts[0], columns)
    if not sum(part.rows for part in parts):
        raise FormatError("holds no rows.", path=parts[0].path)
    for part in parts:
        roles.check(part)
    checks.check_missing(missing)
    with checks.about(*(part.path for part in parts)):
        return _dataset(parts, roles, missing, name, in_order)


def _dataset(parts: Sequence[TablePart], roles: Roles, missing: Missing, name: str, in_order: bool) -> RankingDataset:
    described = [part.description() for part in parts]
    if missing is None and any(one.get("has_missing", False) for one in described):
        missing = checks.KEEP
    rows, paths = sum(part.rows for part in parts), [part.path for part in parts]
    run_starts, run_ids = id_runs(_ids(parts, roles.query_id))
    query_ids, offsets, order = gather_queries(run_starts, run_ids, rows)
    if in_order and order is not None:
        _refuse_scattered(run_starts, run_ids, roles.query_id)
    labels = None if roles.label is None else np.concatenate([_labels(part, roles.label) for part in parts])
    doc_ids = None if roles.doc_id is None else id_array(_ids(parts, roles.doc_id))
    features = feature_table(parts, roles, rows, missing, order)

    def ordered(values: Any) -> Any:
        return values if values is None or order is None else values[order]

    return RankingDataset(
        features=features,
        offsets=offsets,
        labels=ordered(labels),
        query_ids=query_ids,
        doc_ids=ordered(doc_ids),
        feature_names=list_names(paths, described, features.shape[1]) if roles.is_list else roles.features,
        name=name or described[0].get("name", ""),
        synthetic=any(one.get("synthetic", False) for one in described),
        source_rows=order,
        has_missing=missing == checks.KEEP,
    )


def _refuse_scattered(starts: IntArray, ids: NDArray[Any], column: str) -> NoReturn:
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    again = int(np.flatnonzero(first[inverse] != np.arange(len(ids)))[0])
    last = starts[first[inverse[again]] + 1] - 1
    raise DataError(
        f"the rows of query {ids[again].item()!r} do not lie together (rows {last} and {starts[again]}, counted from "
        f"0), and the dataset is to have the order of the frame; sort the frame by {column!r} first."
    )


def _ids(parts: Sequence[TablePart], column: str) -> pa.Array:
    """The ids of all parts: int64 or text."""
    chunks = []
    for part in parts:
        chunks.append(part.plain_ids(column, part.column(column)))
        check_same_ids(parts[0], part, column)
    return pa.chunked_array([piece for chunk in chunks for piece in chunk.chunks], type=chunks[0].type).combine_chunks()


def _labels(part: TablePart, column: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        labels: NDArray[np.float32] = part.column(column).to_numpy().astype(np.float32)
    return labels


def feature_table(
    parts: Sequence[TablePart], roles: Roles, rows: int, missing: Missing, order: IntArray | None = None
) -> NDArray[np.float32]:
    """The feature table, with its rows in an order if one is given.

    One part's own memory where that will do, or filled batch by batch, each row at its place: never copied twice.
    """
    shared = parts[0].shared(roles.features) if len(parts) == 1 else None
    if shared is not None:
        return checks.filled(shared if order is None else shared[order], missing)
    places = None if order is None else np.argsort(order)
    features = np.empty((0, 0), dtype=np.float32)
    end = 0
    for part in parts:
        start = end
        for batch in row_batches(part, roles.features):
            block = feature_block(batch.columns, roles.is_list, part, end - start)
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
            span = slice(end, end + len(block))
            features[span if places is None else places[span]] = block
            end += len(block)
        check_rows(part, end - start)
    return features


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
