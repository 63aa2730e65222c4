"""Parquet files of candidates: `query_id`, `doc_id`, `label`, and one column a feature or one list column."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.data.grouping import gather_queries
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing

ColumnNames = Mapping[str, str | Sequence[str]]

_ROLES = ("query_id", "doc_id", "label", "features")
_METADATA = b"cldrank"
_BATCH_ROWS = 1 << 14


def read_parquet(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    columns: ColumnNames | None = None,
    missing: float | None = None,
    name: str = "",
) -> RankingDataset:
    """Read one Parquet file, or one data set split into several.

    columns   what the columns are called, where it differs from `query_id`, `doc_id`, `label`; `features` names
              the list column that holds them, or lists the columns to use. Without it, `features` is a list column
              of that name, or else every other column is a feature.
    missing   what to put where a feature is null or NaN; refused if not given

    >>> import tempfile
    >>> data = RankingDataset.from_arrays([[1, 2], [3, 4]], ["a", "b"], labels=[0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data.to_parquet(Path(folder) / "train.parquet")
    ...     read_parquet(Path(folder) / "train.parquet")
    RankingDataset(2 queries, 2 rows, 2 features, labels 0…1)
    """
    parts = [Path(paths)] if isinstance(paths, str | PathLike) else [Path(path) for path in paths]
    files = [_open(path) for path in parts]
    roles = _Roles.of(files[0].schema_arrow, parts[0], columns)
    for path, file in zip(parts[1:], files[1:], strict=True):
        roles.check_part(file.schema_arrow, path)
    rows = sum(file.metadata.num_rows for file in files)
    if rows == 0:
        raise FormatError("holds no rows.", path=parts[0])
    run_starts, run_ids = _runs(_id_column(files, parts, roles.query_id))
    query_ids, offsets, order = gather_queries(run_starts, run_ids, rows)
    labels = None if roles.label is None else _labels(files, parts, roles.label)
    doc_ids = None if roles.doc_id is None else _plain_ids(_id_column(files, parts, roles.doc_id))
    features = _features(files, parts, roles, rows, missing)
    described = _description(files[0])
    if roles.is_list and len(described.get("feature_names", ())) == features.shape[1]:
        roles = roles.with_names(described["feature_names"])

    def ordered(values: Any) -> Any:
        return values if values is None or order is None else values[order]

    return RankingDataset(
        features=ordered(features),
        offsets=offsets,
        labels=ordered(labels),
        query_ids=query_ids,
        doc_ids=ordered(doc_ids),
        feature_names=roles.names,
        name=name or described.get("name", ""),
        synthetic=described.get("synthetic", False),
        source_rows=order,
    )


def write_parquet(
    blocks: Iterable[RankingDataset],
    path: str | PathLike[str],
    *,
    features: Literal["columns", "list"] = "columns",
) -> int:
    """Write datasets one after the other into one Parquet file, never holding more than one; the number of rows.

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
            raise DataError(f"{path}: there is nothing to write; no data came.")
    return rows


# -- which column is what ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Roles:
    query_id: str
    doc_id: str | None
    label: str | None
    features: tuple[str, ...]
    is_list: bool
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: pa.Schema, path: Path, columns: ColumnNames | None) -> _Roles:
        mapped = _checked_columns(schema, path, columns)

        def one(role: str) -> str | None:
            named = mapped.get(role, role if role in schema.names else None)
            if named is not None and not isinstance(named, str):
                raise UsageError(f"{role} takes the name of one column, not {named!r}.")
            return named

        query_id, doc_id, label = one("query_id"), one("doc_id"), one("label")
        if query_id is None:
            raise FormatError(
                f"there is no column 'query_id'; it has {_listed(schema.names)}. "
                "Name the right one with columns={'query_id': …} (--column query_id=…).",
                path=path,
            )
        wanted = mapped.get("features", "features" if "features" in schema.names else None)
        if isinstance(wanted, str) and _is_list(schema.field(wanted).type):
            return cls(query_id, doc_id, label, (wanted,), is_list=True)
        if wanted is None:
            wanted = [column for column in schema.names if column not in (query_id, doc_id, label)]
        names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        if not names:
            raise FormatError("there is no feature column.", path=path)
        for column in names:
            _check_numeric(schema, column, path)
        return cls(query_id, doc_id, label, names, is_list=False, names=names)

    def with_names(self, names: Sequence[str]) -> _Roles:
        return _Roles(self.query_id, self.doc_id, self.label, self.features, self.is_list, tuple(names))

    def check_part(self, schema: pa.Schema, path: Path) -> None:
        for column in (self.query_id, self.doc_id, self.label, *self.features):
            if column is not None and column not in schema.names:
                raise FormatError(f"there is no column {column!r}, which the first part has.", path=path)


def _checked_columns(schema: pa.Schema, path: Path, columns: ColumnNames | None) -> dict[str, str | Sequence[str]]:
    mapped = dict(columns or {})
    unknown = set(mapped) - set(_ROLES)
    if unknown:
        raise UsageError(f"columns maps {sorted(unknown)[0]!r}, which is none of {', '.join(_ROLES)}.")
    for role, named in mapped.items():
        for column in [named] if isinstance(named, str) else named:
            if column not in schema.names:
                raise FormatError(
                    f"there is no column {column!r} (asked for as {role}); it has {_listed(schema.names)}.", path=path
                )
    if not mapped and {"position", "impressions", "clicks"} <= set(schema.names):
        raise FormatError("holds cells of a click log, not features; see `cldrank clicks show`.", path=path)
    return mapped


def _check_numeric(schema: pa.Schema, column: str, path: Path) -> None:
    kind = schema.field(column).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise FormatError(
            f"column {column!r} holds {kind}, not numbers; choose the feature columns with columns={{'features': […]}} "
            "(--column features=a,b,…).",
            path=path,
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# -- reading columns ---------------------------------------------------------------------------------------------


def _open(path: Path) -> pq.ParquetFile:
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"not a readable Parquet file ({_first_sentence(error)}).", path=path) from None


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0].split(". ")[0].rstrip(".")


def _column(files: Sequence[pq.ParquetFile], parts: Sequence[Path], column: str) -> pa.ChunkedArray:
    chunks = [_whole(path, file, column) for path, file in zip(parts, files, strict=True)]
    types = {str(chunk.type) for chunk in chunks}
    if len(types) > 1:
        raise FormatError(
            f"column {column!r} has other types in other parts ({', '.join(sorted(types))}).", path=parts[0]
        )
    return pa.chunked_array([piece for chunk in chunks for piece in chunk.chunks], type=chunks[0].type)


def _whole(path: Path, file: pq.ParquetFile, column: str) -> pa.ChunkedArray:
    try:
        return file.read(columns=[column]).column(column)
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"damaged Parquet file ({_first_sentence(error)}).", path=path) from None


def _id_column(files: Sequence[pq.ParquetFile], parts: Sequence[Path], column: str) -> pa.ChunkedArray:
    values = _column(files, parts, column)
    if values.null_count:
        row = pc.index(values.is_null(), True).as_py()
        raise FormatError(
            f"column {column!r} is null in row {row} (counted from 0); every row needs one.", path=parts[0]
        )
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values.cast(pa.large_string())
    raise FormatError(f"column {column!r} holds {values.type}; ids are whole numbers or text.", path=parts[0])


def _plain_ids(values: pa.ChunkedArray) -> NDArray[Any]:
    ids: NDArray[Any] = values.to_numpy()
    return ids if ids.dtype == np.int64 else ids.astype(np.str_)


def _runs(values: pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where each run of equal ids starts, and its id."""
    encoded = values.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    ids = encoded.dictionary.to_numpy(zero_copy_only=False)
    ids = ids if ids.dtype == np.int64 else ids.astype(np.str_)
    return starts, ids[codes[starts]]


def _labels(files: Sequence[pq.ParquetFile], parts: Sequence[Path], column: str) -> NDArray[np.float32]:
    _check_numeric(files[0].schema_arrow, column, parts[0])
    values = _column(files, parts, column)
    if values.null_count:
        row = pc.index(values.is_null(), True).as_py()
        raise FormatError(f"the label is null in row {row} (counted from 0).", path=parts[0])
    labels: NDArray[np.float32] = values.to_numpy().astype(np.float32)
    return labels


def _features(
    files: Sequence[pq.ParquetFile], parts: Sequence[Path], roles: _Roles, rows: int, missing: float | None
) -> NDArray[np.float32]:
    """The feature table, filled batch by batch so that no second copy of it ever exists."""
    features: NDArray[np.float32] | None = None
    row = 0
    for path, batch in _batches(files, parts, roles.features):
        block = _list_block(batch.column(0), path, row) if roles.is_list else _column_block(batch)
        if features is None:
            features = np.empty((rows, block.shape[1]), dtype=np.float32)
        if block.shape[1] != features.shape[1]:
            raise FormatError(
                f"the list of features has {block.shape[1]} entries in row {row} (counted from 0), "
                f"{features.shape[1]} before.",
                path=path,
            )
        if missing is not None:
            np.nan_to_num(block, copy=False, nan=missing, posinf=np.inf, neginf=-np.inf)
        features[row : row + len(block)] = block
        row += len(block)
    if features is None:
        raise FormatError("holds no rows.", path=parts[0])
    return features


def _batches(
    files: Sequence[pq.ParquetFile], parts: Sequence[Path], columns: Sequence[str]
) -> Iterator[tuple[Path, pa.RecordBatch]]:
    for path, file in zip(parts, files, strict=True):
        try:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
                if batch.num_rows:
                    yield path, batch.select(list(columns))
        except (pa.ArrowInvalid, OSError) as error:
            raise FormatError(f"damaged Parquet file ({_first_sentence(error)}).", path=path) from None


def _column_block(batch: pa.RecordBatch) -> NDArray[np.float32]:
    block = np.empty((batch.num_rows, batch.num_columns), dtype=np.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        for index, column in enumerate(batch.columns):
            block[:, index] = column.to_numpy(zero_copy_only=False)  # nulls become NaN
    return block


def _list_block(column: Any, path: Path, row: int) -> NDArray[np.float32]:
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if column.null_count or len(np.unique(lengths)) != 1:
        odd = int(np.flatnonzero(~(lengths == lengths[0]))[0]) if not column.null_count else 0
        raise FormatError(
            f"the lists of features differ in length (row {row + odd}, counted from 0: {lengths[odd]}).", path=path
        )
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
    described = {"name": dataset.name, "synthetic": dataset.synthetic}
    if layout == "list":
        described["feature_names"] = list(dataset.feature_names)
    return pa.table(columns).replace_schema_metadata({_METADATA: json.dumps(described).encode()})


def _description(file: pq.ParquetFile) -> dict[str, Any]:
    """What this library wrote about the data; nothing for files of others."""
    try:
        described = json.loads((file.schema_arrow.metadata or {}).get(_METADATA, b"{}"))
    except ValueError:
        return {}
    return described if isinstance(described, dict) else {}
