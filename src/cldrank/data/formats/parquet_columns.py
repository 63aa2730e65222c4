"""The columns of Parquet files and frames: which one holds what, and whether its type allows that."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank.data import checks
from cldrank.errors import FormatError, Spelling, UsageError
from cldrank.reading import reading
from cldrank.wording import some

ColumnNames = Mapping[str, str | Sequence[str]]

METADATA = b"cldrank"
_LARGEST = 2**63 - 1
ARGUMENTS = {"query_id": "query", "doc_id": "doc", "label": "label", "features": "features"}  # of `load`, by role
_ROLES = tuple(ARGUMENTS)
_CHOICE = Spelling("features=[…]", "--column features=a,b,…")


class TablePart(ABC):
    """Columns with names and types: a file of a data set, or a frame in memory.

    path       what errors call it
    readable   what it should be, for errors
    """

    path: Path | str
    readable: ClassVar[str]

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The names of all columns."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of rows that it promises."""

    @property
    @abstractmethod
    def metadata(self) -> Mapping[bytes, bytes]:
        """What was noted about the whole."""

    @abstractmethod
    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns, batch by batch, in this order."""

    @abstractmethod
    def _type(self, column: str) -> pa.DataType:
        """The type of a column."""

    @abstractmethod
    def _values(self, column: str) -> pa.ChunkedArray:
        """A whole column."""

    def shared(self, features: Sequence[str]) -> NDArray[np.float32] | None:
        """The features as they lie in memory, if they lie there as a dataset has them; None if they must be copied."""
        del features
        return None

    def hint(self, column: str) -> str:
        """Where a column that is not there may be found."""
        del column
        return ""

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How often each column name appears."""
        return Counter(self.names)

    def kind(self, column: str) -> pa.DataType:
        """The type of a column; refused where two have that name."""
        if self.counts[column] > 1:
            raise FormatError(f"column {column!r} appears more than once; names must be unique.", path=self.path)
        return self._type(column)

    def column(self, column: str) -> pa.ChunkedArray:
        """A whole column without nulls."""
        with reading(self.path, self.readable):
            values = self._values(column)
        if len(values) != self.rows:
            raise FormatError(f"column {column!r} ends after {len(values):,} of {self.rows:,} rows.", path=self.path)
        self.check_values(column, values)
        return values

    def check_values(self, column: str, values: Any, first_row: int = 0) -> None:
        """Refuse nulls, and text that is not UTF-8, in rows of a column from `first_row` on."""
        with reading(self.path, self.readable):
            values.validate(full=True)
        if values.null_count:
            what = "the label" if column == "label" else f"column {column!r}"
            row = first_row + pc.index(values.is_null(), True).as_py()
            raise FormatError(f"{what} is null in row {row} (counted from 0); every row needs one.", path=self.path)

    def plain_ids(self, column: str, values: Any, first_row: int = 0) -> Any:
        """Ids without nulls as int64 or text, from `first_row` on."""
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_uint64(values.type) and len(values) and pc.max(values).as_py() > _LARGEST:
            row = pc.index(pc.greater(values, pa.scalar(_LARGEST, pa.uint64())), True).as_py()
            raise FormatError(
                f"column {column!r} is {values[row]} in row {first_row + row} (counted from 0), too large for a 64-bit "
                "number; store such ids as text.",
                path=self.path,
            )
        return values.cast(pa.large_string() if is_text(values.type) else pa.int64())

    def description(self) -> dict[str, Any]:
        """The metadata that `save_parquet` wrote; empty for other files."""
        raw = self.metadata.get(METADATA)
        if raw is None:
            return {}
        try:
            described = json.loads(raw)
        except (ValueError, RecursionError):
            described = None
        if isinstance(described, dict):
            names = described.get("feature_names", [])
            is_listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
            is_named = isinstance(described.get("name", ""), str)
            flags = [described.get(key, False) for key in ("synthetic", "has_missing")]
            if is_listed and is_named and all(isinstance(flag, bool) for flag in flags):
                return described
        raise FormatError(
            "the metadata 'cldrank', with the name of the data and whether it is synthetic, is damaged; write the file "
            "again.",
            path=self.path,
        )


class ParquetPart(TablePart):
    """One file of a data set."""

    path: Path
    readable = "a readable Parquet file"

    def __init__(self, path: Path, file: pq.ParquetFile) -> None:
        self.path, self.file, self.schema = path, file, file.schema_arrow

    @classmethod
    def open(cls, path: Path, buffer_bytes: int = 0, place: Path | None = None) -> ParquetPart:
        """The file at a path, opened.

        buffer_bytes   for each column: with a buffer, the file is read bit by bit, not ahead
        place          where the file is, if the path, which errors name, was given in another folder
        """
        place = place or path
        checks.check_file(place)
        with reading(path, cls.readable):
            return cls(path, pq.ParquetFile(place, buffer_size=buffer_bytes, pre_buffer=not buffer_bytes))

    @property
    def names(self) -> Sequence[str]:
        """The names of all columns."""
        return list(self.schema.names)

    @property
    def rows(self) -> int:
        """The number of rows that the file promises."""
        return int(self.file.metadata.num_rows)

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """What was noted about the whole."""
        return self.schema.metadata or {}

    def batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns, batch by batch, in this order."""
        return self.groups(range(self.file.num_row_groups), columns, batch_rows)

    def groups(self, groups: Sequence[int], columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The same for some row groups."""
        for batch in self.file.iter_batches(batch_size=batch_rows, row_groups=list(groups), columns=list(columns)):
            yield batch.select(list(columns))

    def _type(self, column: str) -> pa.DataType:
        return self.schema.field(column).type

    def _values(self, column: str) -> pa.ChunkedArray:
        return self.file.read(columns=[column]).column(column)


@dataclass(frozen=True)
class Roles:
    """Which column holds what; unless `columns` names the features, they are all columns without another role."""

    query_id: str
    doc_id: str | None
    label: str | None
    features: tuple[str, ...]
    is_list: bool = False
    takes_all: bool = False

    @classmethod
    def of(cls, part: TablePart, columns: ColumnNames | None) -> Roles:
        """The roles of the columns, as `columns` says or by their names."""
        mapped = _checked_columns(part, columns)
        names = part.names

        def one(role: str) -> str | None:
            named = mapped.get(role, role if role in part.counts else None)
            if named is not None and not isinstance(named, str):
                raise UsageError("{} takes the name of one column, not {!r}.", Spelling(ARGUMENTS[role], role), named)
            return named

        query_id, doc_id, label = one("query_id"), one("doc_id"), one("label")
        if query_id is None:
            raise FormatError(
                "there is no column 'query_id'; it has {}. Name the right one with {}.",
                _quoted(names),
                Spelling("query=…", "--column query_id=…"),
                path=part.path,
            )
        wanted = mapped.get("features", "features" if "features" in part.counts else None)
        for column in [wanted] if isinstance(wanted, str) else wanted or ():
            if column in (query_id, doc_id, label):
                raise UsageError(
                    "column {!r} cannot be a feature and the {} too; leave it out of {}.",
                    column,
                    next(
                        word for word, one in zip(ARGUMENTS, (query_id, doc_id, label), strict=False) if one == column
                    ),
                    _CHOICE,
                )
        if isinstance(wanted, str):
            return cls(query_id, doc_id, label, (wanted,), is_list=holds_lists(part, wanted))
        if wanted is not None:
            return cls(query_id, doc_id, label, tuple(wanted))
        rest = tuple(column for column in names if column not in (query_id, doc_id, label))
        _refuse_log(part, rest)
        return cls(query_id, doc_id, label, rest, takes_all=True)

    def check(self, part: TablePart) -> None:
        """Refuse a part that lacks a column, or has one twice, of the wrong type, or that the first part lacks."""
        used = [column for column in (self.query_id, self.doc_id, self.label, *self.features) if column is not None]
        for column in used:
            if column not in part.counts:
                raise FormatError(f"there is no column {column!r}, which the first part has.", path=part.path)
        extra = set(part.counts).difference(used) if self.takes_all else ()
        if extra:
            raise FormatError(
                "column {!r} is not in the first part; choose the feature columns with {}.",
                min(extra),
                _CHOICE,
                path=part.path,
            )
        if not self.features:
            raise FormatError("there is no feature column.", path=part.path)
        for column in used[: 1 if self.doc_id is None else 2]:
            check_ids(part, column)
        check_feature_columns(part, self.features, self.is_list)
        if self.label is not None and not is_number(part.kind(self.label)):
            raise FormatError(
                f"column {self.label!r} holds {part.kind(self.label)}; labels are numbers.", path=part.path
            )


def _refuse_log(part: TablePart, rest: Sequence[str]) -> None:
    """Refuse a click log where features should be: a ranker that learns from `clicked` knows the answer."""
    if "clicked" in rest and {"position", "session_id"}.intersection(rest):
        raise FormatError(
            "this looks like a click log ({}), not like features of candidates; logs are read by {}. If these are "
            "features, choose them with {}.",
            _quoted(part.names),
            Spelling("ClickTable.read", "--clicks"),
            _CHOICE,
            path=part.path,
        )


def _checked_columns(part: TablePart, columns: ColumnNames | None) -> dict[str, str | Sequence[str]]:
    mapped = dict(columns or {})
    unknown = set(mapped) - set(_ROLES)
    if unknown:
        raise UsageError(
            "{} has the role {!r}; the roles are {}.", Spelling("columns", "--column"), min(unknown), ", ".join(_ROLES)
        )
    for role, named in mapped.items():
        if not isinstance(named, str | Sequence):
            raise UsageError("{} takes the name of a column, not {!r}.", Spelling(ARGUMENTS[role], role), named)
        for column in [named] if isinstance(named, str) else named:
            if column not in part.counts:
                raise FormatError(
                    "there is no column {!r} (named as {}); it has {}.{}",
                    column,
                    Spelling(ARGUMENTS[role], role),
                    _quoted(part.names),
                    part.hint(column),
                    path=part.path,
                )
    if not mapped and {"position", "impressions", "clicks"} <= set(part.counts):
        raise FormatError("holds cells of a click log, not features; see `cldrank clicks show`.", path=part.path)
    return mapped


def check_ids(part: TablePart, column: str) -> None:
    """Refuse a column of ids that holds anything but whole numbers or text."""
    kind = part.kind(column)
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_integer(kind) or is_text(kind)):
        raise FormatError(f"column {column!r} holds {kind}; ids are whole numbers or text.", path=part.path)


def check_same_ids(first: TablePart, part: TablePart, column: str) -> None:
    """Refuse a part whose ids are text where those of the first are numbers, or the other way round."""
    here, there = (_holds_text(one, column) for one in (part, first))
    if here != there:
        words = {True: "text", False: "whole numbers"}
        raise FormatError(
            f"column {column!r} holds {words[here]} here, {words[there]} in {first.path}.", path=part.path
        )


def _holds_text(part: TablePart, column: str) -> bool:
    kind = part.kind(column)
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def check_feature_columns(part: TablePart, columns: Sequence[str], is_list: bool) -> None:
    """Refuse feature columns that are not there, or that do not hold numbers, or lists of them."""
    for column in columns:
        if column not in part.counts:
            raise FormatError(f"there is no column {column!r}; it has {_quoted(part.names)}.", path=part.path)
        _check_list(part, column) if is_list else check_numeric(part, column)


def check_numeric(part: TablePart, column: str) -> None:
    """Refuse a column that does not hold numbers, or true and false."""
    kind = part.kind(column)
    if not is_number(kind):
        raise FormatError(
            "column {!r} holds {}, not numbers; choose the feature columns with {}.",
            column,
            kind,
            _CHOICE,
            path=part.path,
        )


def _check_list(part: TablePart, column: str) -> None:
    kind = part.kind(column)
    if not _is_list(kind) or not is_number(kind.value_type):
        raise FormatError(f"column {column!r} holds {kind}, not lists of numbers.", path=part.path)


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is a number, or true and false."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text, of any layout."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def holds_lists(part: TablePart, column: str) -> bool:
    """Whether a column holds a list in each row."""
    return column in part.counts and _is_list(part.kind(column))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _quoted(names: Sequence[str]) -> str:
    return some(map(repr, names), most=8)
