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

from cldrank.arguments import shortened, shortened_text
from cldrank.reading import reason
from cldrank.service.layout import FeatureLayout, FloatTable, RankRequest, check_candidate_ids, check_count
from cldrank.service.request_error import RequestError

_ID = "id"
_VERSION = 4  # what Arrow calls V5; before it, compression was told elsewhere
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
        _check_messages(body, most)
        batches = list(pa.ipc.open_stream(body))
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error, EOFError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(
            f"the body is not an Arrow IPC stream: {shortened_text(reason(error), 500)}.", status=400
        ) from None
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
    ids = schema.get_all_field_indices(_ID)
    if ids and _ID in layout.names and not any(pa.types.is_fixed_size_list(column.type) for column in schema):
        raise RequestError(
            "the ranker has a feature 'id', so a column 'id' may be that or the ids; send the features as one column "
            "of lists, in the ranker's order."
        )
    _check_columns(schema)
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
            f"the lists in {shortened(field.name)} are {field.type.list_size} long; the ranker knows {width} features."
        )
    return _Plan(ids, columns, tuple(range(width)), lists=True)


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns that hold anything but numbers, lists of numbers, and ids."""
    for column in schema:
        kind = column.type
        if column.name == _ID:
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
                raise RequestError(
                    f"the column 'id' must hold texts or whole numbers, not {shortened_text(str(kind))}."
                )
        elif not _is_number(kind.value_type if pa.types.is_fixed_size_list(kind) else kind):
            raise RequestError(
                f"the column {shortened(column.name)} must hold numbers, not {shortened_text(str(kind))}."
            )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _check_messages(body: bytes, most: int) -> None:
    """Refuse, by their headers alone, batches that would take more memory than they have bytes, or too many rows."""
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type == "schema":
            continue
        if message.type != "record batch":
            raise RequestError(f"the stream holds a message of type {message.type!r}; send record batches alone.")
        header = _batch_header(message.metadata.to_pybytes())
        if header.compressed:
            raise RequestError("the buffers of the stream are compressed; send them as they are.")
        if header.version < _VERSION:
            raise RequestError("the stream is of an old version of Arrow's format; write version V5.")
        if header.has_metadata:  # where compression was noted once
            raise RequestError("a record batch has metadata of its own; send it without.")
        rows += header.rows
        check_count(rows, most)


@dataclass(frozen=True)
class _BatchHeader:
    version: int
    rows: int
    compressed: bool
    has_metadata: bool


def _batch_header(content: bytes) -> _BatchHeader:
    """What the header of a record batch says.

    It is a flatbuffer: a table begins with how far before it lies the list of where its fields are; a field that is not
    there is 0. Version, header proper and metadata are fields 0, 2 and 4 of a Message, rows and compression fields 0
    and 3 of a RecordBatch (Message.fbs of Arrow).
    """

    def place(table: int, number: int) -> int:
        fields = table - struct.unpack_from("<i", content, table)[0]
        (size,) = struct.unpack_from("<H", content, fields)
        at = 4 + 2 * number
        offset: int = struct.unpack_from("<H", content, fields + at)[0] if at < size else 0
        return table + offset if offset else 0

    def number(form: str, at: int) -> int:
        return int(struct.unpack_from(form, content, at)[0]) if at else 0

    def follow(at: int) -> int:
        return at + int(struct.unpack_from("<I", content, at)[0])

    whole = follow(0)
    batch = follow(place(whole, 2))
    return _BatchHeader(
        version=number("<h", place(whole, 0)),
        rows=number("<q", place(batch, 0)),
        compressed=place(batch, 3) > 0,
        has_metadata=place(whole, 4) > 0,
    )


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
        raise RequestError(f"the column {shortened(batch.schema.names[plan.columns[0]])} has missing lists.")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(-1, len(plan.features))  # type: ignore[no-any-return]
