from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.service.arrow_requests import request_of_arrow
from cldrank.service.layout import FeatureLayout, RankRequest
from cldrank.service.request_error import RequestError

LAYOUT = FeatureLayout(("a", "b", "c"))
GAPS = FeatureLayout(("a", "b", "c"), takes_missing=True)
ROWS = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)


def stream(columns: dict[str, Any] | pa.Table, compression: str | None = None, chunk: int | None = None) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return bytes(sink.getvalue().to_pybytes())


def read(columns: Any, layout: FeatureLayout = LAYOUT, most: int = 5, **more: Any) -> RankRequest:
    return request_of_arrow(columns if isinstance(columns, bytes) else stream(columns), layout, most, **more)


def lists(rows: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(rows), kind), np.shape(rows)[1])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.uint8(), pa.uint64()])
@pytest.mark.parametrize("beside", [pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.uint64()])
def test_columns_by_name_in_any_order_and_of_any_number(kind: pa.DataType, beside: pa.DataType) -> None:
    other = pa.array([2, 5], beside)
    columns = {"c": pa.array([3, 6], kind), "id": ["x", "y"], "a": pa.array([1, 4], kind), "b": other}
    found = read(columns, query_id="q", top=1)
    assert (found.ids, found.query_id, found.top) == (["x", "y"], "q", 1)
    assert found.table.tolist() == ROWS.tolist()
    assert read({name: pa.array(column, kind) for name, column in zip("abc", ROWS.T.tolist(), strict=True)}).ids == [
        0,
        1,
    ]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int32()])
def test_lists_in_the_order_of_the_ranker(kind: pa.DataType) -> None:
    found = read({"features": lists(ROWS.astype(int), kind), "id": pa.array([7, 8])})
    assert found.ids == [7, 8]
    assert found.table.tolist() == ROWS.tolist()


def test_a_stream_may_come_in_several_batches_or_none() -> None:
    table = pa.table(dict(zip("abc", ROWS.T, strict=True)))
    assert read(stream(table, chunk=1)).table.tolist() == ROWS.tolist()
    assert read(table.slice(1)).table.tolist() == ROWS[1:].tolist()
    assert read(table.slice(2)).table.shape == (0, 3)
    several = pa.table({"f": pa.chunked_array([lists(ROWS), lists(ROWS[:0]), lists(ROWS)])})
    assert read(several).table.tolist() == [*ROWS.tolist(), *ROWS.tolist()]
    assert read(several.slice(1, 2)).table.tolist() == ROWS[::-1].tolist()


def test_what_is_missing_is_nan_where_the_ranker_takes_it() -> None:
    expected = np.array([[1, np.nan, 3]], dtype=np.float32)
    gap = pa.array([1, None, 3], pa.float32())
    bodies: list[dict[str, Any]] = [
        {"a": [1.0], "b": pa.array([None], pa.float64()), "c": [3]},
        {"a": [1.0], "b": [np.nan], "c": [3]},
        {"a": [1.0], "b": pa.array([None], pa.int32()), "c": [3]},
        {"a": [1.0], "c": [3]},
        {"f": pa.FixedSizeListArray.from_arrays(gap, 3)},
    ]
    for body in bodies:
        np.testing.assert_array_equal(read(body, GAPS).table, expected)
        with pytest.raises(RequestError, match="the feature 'b'"):
            read(body)


MALFORMED: list[tuple[Any, str]] = [
    (b"", "not an Arrow IPC stream"),
    (b"ARROW1", "not an Arrow IPC stream"),
    (stream({"a": [1.0], "b": [2.0], "c": [3.0]})[:-20], "not an Arrow IPC stream"),
    (stream({"a": [1.0], "b": [2.0], "c": [3.0]}, "zstd"), "compressed"),
    (stream({"a": [1.0], "b": [2.0], "c": [3.0]}, "lz4"), "compressed"),
    ({"id": ["x"]}, "no columns of features"),
    ({"a": [1.0], "b": [2.0]}, "the feature 'c' is missing"),
    ({"a": [1.0], "b": [2.0], "c": [3.0], "d": [4.0]}, "does not know the feature 'd'"),
    ({"a": [1.0], "b": [2.0], "c": ["3"]}, "the column 'c' must hold numbers, not string"),
    (
        {"a": [1.0], "b": [2.0], "c": pa.array(np.array([3], np.float16))},
        "the column 'c' must hold numbers, not halffloat",
    ),
    ({"a": [1.0], "b": [2.0], "c": [True]}, "the column 'c' must hold numbers, not bool"),
    ({"a": [1.0], "b": [2.0], "c": pa.array(["x"]).dictionary_encode()}, "the column 'c' must hold numbers"),
    ({"a": [1.0], "b": [2.0], "c": pa.nulls(1)}, "the column 'c' must hold numbers, not null"),
    ({"a": [1.0], "b": [2.0], "c": [[3.0]]}, "the column 'c' must hold numbers, not list"),
    ({"a": [1.0], "b": [2.0], "c": [np.inf]}, "the feature 'c' of candidate 0 is infinite"),
    ({"a": [1.0], "b": [2.0], "c": [1e39]}, "the feature 'c' of candidate 0 is infinite, or larger than float32"),
    ({"a": [1.0], "b": [2.0], "c": [3.0], "id": [1.5]}, "the column 'id' must hold texts or whole numbers"),
    ({"a": [1.0], "b": [2.0], "c": [3.0], "id": pa.array([None], pa.string())}, "'id' has missing values"),
    ({"a": [1.0, 2], "b": [2.0, 3], "c": [3.0, 4], "id": ["x", "x"]}, "the id 'x' appears twice"),
    ({"f": lists(ROWS[:, :2])}, "the lists in 'f' are 2 long; the ranker knows 3 features"),
    ({"f": pa.array([None, [1, 2, 3]], pa.list_(pa.float32(), 3))}, "the column 'f' has missing lists"),
    ({"f": lists(ROWS), "a": [1.0, 2]}, "not both"),
    (pa.table([pa.array([1.0])] * 3, names=["a", "b", "b"]), "the feature 'b' is given twice"),
    (pa.table([pa.array([1])] * 2, names=["id", "id"]), "'id' appears twice"),
    (dict.fromkeys("abc", np.zeros(6)), "there are 6 candidates; the service takes at most 5"),
]


@pytest.mark.parametrize(("body", "words"), MALFORMED)
def test_what_is_malformed_is_named(body: Any, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(body)
    assert words in str(caught.value)
    assert caught.value.status == (400 if "not an Arrow" in words else 422)


def old_stream(codec: str | None, size: int = 1 << 28) -> bytes:
    """A batch in the version V4, with zeros compressed in the way of that time."""
    content = struct.pack("<q", size) + bytes(pa.Codec(codec).compress(b"\0" * size)) if codec else b"\0\0\0"
    batch = pa.record_batch({name: pa.array(np.frombuffer(content, dtype=np.uint8)) for name in "abc"})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": codec} if codec else None)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", ["zstd", "lz4", None])
def test_what_would_swell_in_memory_is_refused_before_it_is_read(
    codec: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = old_stream(codec)
    monkeypatch.setattr(pa.ipc, "open_stream", None)
    with pytest.raises(RequestError, match="an old version of Arrow's format"):
        read(body, most=1 << 30)


def test_batches_with_metadata_are_refused_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, sink = pa.record_batch(dict.fromkeys("abc", pa.array([1.0]))), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    monkeypatch.setattr(pa.ipc, "open_stream", None)
    with pytest.raises(RequestError, match="metadata of its own"):
        read(sink.getvalue().to_pybytes())


def test_rows_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    body = stream(pa.table(dict.fromkeys("abc", np.zeros(6))), chunk=4)
    monkeypatch.setattr(pa.ipc, "open_stream", None)
    with pytest.raises(RequestError, match="there are 6 candidates"):
        read(body)


def test_a_feature_called_id_comes_in_lists() -> None:
    for layout in (FeatureLayout(("id", "b")), FeatureLayout(("id", "b"), takes_missing=True)):
        for ids in ([7, 8], [7.5, 8.5], ["x", "y"]):
            with pytest.raises(RequestError, match="a feature 'id'.*as one column of lists"):
                read({"id": ids, "b": [2.0, 1.0]}, layout)
        found = read({"id": ["x", "y"], "f": lists(ROWS[:, :2])}, layout)
        assert (found.ids, found.table.tolist()) == (["x", "y"], ROWS[:, :2].tolist())
    assert np.isnan(read({"b": [2.0]}, FeatureLayout(("id", "b"), takes_missing=True)).table[0, 0])


def test_refusals_do_not_give_back_long_texts() -> None:
    long = "x" * 70_000
    for columns in ({long: ["a"]}, {long: [1.0]}, {"a": pa.array([{long: 1}])}):
        with pytest.raises(RequestError) as caught:
            read(columns)
        assert len(str(caught.value)) < 1000


WHOLE = stream({"id": ["x", "yy"], **dict(zip("abc", ROWS.T, strict=True))})


def test_texts_that_point_outside_or_are_not_texts_are_refused() -> None:
    """What the reader of the stream does not look at itself."""
    places, letters = struct.pack("<iii", 0, 1, 3), b"xyy"
    assert WHOLE.count(places) == WHOLE.count(letters) == 1
    for damaged in (
        WHOLE.replace(places, struct.pack("<iii", 0, 1, 1 << 20)),
        WHOLE.replace(places, struct.pack("<iii", 0, 3, 1)),
        WHOLE.replace(letters, b"\xff\xfe\xfd"),
    ):
        with pytest.raises(RequestError, match="not an Arrow IPC stream"):
            read(damaged)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_stream_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    content = bytearray(WHOLE)
    for place, byte in changes:
        content[place] = byte
    with suppress(RequestError):
        assert len(read(bytes(content)).table) <= 5
