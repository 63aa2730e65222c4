"""Requests in Arrow's IPC stream format, for long lists: an optional column `id`, and the features.

The features are one column each, by name and in any order, or one column of fixed-size lists in the ranker's order. The
stream is checked before its numbers are touched: only plain numbers and texts, nothing compressed, so that what a body
takes in memory is bounded by its size.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from cldrank.reading import reason
from cldrank.service.layout import FeatureLayout, FloatTable, RankRequest, check_count, check_ids
from cldrank.service.request_error import RequestError

ID = "id"


def request_of_arrow(
    body: bytes, layout: FeatureLayout, most: int, *, query_id: str | None = None, top: int | None = None
) -> RankRequest:
    """The request that an Arrow stream describes; refused, with the reason, where it describes none."""
    try:
        schema = pa.ipc.open_stream(body).schema
        _check_columns(schema)
        _refuse_compressed(body)
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error, EOFError) as error:
        if isinstance(error, RequestError):
            raise
        raise RequestError(f"the body is not an Arrow IPC stream: {reason(error)}.", status=400) from None
    check_count(table.num_rows, most)
    ids = _ids(table)
    check_ids(ids, table.num_rows)
    return RankRequest(ids, layout.check(_table(table, layout), ids), query_id, top)


def _check_columns(schema: pa.Schema) -> None:
    """Refuse columns that hold anything but numbers, lists of numbers, and ids."""
    for column in schema:
        kind = column.type
        if column.name == ID:
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)):
                raise RequestError(f"the column 'id' must hold texts or whole numbers, not {kind}.")
        elif not _is_number(kind.value_type if pa.types.is_fixed_size_list(kind) else kind):
            raise RequestError(f"the column {column.name!r} must hold numbers, not {kind}.")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


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


def _ids(table: pa.Table) -> list[Any]:
    places = table.schema.get_all_field_indices(ID)
    if not places:
        return list(range(table.num_rows))
    if len(places) > 1:
        raise RequestError("the column 'id' appears twice.")
    column = table.column(places[0])
    if column.null_count:
        raise RequestError("the column 'id' has missing values.")
    return list(column.to_pylist())


def _table(table: pa.Table, layout: FeatureLayout) -> FloatTable:
    """The features in the ranker's order; a missing value is NaN."""
    features = table.select([place for place, name in enumerate(table.column_names) if name != ID])
    if not features.num_columns:
        raise RequestError("there are no columns of features.")
    lists = [column.name for column in features.schema if pa.types.is_fixed_size_list(column.type)]
    if lists:
        return _of_lists(features, layout)
    places = layout.places(tuple(features.column_names))
    batches = features.combine_chunks().to_batches()
    if not batches:
        return np.empty((0, len(layout.names)), dtype=np.float32)
    values = batches[0].to_tensor(null_to_nan=True, row_major=True).to_numpy()
    return layout.spread(values, places)


def _of_lists(features: pa.Table, layout: FeatureLayout) -> FloatTable:
    width = len(layout.names)
    if features.num_columns > 1:
        raise RequestError("the features must be one column each, or one column of lists, not both.")
    name, column = features.column_names[0], features.column(0).combine_chunks()
    if column.type.list_size != width:
        raise RequestError(
            f"the lists in {name!r} are {column.type.list_size} long; the ranker knows {width} features."
        )
    if column.null_count:
        raise RequestError(f"the column {name!r} has missing lists.")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return layout.spread(flat.reshape(-1, width), range(width))
