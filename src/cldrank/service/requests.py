"""Requests: a body in JSON or Arrow becomes ids and a table of features, or is refused with the reason.

JSON is decoded into types made for one ranker: a row is a tuple with as many numbers as the ranker has features, so
msgspec refuses a wrong body at the first wrong value, before it takes much memory. A large body is decoded in pieces:
numbers of Python take more memory than their digits, and other threads wait while msgspec decodes. An Arrow stream is
read only if its headers announce plain, uncompressed batches.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import starmap
from typing import Annotated, Any

import flatbuffers
import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cldrank.arguments import shortened, shortened_text
from cldrank.errors import CldrankError, UsageError
from cldrank.reading import reason
from cldrank.wording import count, some

FloatTable = NDArray[np.float32]
LARGE = 2 << 20  # bytes of a body that is decoded in pieces
_SMALL = 1 << 16  # bytes; what so few bytes decode to takes little memory
_CHUNK = 1 << 18
_ABSENT = msgspec.Raw(b"null")


class RequestError(CldrankError):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class RankRequest:
    """One id and one row of features per candidate."""

    ids: Sequence[str | int]
    table: FloatTable
    query_id: str | int | None = None
    top: int | None = None


class RequestReader:
    """Reads the requests for a ranker with these features.

    >>> reader = RequestReader(("bm25", "age"))
    >>> reader.read_json(b'{"ids": ["d1", "d2"], "features": [[0.5, 2], [0.25, 7]], "top": 1}')
    RankRequest(ids=['d1', 'd2'], table=array([[0.5 , 2. ], [0.25, 7. ]], dtype=float32), query_id=None, top=1)
    >>> reader.read_json(b'{"features": [[0.5, true]]}')
    Traceback (most recent call last):
    cldrank.service.requests.RequestError: Expected `float`, got `bool` - at `$.features[0][1]`.
    """

    def __init__(self, names: tuple[str, ...], takes_missing: bool = False, max_candidates: int = 10_000) -> None:
        self.names, self.takes_missing, self.max_candidates = names, takes_missing, max_candidates
        for name in names:
            if '"' in name or "\\" in name or not name.isprintable():
                raise UsageError(
                    f"the feature {name!r} has a quote, a backslash or a control character in its name, which requests "
                    "cannot spell; rename it and train again."
                )
        self.body = _body_type(names, takes_missing)
        self._decoder = msgspec.json.Decoder(self.body)
        kinds = {field.name: field.type for field in msgspec.structs.fields(self.body)}
        self._parts = {name: msgspec.json.Decoder(kinds[name]) for name in _LISTS}
        self._pack = struct.Struct(f"{len(names)}f").pack  # checks, converts and rounds; thrice as fast as np.array

    # -- JSON ------------------------------------------------------------------------------------------------------

    def read_json(self, body: bytes) -> RankRequest:
        """The request in a JSON body."""
        self._check_size(body)
        given = _decoded(self._decoder, body) if len(body) <= LARGE else self._in_pieces(body)
        if (given.candidates is None) == (given.features is None):
            raise RequestError("the body needs either `candidates`, or `features` with `ids`.")
        if given.features is not None:
            rows, ids = given.features, given.ids
        elif given.ids is None and given.feature_names is None:
            rows = map(msgspec.structs.astuple, [candidate.features for candidate in given.candidates])
            ids = [candidate.id for candidate in given.candidates]
        else:
            raise RequestError("`ids` and `feature_names` go with `features`; `candidates` have both inside.")
        table = self._packed(rows)
        if given.feature_names is not None:
            table = self._in_order(given.feature_names, table)
        return self._checked(list(range(len(table))) if ids is None else ids, table, given.query_id, given.top)

    def _check_size(self, body: bytes, most: int | None = None) -> None:
        """Refuse a body with more values or objects than a request may have, before it is decoded."""
        most = (self.max_candidates + 1) * (len(self.names) + 3) if most is None else most
        most_opened = 2 * self.max_candidates + 8
        if len(body) <= _SMALL or (body.count(b",") <= most and _opened(body) <= most_opened):
            return
        values = opened = 0
        for part in _outside_texts(body):
            values += part.count(b",")
            opened += _opened(part)
        if values > most or opened > most_opened:
            raise RequestError(
                f"the body has more values than {self.max_candidates:,} candidates (--max-candidates) with "
                f"{count(len(self.names), 'feature')}.",
                status=413,
            )

    def _in_pieces(self, body: bytes) -> Any:
        """The same as decoding the body, but that its rows of features are decoded some at a time, as they are used."""
        given = _decoded(_LARGE_BODY, body)
        self._check_size(bytes(given.ids), most=self.max_candidates)
        self._check_size(bytes(given.feature_names), most=len(self.names))
        parts = {name: _decoded(self._parts[name], getattr(given, name), f".{name}") for name in _LISTS[1:]}
        rows = None if given.features == _ABSENT else self._rows(bytes(given.features))
        return self.body(**parts, features=rows, query_id=given.query_id, top=given.top)

    def _rows(self, text: bytes) -> Iterator[Sequence[float | None]]:
        """The rows of a list, some at a time; numbers have no brackets, so one that closes ends a row."""
        decoder, rows, start, end = self._parts["features"], 0, 1, 0
        if not text.startswith(b"["):
            _decoded(decoder, text, ".features")  # raises
        while end >= 0:
            end = text.find(b"]", start + _CHUNK, -1)
            end = text.find(b",", end) if end >= 0 else end
            piece = text[start : end if end >= 0 else -1]
            yield from (part := _decoded(decoder, b"[%s]" % piece, f".features[{rows}:]" if rows else ".features"))
            rows, start = rows + len(part), end + 1

    def _packed(self, rows: Iterable[Sequence[float | None]]) -> FloatTable:
        """Rows as float32; None is missing."""
        if self.takes_missing:
            rows = ([math.nan if value is None else value for value in row] for row in rows)
        return np.frombuffer(b"".join(starmap(self._pack, rows)), dtype=np.float32).reshape(-1, len(self.names))

    def _in_order(self, given: list[str], table: FloatTable) -> FloatTable:
        """The columns of a table, named by the client, in the ranker's order."""
        if sorted(given) != sorted(self.names):
            self._check_names(given)
            raise RequestError(f"`feature_names` must name each feature once; it has {len(given)} names.")
        return table[:, [given.index(name) for name in self.names]]

    # -- Arrow -----------------------------------------------------------------------------------------------------

    def read_arrow(self, body: bytes, query_id: str | None = None, top: int | None = None) -> RankRequest:
        """The request in an Arrow IPC stream: features as columns or as one column of lists, and perhaps `id`."""
        try:
            _check_batches(body)
            batches = list(pa.ipc.open_stream(body))
            for batch in batches:
                batch.validate(full=True)
            _ = [batch.schema.names for batch in batches]  # may not be text
        except (pa.ArrowException, OSError, ValueError, TypeError, struct.error) as error:
            why = shortened_text(reason(error), 500)
            raise RequestError(f"the body is not an Arrow IPC stream: {why}.", status=400) from None
        self._check_count(sum(batch.num_rows for batch in batches))
        if not batches:
            return RankRequest([], np.empty((0, len(self.names)), dtype=np.float32), query_id, top)
        table = pa.Table.from_batches(batches)
        named = "id" in self.names and not any(pa.types.is_fixed_size_list(kind) for kind in table.schema.types)
        if table.column_names.count("id") > 1 or ("id" in table.column_names and named):
            raise RequestError("the column 'id' is ambiguous; send the features as one column of lists.")
        ids: list[Any] = list(range(len(table)))
        if "id" in table.column_names:
            ids, table = table["id"].to_pylist(), table.drop_columns("id")
        return self._checked(ids, self._of_columns(table), query_id, top)

    def _of_columns(self, columns: pa.Table) -> FloatTable:
        for field in columns.schema:
            kind = field.type.value_type if pa.types.is_fixed_size_list(field.type) else field.type
            if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
                raise RequestError(f"the column {shortened(field.name)} must hold numbers, not {field.type}.")
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
            if len(columns.schema) == 1 and pa.types.is_fixed_size_list(columns.schema[0].type):
                return self._of_lists(columns.column(0), columns.schema[0].type.list_size)
            names = columns.column_names
            self._check_names(names)
            table = np.full((len(columns), len(self.names)), np.nan, dtype=np.float32)
            for place, name in enumerate(self.names):
                if name in names:
                    table[:, place] = columns[name].to_numpy()
        return table

    def _of_lists(self, column: pa.ChunkedArray, length: int) -> FloatTable:
        if length != len(self.names) or column.null_count:
            raise RequestError(f"each list must have {count(len(self.names), 'feature')}; they have {length}.")
        flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
        table: FloatTable = flat.astype(np.float32).reshape(-1, length)
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

    def _checked(self, ids: Sequence[Any], table: FloatTable, query_id: Any, top: int | None) -> RankRequest:
        """The request; refused if ids are unfit, or a number is infinite or missing."""
        self._check_count(len(table))
        if len(ids) != len(table):
            raise RequestError(f"there are {count(len(ids), 'id')} for {count(len(table), 'row')} of features.")
        if not {type(value) for value in ids} <= {str} and not {type(value) for value in ids} <= {int}:
            raise RequestError("ids must be all text or all whole numbers.")
        if len(set(ids)) < len(ids):
            raise RequestError(f"the id {shortened(_repeated(ids))} appears twice; each candidate needs its own.")
        wrong = np.isinf(table) if self.takes_missing else ~np.isfinite(table)
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            what = "missing" if np.isnan(table[row, column]) else "infinite, or beyond float32 (3.4e38)"
            raise RequestError(f"the feature {self.names[column]!r} of candidate {shortened(ids[row])} is {what}.")
        return RankRequest(ids, table, query_id, top)


def _decoded(decoder: msgspec.json.Decoder[Any], text: Any, place: str = "") -> Any:
    """What a text holds, which is found at a place of the body."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise RequestError(f"{shortened_text(str(error).replace('`$', f'`${place}'), 300)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {shortened_text(str(error), 300)}.", status=400) from None


_LISTS = ("features", "candidates", "ids", "feature_names")
_IDENTITY: Any = str | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_REST: list[tuple[str, Any, Any]] = [
    ("query_id", _IDENTITY | None, None),
    ("top", Annotated[int, msgspec.Meta(ge=1)] | None, None),
]
_LARGE_BODY = msgspec.json.Decoder(
    msgspec.defstruct(
        "LargeBody", [*((name, msgspec.Raw, _ABSENT) for name in _LISTS), *_REST], forbid_unknown_fields=True
    )
)


@lru_cache(maxsize=8)
def _body_type(names: tuple[str, ...], takes_missing: bool) -> type[msgspec.Struct]:
    """The type of a JSON body; features and rows have exactly the ranker's features."""
    number: Any = float | None if takes_missing else float
    absent = [None] if takes_missing else []
    features: Any = msgspec.defstruct(
        "Features",
        [(f"f{place}", number, *absent) for place in range(len(names))],
        rename={f"f{place}": name for place, name in enumerate(names)},
        forbid_unknown_fields=True,
        gc=False,
    )
    candidate: Any = msgspec.defstruct(
        "Candidate", [("id", _IDENTITY), ("features", features)], forbid_unknown_fields=True, gc=False
    )
    row: Any = tuple.__class_getitem__((number,) * len(names))
    kinds: tuple[Any, ...] = (list[row], list[candidate], list[_IDENTITY], list[str])
    lists = [(name, kind | None, None) for name, kind in zip(_LISTS, kinds, strict=True)]
    return msgspec.defstruct("RankBody", [*lists, *_REST], forbid_unknown_fields=True)


def _opened(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _outside_texts(body: bytes) -> Iterable[bytes]:
    """The parts of JSON that are not in quotes, in pieces."""
    inside = 0
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    for start in range(0, len(plain), _CHUNK):
        chunk = np.frombuffer(plain, np.uint8, min(_CHUNK, len(plain) - start), start)
        quotes = inside + np.cumsum(chunk == ord('"'), dtype=np.int32)
        inside = int(quotes[-1]) % 2
        yield chunk[quotes % 2 == 0].tobytes()


def _check_batches(body: bytes) -> None:
    """Refuse, by their headers alone, batches that would take more memory than they have bytes.

    Message.fbs of Arrow: a Message has its version at 4, header at 8, metadata at 12; a RecordBatch compression at 10.
    """
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type == "schema":
            continue
        if message.type != "record batch":
            raise RequestError(f"the stream holds a message of type {message.type!r}; send record batches alone.")
        content = bytearray(message.metadata.to_pybytes())
        root = flatbuffers.table.Table(content, struct.unpack_from("<I", content)[0])
        batch = flatbuffers.table.Table(content, root.Indirect(root.Pos + root.Offset(8)))
        if batch.Offset(10) or root.Offset(12) or root.GetSlot(4, 0, flatbuffers.number_types.Int16Flags) < 4:
            raise RequestError("batches must be uncompressed, of version V5, and without metadata of their own.")


def _repeated(values: Iterable[Any]) -> Any:
    """The first value that was there before."""
    seen: set[Any] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
