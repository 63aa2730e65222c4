"""Requests in Arrow's IPC stream format, for long lists: an optional column `id`, and the features.

The features are one column each, by name and in any order, or one column of fixed-size lists in the ranker's order. The
stream is checked before its numbers are touched: only plain numbers and texts, nothing compressed, so that what a body
takes in memory is bounded by its size.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from cldrank.reading import reason
from cldrank.service.layout import FeatureLayout, FloatTable, RankRequest, check_candidate_ids, check_count
from cldrank.service.request_error import RequestError

_ID = "id"
_CACHED = 1 << 16  # bytes; a longer schema is looked at anew each time


@dataclass(frozen=True)
class _Plan:
    """Which columns of a stream to take.

    ids        the place of the ids, None where there are none
    columns    the places of the features, in the ranker's order; of the one column of lists
    features   which of the ranker's features these are
    """

    ids: int | None
    columns: list[int]
    features: tuple[int, ...]
    lists: bool = False


def request_of_arrow(
    body: bytes, layout: FeatureLayout, most: int, *, query_id: str | None = None, top: int | None = None
) -> RankRequest:
    """The request that an Arrow stream describes; refused, with the reason, where it describes none."""
    try:
        plan = _plan_of(body, layout)
        _refuse_compressed(body)
        batches = list(pa.ipc.open_stream(body))
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error, EOFError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"the body is not an Arrow IPC stream: {reason(error)}.", status=400) from None
    rows = sum(batch.num_rows for batch in batches)
    check_count(rows, most)
    ids = list(range(rows)) if plan.ids is None else _ids([batch.column(plan.ids) for batch in batches])
    check_candidate_ids(ids, rows)
    parts = [_of_lists(batch, plan) if plan.lists else _of_columns(batch, plan) for batch in batches]
    values = np.concatenate(parts) if parts else np.empty((0, len(plan.features)))
    return RankRequest(ids, layout.check(layout.spread(values, plan.features), ids), query_id, top)


# -- the schema ----------------------------------------------------------------------------------------------------


def _plan_of(body: bytes, layout: FeatureLayout) -> _Plan:
    """Clients send the same schema again and again; what to take is worked out once."""
    mark, size = struct.unpack_from("<Ii", body)
    if mark != 0xFFFFFFFF or not 0 <= size <= _CACHED:
        return _planned(pa.ipc.open_stream(body).schema, layout)
    return _plan(body[: 8 + size], layout)


@lru_cache(maxsize=64)
def _plan(schema: bytes, layout: FeatureLayout) -> _Plan:
    return _planned(pa.ipc.read_schema(pa.py_buffer(schema)), layout)


def _planned(schema: pa.Schema, layout: FeatureLayout) -> _Plan:
    _check_columns(schema)
    ids = schema.get_all_field_indices(_ID)
    if len(ids) > 1:
        raise RequestError("the column 'id' appears twice.")
    own = None if not ids else ids[0]
    columns = [place for place in range(len(schema)) if place != own]
    if not columns:
        raise RequestError("there are no columns of features.")
    if any(pa.types.is_fixed_size_list(schema.field(place).type) for place in columns):
        return _planned_lists(schema, own, columns, len(layout.names))
    places = layout.places(tuple(schema.field(place).name for place in columns))
    chosen = sorted(zip(places, columns, strict=True))
    return _Plan(own, [column for _, column in chosen], tuple(place for place, _ in chosen))


def _planned_lists(schema: pa.Schema, ids: int | None, columns: list[int], width: int) -> _Plan:
    if len(columns) > 1:
        raise RequestError("the features must be one column each, or one column of lists, not both.")
    field = schema.field(columns[0])
    if field.type.list_size != width:
        raise RequestError(
            f"the lists in {field.name!r} are {field.type.list_size} long; the ranker knows {width} features."
        )
    return _Plan(ids, columns, tuple(range(width)), lists=True)


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns that hold anything but numbers, lists of numbers, and ids."""
    for column in schema:
        kind = column.type
        if column.name == _ID:
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
                raise RequestError(f"the column 'id' must hold texts or whole numbers, not {kind}.")
        elif not _is_number(kind.value_type if pa.types.is_fixed_size_list(kind) else kind):
            raise RequestError(f"the column {column.name!r} must hold numbers, not {kind}.")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _refuse_compressed(body: bytes) -> None:
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise RequestError("the buffers of the stream are compressed; send them as they are.")


def _is_compressed(metadata: bytes) -> bool:
    """Whether the header of a record batch says that its buffers are compressed.

    The header is a flatbuffer: a table begins with how far before it lies the list of where its fields are. The header
    proper is field 2 of a Message, and the compression field 3 of a RecordBatch (Message.fbs of Arrow).
    """

    def place(table: int, number: int) -> int:
        fields = table - struct.unpack_from("<i", metadata, table)[0]
        (size,) = struct.unpack_from("<H", metadata, fields)
        at = 4 + 2 * number
        offset: int = struct.unpack_from("<H", metadata, fields + at)[0] if at < size else 0
        return table + offset if offset else 0

    def follow(at: int) -> int:
        return at + int(struct.unpack_from("<I", metadata, at)[0])

    return place(follow(place(follow(0), 2)), 3) > 0


# -- the numbers ---------------------------------------------------------------------------------------------------


def _ids(columns: Sequence[pa.Array]) -> list[Any]:
    if any(column.null_count for column in columns):
        raise RequestError("the column 'id' has missing values.")
    return [one for column in columns for one in column.to_pylist()]


def _of_columns(batch: pa.RecordBatch, plan: _Plan) -> FloatTable:
    """The features, a column each; a missing value is NaN."""
    chosen = batch.select(plan.columns)
    return chosen.to_tensor(null_to_nan=True, row_major=True).to_numpy()  # type: ignore[no-any-return]


def _of_lists(batch: pa.RecordBatch, plan: _Plan) -> FloatTable:
    column = batch.column(plan.columns[0])
    if column.null_count:
        raise RequestError(f"the column {batch.schema.names[plan.columns[0]]!r} has missing lists.")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, len(plan.features))  # type: ignore[no-any-return]
