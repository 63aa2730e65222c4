from __future__ import annotations

import json
import struct
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cldrank.errors import UsageError
from cldrank.service import requests as requests_module
from cldrank.service.requests import RankRequest, RequestError, RequestReader

NAMES = ("bm25", "age", "url length")
READER = RequestReader(NAMES, max_candidates=5)
GAPS = RequestReader(NAMES, takes_missing=True, max_candidates=5)
ROWS = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32)


def read(body: Any, reader: RequestReader = READER) -> RankRequest:
    return reader.read_json(body if isinstance(body, bytes) else json.dumps(body).encode())


def named(*values: Any, **more: Any) -> dict[str, Any]:
    return {"id": "d1", "features": dict(zip(NAMES, values, strict=False)), **more}


def outcome(reader: RequestReader, body: bytes) -> Any:
    """What is read, or that it is refused."""
    try:
        request = reader.read_json(body)
    except RequestError:
        return None
    return request.ids, request.table.tobytes(), request.query_id, request.top


_ROW = b"[" + b",".join([b"1"] * 300) + b"],"
HOSTILE = {  # how a body begins, what it repeats, how it ends
    "texts": (b'{"ids":[', b'"",', b'""]}'),
    "numbers": (b'{"features":[[', b"1,", b"1]]}"),
    "rows for one id": (b'{"ids":[1],"features":[', b"[1,2,3],", b"[1,2,3]]}"),
    "sparse candidates": (b'{"candidates":[', b'{"id":1,"features":{}},', b'{"id":1}]}'),
    "objects": (b'{"candidates":[', b"{},", b"{}]}"),
    "nesting": (b'{"features":', b"[", b""),
    "unknown": (b'{"x":[', b"{},", b"1]}"),
    "key": (b'{"key":"', b"x", b'"}'),
}


class TestJson:
    def test_features_by_name_in_any_order(self) -> None:
        second = {"features": {"url length": 3, "bm25": 1.5, "age": -2}, "id": "d:2"}
        request = read({"query_id": "q:1", "candidates": [named(1, 2, 3), second], "top": 1})
        assert (request.ids, request.query_id, request.top) == (["d1", "d:2"], "q:1", 1)
        assert request.table.tolist() == [[1, 2, 3], [1.5, -2, 3]]

    def test_what_is_missing_is_nan_where_the_ranker_takes_it(self) -> None:
        for body in (
            {"candidates": [named(1, None, 3)]},
            {"candidates": [{"id": "d1", "features": {"bm25": 1, "url length": 3}}]},
            {"features": [[1, None, 3]]},
        ):
            np.testing.assert_array_equal(read(body, GAPS).table, np.array([[1, np.nan, 3]], dtype=np.float32))
            with pytest.raises(RequestError, match=r"age|\[0\]\[1\]"):
                read(body)

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            (None, "null"),
            ({}, "`candidates`"),
            ({"candidates": [], "features": []}, "either"),
            ({"candidates": [], "ids": []}, "`ids`"),
            ({"features": [], "limit": 3}, "`limit`"),
            ({"features": [[1, 2, 3]], "ids": ["a", "b"]}, "2 ids for 1 row"),
            ({"features": [[1, 2, 3]] * 2, "ids": ["a", 1]}, "ids"),
            ({"features": [[1, 2, 3]], "ids": [2**63]}, "$.ids[0]"),
            ({"features": [[1, 2, 3]], "top": 0}, "$.top"),
            ({"features": [[1, 2, 3]], "query_id": [1]}, "$.query_id"),
            ({"features": [[1, 2, 3], [1, 2, 3, 4]]}, "length 3 - at `$.features[1]`"),
            ({"features": [[1, True, 3]]}, "$.features[0][1]"),
            ({"features": [[1, 2, 1e39]]}, "'url length' of candidate 0 is infinite"),
            ({"candidates": [named(1, 2, 3)] * 6}, "6 candidates"),
            ({"candidates": [named(1, 2, 3)] * 2}, "'d1' appears twice"),
            ({"candidates": [{"id": "a"}]}, "`features`"),
            ({"candidates": [named(1, 2)]}, "`url length`"),
            ({"candidates": [named(1, True, 3)]}, "$.candidates[0].features.age"),
        ],
    )
    def test_what_is_malformed_is_named(self, body: Any, named: str) -> None:
        with pytest.raises(RequestError) as caught:
            read(body)
        assert named in str(caught.value)
        assert caught.value.status == 422

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b'{"features": [[NaN, 1, 2]]}', b'{"features": [], "ids": ["\xff"]}', b'{"query_id": "\\ud800"}'],
    )
    def test_what_is_not_json_is_refused(self, body: bytes) -> None:
        with pytest.raises(RequestError, match="not JSON") as caught:
            read(body)
        assert caught.value.status == 400

    @pytest.mark.parametrize("size", [1 << 19, pytest.param(31 << 20, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("hostile", HOSTILE)
    def test_a_refused_body_takes_at_most_ten_times_its_size(self, hostile: str, size: int) -> None:
        head, unit, tail = HOSTILE[hostile]
        body = head + unit * ((size - len(head) - len(tail)) // len(unit)) + tail
        cases = [(3, False, "Rank"), (3, True, "Rank"), (300, False, "Rank"), (300, True, "Rank"), (3, True, "Swap")]
        cases += [(3, False, "Interleave"), (300, True, "Interleave")]
        for width, takes_missing, kind in cases:
            reader = RequestReader(tuple(f"f{place}" for place in range(width)), takes_missing, kind=kind)
            tracemalloc.start()
            with pytest.raises(RequestError):
                reader.read_json(body)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 10 * len(body), (width, takes_missing)

    def test_sparse_candidates_are_read_and_refused_like_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reader = RequestReader(tuple(f"f{place}" for place in range(90)), takes_missing=True)
        some = [{"id": place, "features": {"f1": place}} for place in range(200)]
        more: list[Any] = [
            {"id": 200, "features": {}},
            {"id": 200, "features": {"f1": None, "f0": 7}},
            {"id": 200, "features": {"f1": 1e39}},
            {"id": 200, "features": {"x": 1}},
            {"id": 200, "features": {"f1": "1"}},
            {"id": 200, "features": []},
            {"id": 7, "features": {}},
            {"id": "a", "features": {}},
            {"id": 200},
        ]
        texts = [json.dumps({"candidates": [*some, one]}).encode() for one in more]
        with monkeypatch.context() as patch:
            patch.setattr(requests_module, "_is_roomy", lambda *_: True)
            whole = [outcome(reader, text) for text in texts]
        assert [one is not None for one in whole] == [True] * 2 + [False] * 7
        assert [outcome(reader, text) for text in texts] == whole
        with pytest.raises(RequestError, match=r"\$\.candidates\[200\]\.features\.f1"):
            reader.read_json(texts[4])

    @pytest.mark.parametrize("takes_missing", [False, True])
    def test_a_body_is_read_alike_in_pieces(self, takes_missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        reader = RequestReader(NAMES, takes_missing)
        rows = np.random.default_rng(0).normal(size=(99, 3)).tolist()
        bodies: list[Any] = [
            {"features": rows, "ids": list(range(99)), "top": 3, "query_id": "q"},
            {"features": [], "ids": []},
            {"features": None, "candidates": [named(1, 2, 3)]},
            {"features": 5},
            {"features": "[[1, 2, 3]]"},
            {"features": {"a": [1, 2, 3]}},
            {"features": [*rows, [1, 2]]},
            {"features": [*rows, 7, [1, 2, 3]]},
            {"features": [*rows, ["],", 1, 2]]},
            {"features": [[rows]]},
            {"features": [*rows, [1, None, 2]]},
            {"ids": ["a"]},
            {"unknown": 1},
        ]
        spaced = [json.dumps(body, indent=1).encode() for body in bodies]
        texts = [*spaced, *(json.dumps(body, separators=(",", ":")).encode() for body in bodies)]
        whole = [outcome(reader, text) for text in texts]
        monkeypatch.setattr(requests_module, "_CHUNK", 200)
        monkeypatch.setattr(requests_module, "_is_roomy", lambda *_: False)
        assert [outcome(reader, text) for text in texts] == whole
        with pytest.raises(RequestError, match=r"\$\.features\[\d+:\]\[\d+\]"):
            reader.read_json(json.dumps({"features": [*rows, [1, "2", 3]]}).encode())


# -- Arrow -------------------------------------------------------------------------------------------------------------


def stream(columns: dict[str, Any] | pa.Table, compression: str | None = None, chunk: int | None = None) -> bytes:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=chunk)
    return bytes(sink.getvalue().to_pybytes())


ABC = RequestReader(("a", "b", "c"), max_candidates=5)
ABC_GAPS = RequestReader(("a", "b", "c"), takes_missing=True, max_candidates=5)


def read_arrow(columns: Any, reader: RequestReader = ABC, **more: Any) -> RankRequest:
    return reader.read_arrow(columns if isinstance(columns, bytes) else stream(columns), **more)


def old_stream(codec: str | None, size: int = 1 << 28) -> bytes:
    """A batch in the version V4, with zeros compressed in the way of that time."""
    content = struct.pack("<q", size) + bytes(pa.Codec(codec).compress(b"\0" * size)) if codec else b"\0\0\0"
    batch = pa.record_batch({name: pa.array(np.frombuffer(content, dtype=np.uint8)) for name in "abc"})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": codec} if codec else None)
    return bytes(sink.getvalue().to_pybytes())


def stream_with_metadata() -> bytes:
    batch, sink = pa.record_batch(dict.fromkeys("abc", pa.array([1.0]))), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    return bytes(sink.getvalue().to_pybytes())


WHOLE = stream({"id": ["x", "yy"], **dict(zip("abc", ROWS.T, strict=True))})


class TestArrow:
    @pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int8(), pa.int64(), pa.uint64()])
    def test_columns_by_name_in_any_order(self, kind: pa.DataType) -> None:
        columns = {"c": pa.array([3, 6], kind), "id": ["x", "y"], "a": pa.array([1, 4], kind), "b": [2.0, 5.0]}
        request = read_arrow(columns, query_id="q", top=1)
        assert (request.ids, request.query_id, request.top) == (["x", "y"], "q", 1)
        assert request.table.tolist() == ROWS.tolist()
        assert read_arrow(dict(zip("abc", ROWS.T, strict=True))).ids == [0, 1]

    def test_what_is_missing_is_nan_where_the_ranker_takes_it(self) -> None:
        bodies: list[dict[str, Any]] = [
            {"a": [1.0], "b": pa.array([None], pa.float64()), "c": [3]},
            {"a": [1.0], "b": pa.array([None], pa.int32()), "c": [3]},
            {"a": [1.0], "c": [3]},
        ]
        for body in bodies:
            table = read_arrow(body, ABC_GAPS).table
            np.testing.assert_array_equal(table, np.array([[1, np.nan, 3]], dtype=np.float32))
            with pytest.raises(RequestError, match="'b'"):
                read_arrow(body)

    @pytest.mark.parametrize(
        ("body", "named"),
        [
            (b"", "not an Arrow IPC stream"),
            (WHOLE[:-20], "not an Arrow IPC stream"),
            (stream({"a": [1.0], "b": [2.0], "c": [3.0]}, "zstd"), "uncompressed"),
            ({"a": [1.0], "b": [2.0]}, "'c'"),
            ({"a": [1.0], "b": [2.0], "c": [3.0], "d": [4.0]}, "'d'"),
            ({"a": [1.0], "b": [2.0], "c": ["3"]}, "'c' must hold numbers, not string"),
            ({"a": [1.0], "b": [2.0], "c": [1e39]}, "'c' of candidate 0 is infinite"),
            ({"a": [1.0], "b": [2.0], "c": [3.0], "id": [1.5]}, "all text or all whole numbers"),
            ({"a": [1.0, 2], "b": [2.0, 3], "c": [3.0, 4], "id": ["x", "x"]}, "'x' appears twice"),
            (pa.table([pa.array([1.0])] * 3, names=["a", "b", "b"]), "'b' is given twice"),
            (pa.table([pa.array([1])] * 2, names=["id", "id"]), "'id' is ambiguous"),
            (dict.fromkeys("abc", np.zeros(6)), "6 candidates"),
        ],
    )
    def test_what_is_malformed_is_named(self, body: Any, named: str) -> None:
        with pytest.raises(RequestError) as caught:
            read_arrow(body)
        assert named in str(caught.value)
        assert caught.value.status == (400 if "not an Arrow" in named else 422)

    @pytest.mark.parametrize("body", [old_stream("zstd"), stream_with_metadata()])
    def test_what_would_swell_in_memory_is_refused_before_it_is_read(
        self, body: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pa.ipc, "read_record_batch", None)
        with pytest.raises(RequestError, match="of version V5, and without metadata"):
            read_arrow(body)

    def test_ids_that_would_swell_are_refused(self) -> None:
        columns = dict.fromkeys("abc", pa.array([1.0, 2.0]))
        views = pa.array(["x", "y"]).cast(pa.string_view())
        assert read_arrow({**columns, "id": views}).ids == ["x", "y"]
        letters = pa.py_buffer(b"z" * 4000)
        shared = pa.py_buffer(struct.pack("<i4sii", 4000, b"zzzz", 0, 0) * 2)
        twice = pa.Array.from_buffers(pa.string_view(), 2, [None, shared, letters])
        with pytest.raises(RequestError, match="more letters"):
            read_arrow({**columns, "id": twice})
        nothing = pa.FixedSizeListArray.from_arrays(pa.nulls(2000), 1000)
        with pytest.raises(RequestError, match="all text or all whole numbers, not fixed_size_list"):
            read_arrow({**columns, "id": nothing})

    def test_a_feature_called_id_comes_in_json(self) -> None:
        with pytest.raises(RequestError, match="send features of that name in JSON"):
            read_arrow({"id": [7, 8], "b": [2.0, 1.0]}, RequestReader(("id", "b")))

    def test_texts_that_point_outside_or_are_not_texts_are_refused(self) -> None:
        """What the reader of the stream does not look at itself."""
        places, letters = struct.pack("<iii", 0, 1, 3), b"xyy"
        assert WHOLE.count(places) == WHOLE.count(letters) == 1
        for damaged in (
            WHOLE.replace(places, struct.pack("<iii", 0, 1, 1 << 20)),
            WHOLE.replace(places, struct.pack("<iii", 0, 3, 1)),
            WHOLE.replace(letters, b"\xff\xfe\xfd"),
        ):
            with pytest.raises(RequestError, match="not an Arrow IPC stream"):
                read_arrow(damaged)

    @example([(140, 128)])  # a name of a column that is not text
    @given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
    def test_a_damaged_stream_is_read_or_refused(self, changes: list[tuple[int, int]]) -> None:
        content = bytearray(WHOLE)
        for place, byte in changes:
            content[place] = byte
        with suppress(RequestError):
            assert len(read_arrow(bytes(content)).table) <= 5


def test_a_feature_that_a_body_cannot_spell_is_refused_before_any_request() -> None:
    for name in ('price "net"', "a\\b", "line\nbreak"):
        with pytest.raises(UsageError, match="rename it"):
            RequestReader((name,))
