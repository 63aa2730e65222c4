"""Requests: a body in JSON or Arrow becomes ids and a table of features, or is refused with the reason.

JSON is decoded into types made for the ranker: a row is a tuple with as many numbers as the ranker has features, so
msgspec refuses a wrong body at the first wrong value. Objects of Python take more memory than their letters: where
values are short, rows and candidates are decoded some at a time, and ids are counted before they are decoded. An Arrow
stream is read only if its headers announce plain, uncompressed batches.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import starmap
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cldrank.arguments import shortened, shortened_text
from cldrank.errors import CldrankError, UsageError
from cldrank.online.interleaving import DEEPEST_PAGE
from cldrank.reading import reason
from cldrank.wording import count, listed, some

FloatTable = NDArray[np.float32]
_LONGEST_SCHEMA = 1 << 16  # bytes of a schema that is remembered
_CHUNK = 1 << 13  # bytes of rows that are decoded at a time; as objects of Python they take 16 times as much
_SPARE = 1000  # surplus values of a list that are still decoded, for a better message
_CANDIDATES = 64  # that are decoded at a time
_ABSENT = msgspec.Raw(b"null")
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)  # in JSON


class RequestError(CldrankError):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class RankRequest:
    """An id and a row of features for each candidate; of pages also their depth and key, and the share of swaps."""

    ids: Sequence[str | int]
    table: FloatTable
    query_id: str | int | None = None
    top: int | None = None
    depth: int = 0
    key: str | int = ""
    share: float = 0.0


class RequestReader:
    """Reads requests for a ranker with these features.

    kind    what is asked for, with what a request must or may say besides its candidates: a key of `SETTINGS`

    >>> reader = RequestReader(("bm25", "age"))
    >>> reader.read_json(b'{"ids": ["d1", "d2"], "features": [[0.5, 2], [0.25, 7]], "top": 1}')
    RankRequest(ids=['d1', 'd2'], table=array([[0.5 , 2. ], [0.25, 7. ]], dtype=float32), query_id=None, top=1, ...)
    >>> reader.read_json(b'{"features": [[0.5, true]]}')
    Traceback (most recent call last):
    cldrank.service.requests.RequestError: Expected `float`, got `bool` - at `$.features[0][1]`.
    """

    def __init__(
        self, names: tuple[str, ...], takes_missing: bool = False, max_candidates: int = 10_000, kind: str = "Rank"
    ) -> None:
        self.names, self.takes_missing, self.max_candidates, self.kind = names, takes_missing, max_candidates, kind
        for name in names:
            if '"' in name or "\\" in name or not name.isprintable():
                raise UsageError(
                    f"the feature {name!r} has a quote, a backslash or a control character in its name, which requests "
                    "cannot spell; rename it and train again."
                )
        of_lists, rows, features = _list_types(names, takes_missing, "Interleaved" if kind == "Interleave" else "")
        self.body = _body_type(kind, of_lists)
        self._whole, self._in_parts = msgspec.json.Decoder(self.body), msgspec.json.Decoder(_body_type(kind, _RAW))
        self._rows, self._features = map(msgspec.json.Decoder, (rows, features))
        self._layouts: dict[bytes, _Layout] = {}
        self._pack = struct.Struct(f"{len(names)}f").pack  # checks, converts and rounds; thrice as fast as np.array

    # -- JSON ------------------------------------------------------------------------------------------------------

    def read_json(self, body: bytes) -> RankRequest:
        """The request in a JSON body."""
        content = _decoded(self._whole if _is_roomy(body, len(self.names)) else self._in_parts, body)
        absent = {name for name in _LISTS if getattr(content, name) in (None, _ABSENT)}
        if len(absent & {"candidates", "features"}) != 1:
            raise RequestError("the body needs either `candidates`, or `features` with `ids`.")
        if "features" in absent:
            if "ids" not in absent:
                raise RequestError("`ids` belong to `features`; each of `candidates` has its own `id`.")
            ids, rows = self._of_candidates(content.candidates)
            table = self._table(rows)
        else:
            table = self._table(self._of_rows(content.features))
            ids = self._ids(content.ids, len(table))
        settings = {name: getattr(content, name) for name in SETTINGS[self.kind]}
        return self._checked(list(range(len(table))) if ids is None else ids, table, settings)

    def _ids(self, given: Any, most: int) -> Any:
        """A list of texts or of whole numbers; far too many are refused before they are decoded."""
        if not isinstance(given, msgspec.Raw):
            return given
        text = bytes(given)
        has_texts, most = b'"' in text, most + _SPARE
        values = text.count(b'"') // 2 if has_texts else text.count(b",")
        if values > most and (not has_texts or sum(1 for _ in _TEXT.finditer(text)) > most):
            raise RequestError("there are more `ids` than rows of features.", status=413)
        return _decoded(_LISTS_OF[str if has_texts else int], text, ".ids")

    def _of_rows(self, given: Any) -> bytes:
        """A list of rows, decoded in pieces; numbers have no brackets, so a closing bracket ends a row."""
        if not isinstance(given, msgspec.Raw):
            return self._packed(given)
        text, rows, start, end = bytes(given), 0, 1, 0
        if not text.startswith(b"["):
            _decoded(self._rows, text, ".features")  # raises
        self._check_count(text.count(b"[") - 1)
        parts = []
        while end >= 0:
            end = text.find(b"]", start + _CHUNK, -1)
            end = text.find(b",", end) if end >= 0 else end
            piece = text[start : end if end >= 0 else -1]
            part = _decoded(self._rows, b"[%s]" % piece, f".features[{rows}:]" if rows else ".features")
            parts.append(self._packed(part))
            rows, start, part = rows + len(part), end + 1, None
        return b"".join(parts)

    def _of_candidates(self, given: Any) -> tuple[list[str | int], bytes]:
        """Ids and rows; candidates with few of their features take far more memory than letters, once decoded."""
        if not isinstance(given, msgspec.Raw):
            features = [candidate.features for candidate in given]
            return [candidate.id for candidate in given], self._packed(map(msgspec.structs.astuple, features))
        candidates = _decoded(_CANDIDATE_LIST, bytes(given), ".candidates")
        ids = [candidate.id for candidate in candidates]
        self._check_count(len(ids))
        self._check_ids(ids)
        for start in range(0, len(ids), _CANDIDATES):  # all are checked before the whole table is made
            rows = self._packed(self._values(candidates[start : start + _CANDIDATES], start))
            self._checked(ids[start : start + _CANDIDATES], self._table(rows), {})
        return ids, self._packed(self._values(candidates, 0))

    def _values(self, candidates: Sequence[_Candidate], start: int) -> Iterator[tuple[Any, ...]]:
        for place, candidate in enumerate(candidates, start):
            yield msgspec.structs.astuple(
                _decoded(self._features, candidate.features, f".candidates[{place}].features")
            )

    def _packed(self, rows: Iterable[Sequence[float | None]]) -> bytes:
        """Rows as float32; None is missing."""
        if self.takes_missing:
            rows = ([math.nan if value is None else value for value in row] for row in rows)
        return b"".join(starmap(self._pack, rows))

    def _table(self, content: bytes) -> FloatTable:
        return np.frombuffer(content, dtype=np.float32).reshape(-1, len(self.names))

    # -- Arrow -----------------------------------------------------------------------------------------------------

    def read_arrow(self, body: bytes, **settings: Any) -> RankRequest:
        """The request in an Arrow IPC stream: a column for each feature, and perhaps `id`."""
        needed = [name for name, (_, default) in SETTINGS[self.kind].items() if not default]
        if absent := [name for name in needed if settings.get(name) is None]:
            raise RequestError(f"the address lacks {listed(f'`{name}`' for name in absent)}.")
        ids: list[Any] = []
        tables = [np.empty((0, len(self.names)), dtype=np.float32)]
        rows = 0
        try:
            messages = iter(pa.ipc.MessageReader.open_stream(body))
            layout = self._layout(next(messages))
            for message in messages:
                _check_batch(message)
                batch = pa.ipc.read_record_batch(message, layout.schema)
                batch.validate()
                rows += batch.num_rows
                self._check_count(rows)
                if layout.ids is not None:
                    ids += _ids(batch.column(layout.ids), len(body))
                tables.append(self._of_batch(batch, layout))
        except (pa.ArrowException, OSError, ValueError, TypeError, struct.error, StopIteration) as error:
            why = shortened_text(reason(error), 500) or "it is empty"
            raise RequestError(f"the body is not an Arrow IPC stream: {why}.", status=400) from None
        table = tables[1] if len(tables) == 2 else np.concatenate(tables)
        return self._checked(list(range(rows)) if layout.ids is None else ids, table, settings)

    def _layout(self, message: pa.ipc.Message) -> _Layout:
        """The layout of a schema; clients send the same schema again and again."""
        key = message.metadata.to_pybytes()
        if (known := self._layouts.get(key)) is not None:
            return known
        if message.type != "schema":  # Arrow would read whatever it is as a schema, and crash
            raise ValueError("it does not begin with a schema")
        layout = self._new_layout(pa.ipc.read_schema(message))
        if len(key) <= _LONGEST_SCHEMA:
            if len(self._layouts) >= 8:
                self._layouts.clear()
            self._layouts[key] = layout
        return layout

    def _new_layout(self, schema: pa.Schema) -> _Layout:
        names, kinds = schema.names, schema.types
        if names.count("id") > 1 or ("id" in names and "id" in self.names):
            raise RequestError("the column 'id' is ambiguous; send features of that name in JSON.")
        ids = names.index("id") if "id" in names else None
        if ids is not None and kinds[ids] not in _TEXTS and not pa.types.is_integer(kinds[ids]):
            raise RequestError(f"ids must be all text or all whole numbers, not {shortened_text(str(kinds[ids]))}.")
        places = {name: place for place, name in enumerate(names) if place != ids}
        for name, place in places.items():
            kind = kinds[place]
            if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
                told = shortened_text(str(kind))
                raise RequestError(f"the column {shortened(name)} must hold numbers, not {told}.")
        self._check_names([name for place, name in enumerate(names) if place != ids])
        chosen = {kinds[place] for place in places.values()}
        even = len(places) == len(self.names) and chosen in ({pa.float32()}, {pa.float64()})
        return _Layout(schema, ids, [places.get(name) for name in self.names], even)

    def _of_batch(self, batch: pa.RecordBatch, layout: _Layout) -> FloatTable:
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
            if layout.even:
                tensor = batch.select(layout.columns).to_tensor(null_to_nan=True)
                table: FloatTable = tensor.to_numpy().astype(np.float32, order="C", copy=False)
                return table
            table = np.full((batch.num_rows, len(self.names)), np.nan, dtype=np.float32)
            for place, column in enumerate(layout.columns):
                if column is not None:
                    table[:, place] = batch.column(column).to_numpy(zero_copy_only=False)
        return table

    # -- checks of both --------------------------------------------------------------------------------------------

    def _check_names(self, given: Sequence[str]) -> None:
        known = set(self.names)
        if unknown := [name for name in given if name not in known]:
            raise RequestError(f"unknown features: {some(map(shortened, unknown), 5)}; GET /ranker lists all.")
        if len(set(given)) < len(given):
            raise RequestError(f"the feature {shortened(_repeated(given))} is given twice.")
        if (absent := known - set(given)) and not self.takes_missing:
            raise RequestError(f"missing features: {some(map(shortened, sorted(absent)), 5)}.")

    def _check_count(self, candidates: int) -> None:
        if candidates > self.max_candidates:
            raise RequestError(
                f"there are {candidates:,} candidates; the service takes at most {self.max_candidates:,} "
                "(--max-candidates)."
            )

    def _check_ids(self, ids: Sequence[Any]) -> None:
        if not {type(value) for value in ids} <= {str} and not {type(value) for value in ids} <= {int}:
            raise RequestError("ids must be all text or all whole numbers.")
        if len(set(ids)) < len(ids):
            raise RequestError(f"the id {shortened(_repeated(ids))} appears twice; each candidate needs its own.")

    def _checked(self, ids: Sequence[Any], table: FloatTable, settings: Mapping[str, Any]) -> RankRequest:
        """The request; refused if ids are unfit, or a number is infinite or missing."""
        self._check_count(len(table))
        if len(ids) != len(table):
            raise RequestError(f"there are {count(len(ids), 'id')} for {count(len(table), 'row')} of features.")
        self._check_ids(ids)
        wrong = np.isinf(table) if self.takes_missing else ~np.isfinite(table)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            what = "missing" if np.isnan(table[row, column]) else "infinite, or beyond float32 (3.4e38)"
            raise RequestError(f"the feature {self.names[column]!r} of candidate {shortened(ids[row])} is {what}.")
        return RankRequest(ids, table, **settings)


@dataclass(frozen=True)
class _Layout:
    """The schema of an Arrow stream, and the places of its ids and of the column of each feature."""

    schema: pa.Schema
    ids: int | None
    columns: Sequence[int | None]
    even: bool  # all features are there, of the same float type


def _decoded(decoder: msgspec.json.Decoder[Any], text: Any, place: str = "") -> Any:
    """The value that a JSON text holds; errors name its `place` in the body."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        told = str(error).replace("`$", f"`${place}")
        told = told if not place or "`$" in told else f"{told} - at `${place}`"
        raise RequestError(f"{shortened_text(told, 300)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {shortened_text(str(error), 300)}.", status=400) from None


_LISTS = ("features", "candidates", "ids")
_Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_IDENTITY: Any = str | _Whole
_KEY: dict[str, tuple[Any, list[Any]]] = {
    "query_id": (_IDENTITY | None, [None]),
    "key": (_IDENTITY, []),
    "depth": (Annotated[int, msgspec.Meta(ge=1, le=DEEPEST_PAGE)], []),
}
SETTINGS: dict[str, dict[str, tuple[Any, list[Any]]]] = {  # by kind of request: type, and default if there is one
    "Rank": {"query_id": (_IDENTITY | None, [None]), "top": (Annotated[int, msgspec.Meta(ge=1)] | None, [None])},
    "Interleave": _KEY,
    "Swap": {**_KEY, "share": (Annotated[float, msgspec.Meta(ge=0, le=1)], [])},
}
_RAW: dict[str, tuple[Any, list[Any]]] = {name: (msgspec.Raw, [_ABSENT]) for name in _LISTS}
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())


class _Candidate(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: str | _Whole
    features: msgspec.Raw


_CANDIDATE_LIST = msgspec.json.Decoder(list[_Candidate])
_LISTS_OF: dict[type, Any] = {
    str: msgspec.json.Decoder(list[str] | None),
    int: msgspec.json.Decoder(list[_Whole] | None),
}


def _body_type(kind: str, lists: Mapping[str, tuple[Any, list[Any]]]) -> type[msgspec.Struct]:
    """The type of a JSON body."""
    every = [(name, of, *default) for name, (of, default) in {**lists, **SETTINGS[kind]}.items()]
    return msgspec.defstruct(f"{kind}Body", every, forbid_unknown_fields=True, kw_only=True)


@lru_cache(maxsize=8)
def _list_types(names: tuple[str, ...], takes_missing: bool, prefix: str) -> tuple[dict[str, Any], Any, Any]:
    """The types of the lists of a JSON body, of rows, and of features by name: exactly those of the ranker."""
    number: Any = float | None if takes_missing else float
    absent = [None] if takes_missing else []
    features: Any = msgspec.defstruct(
        f"{prefix}Features",
        [(f"f{place}", number, *absent) for place in range(len(names))],
        rename={f"f{place}": name for place, name in enumerate(names)},
        forbid_unknown_fields=True,
        gc=False,
    )
    candidate: Any = msgspec.defstruct(
        f"{prefix}Candidate", [("id", _IDENTITY), ("features", features)], forbid_unknown_fields=True, gc=False
    )
    row: Any = tuple.__class_getitem__((number,) * len(names))
    kinds: tuple[Any, ...] = (list[row], list[candidate], list[_IDENTITY])
    return {name: (kind | None, [None]) for name, kind in zip(_LISTS, kinds, strict=True)}, list[row], features


def _is_roomy(body: bytes, width: int) -> bool:
    """Whether the values of a body are long enough that, decoded whole, they take little more memory."""
    values = int(np.count_nonzero(np.frombuffer(body, np.uint8) == ord(",")))  # faster than body.count
    if (objects := body.count(b"{")) > 1:
        return max(12 * values, 2 * width * objects) <= len(body)
    return 8 * (values + body.count(b"[") + body.count(b'"')) <= len(body)


def _ids(column: pa.Array, most: int) -> list[Any]:
    """The ids in a column; views may share their letters, and would take more memory than the body has bytes."""
    column.validate(full=True)
    if pa.types.is_string_view(column.type) and len(column):
        views = np.frombuffer(column.buffers()[1], np.int32)  # four numbers each; the first is the length
        if views[4 * column.offset :: 4][: len(column)].sum(dtype=np.int64) > most:
            raise RequestError("the ids have more letters than the body has bytes; send them as strings, not views.")
    return list(column.to_pylist())


def _check_batch(message: pa.ipc.Message) -> None:
    """Refuse, by its header alone, a batch that would take more memory than it has bytes.

    Message.fbs of Arrow: a Message has its version at 4, header at 8, metadata at 12; a RecordBatch compression at 10.
    """
    if message.type != "record batch":
        raise RequestError(f"the stream holds a message of type {message.type!r}; send record batches alone.")
    content = message.metadata

    def field(table: int, slot: int) -> int:
        """Where a field of a table lies, by the table's list of offsets; 0 if it has none."""
        slots = table - struct.unpack_from("<i", content, table)[0]
        if slots < 0 or table < 0 or slot >= struct.unpack_from("<H", content, slots)[0]:
            return 0
        offset: int = struct.unpack_from("<H", content, slots + slot)[0]
        return table + offset if offset else 0

    (root,) = struct.unpack_from("<I", content)
    version, header = field(root, 4), field(root, 8)
    batch = header + struct.unpack_from("<I", content, header)[0]
    old = not version or struct.unpack_from("<h", content, version)[0] < 4
    if field(batch, 10) or field(root, 12) or old:
        raise RequestError("batches must be uncompressed, of version V5, and without metadata of their own.")


def _repeated(values: Iterable[Any]) -> Any:
    """The first value that occurs twice."""
    seen: set[Any] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
