"""Feature columns of Parquet files in pieces of bounded size, read from front to back, with the last few kept."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.formats.parquet_columns import ParquetPart, check_feature_columns, holds_lists
from cldrank.data.formats.parquet_rows import BATCH_ROWS, check_rows, feature_block, list_names
from cldrank.errors import FormatError, UsageError
from cldrank.reading import reading

_PIECE_VALUES = 1 << 21  # of a piece: 8 MiB
_KEPT_BYTES = 1 << 26  # of all pieces kept: as far as threads that read side by side may be apart
_BUFFER_BYTES = 1 << 16  # of a column, read ahead
_NOT_SENT = ("_lock", "_kept", "_cursor", "queries")  # to another process


class Piece(NamedTuple):
    """Some consecutive rows, the first of which is row `start` of all files."""

    start: int
    table: NDArray[np.float32]

    def holds(self, row: int) -> bool:
        """Whether a row is among them."""
        return self.start <= row < self.start + len(self.table)


class _File(NamedTuple):
    """What was known of a file when it was opened first."""

    path: Path  # as it was given, for errors
    place: Path  # the same from any folder
    state: tuple[int, int]
    footer: str
    groups: IntArray  # the rows of all files at which its row groups begin, and where the last one ends


class ParquetPieces:
    """The feature columns of files, one after the other, as pieces that are checked as they are read.

    A cursor reads on from where it is. What lies in a later row group is reached at once; what lies before the cursor
    and is no longer kept, from the start of its row group.
    """

    def __init__(self, paths: Sequence[Path], columns: Sequence[str], missing: Missing = None) -> None:
        if not paths:
            raise UsageError("there is nothing to read: no Parquet file was named.")
        checks.check_missing(missing)
        self._columns, self._missing, self.is_list = tuple(columns), missing, False
        self._files: list[_File] = []
        row, described = 0, []
        for path in paths:
            place = path.absolute()
            part, state, footer = _opened(path, place)
            described.append(part.description())
            if not self._files:
                self.is_list = len(self._columns) == 1 and holds_lists(part, self._columns[0])
            check_feature_columns(part, self._columns, self.is_list)
            groups = row + _group_offsets(part)
            self._files.append(_File(path, place, state, footer, groups))
            row = int(groups[-1])
        self.n_rows = row
        self.group_offsets: IntArray = np.unique(np.concatenate([file.groups for file in self._files]))
        self.width = self._length = self._first_length() if self.is_list else len(self._columns)
        self._places: IntArray | None = None  # of the features in a list, where some are chosen
        noted = list_names(paths, described, self.width) if self.is_list else self._columns
        self.names = checks.unique_names(noted, self.width)
        self._start()

    def __getstate__(self) -> dict[str, Any]:
        """All but what is open: another process opens the files anew, and finds out whether they are the same."""
        return {key: value for key, value in vars(self).items() if key not in _NOT_SENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def _start(self) -> None:
        self._lock, self._kept = Lock(), deque[Piece]()
        self.queries: tuple[IntArray, NDArray[Any]] | None = None  # offsets and ids, if errors are to name them
        self._cursor: _Cursor | None = None

    def place(self) -> str:
        """Where the files are, for errors."""
        first = self._files[0].path
        return str(first) if len(self._files) == 1 else f"{first} and {len(self._files) - 1:,} more"

    def of_columns(self, places: IntArray) -> ParquetPieces:
        """Some of the features in some order, with a cursor of their own."""
        made = object.__new__(ParquetPieces)
        made.__setstate__({**self.__getstate__(), "names": tuple(self.names[place] for place in places)})
        made.width, made.queries = len(places), self.queries
        if self.is_list:
            made._places = places if self._places is None else self._places[places]
        else:
            made._columns = tuple(self._columns[place] for place in places)
        return made

    def piece(self, row: int) -> Piece:
        """The piece that holds a row."""
        with self._lock:
            for kept in reversed(self._kept):
                if kept.holds(row):
                    return kept
            if self._cursor is None or not self._cursor.reaches(row):
                part, self._cursor = self._part_at(row), None  # the pages that it holds go first
                self._cursor = _Cursor(*part, self._columns, row, max(1, min(BATCH_ROWS, _PIECE_VALUES // self.width)))
            cursor = self._cursor
            piece = self._read(cursor)
            while not piece.holds(row):
                piece = self._read(cursor)
            if cursor.at_end:
                self._cursor = None
            return piece

    def _read(self, cursor: _Cursor) -> Piece:
        """The next piece of a cursor, checked, and kept for a while."""
        try:
            _check_unchanged(cursor.file)
            piece = self._checked(cursor.next(self._missing, self.is_list), cursor.file)
        except BaseException:
            self._cursor = None  # whoever reads this row again meets the same error
            raise
        self._kept.append(piece)
        while len(self._kept) > 1 and sum(kept.table.nbytes for kept in self._kept) > _KEPT_BYTES:
            self._kept.popleft()
        return piece

    def _part_at(self, row: int) -> tuple[_File, ParquetPart]:
        """The file that holds a row, opened, unless it is the one that is open already."""
        file = next(file for file in self._files if row < file.groups[-1])
        if self._cursor is not None and self._cursor.file is file:
            return file, self._cursor.part
        part, state, footer = _opened(file.path, file.place)
        if (state, footer) != (file.state, file.footer):
            raise _changed(file.path)
        return file, part

    def _checked(self, piece: Piece, file: _File) -> Piece:
        """Refuse lists of another length than the first, infinity and, unless they are kept, missing values."""
        own = piece.start - int(file.groups[0])
        if self.is_list and piece.table.shape[1] != self._length:
            raise FormatError(
                f"the list of features has {piece.table.shape[1]} entries in row {own} (counted from 0), "
                f"{self._length} before.",
                path=file.path,
            )
        if self._places is not None:
            piece = Piece(piece.start, piece.table[:, self._places])
        queries = None if self.queries is None else _queries_of(piece, *self.queries)
        with checks.about(file.path):
            keep = self._missing == checks.KEEP
            checks.check_finite(piece.table, self.names, queries=queries, keep=keep, first_row=own)
        return piece

    def _first_length(self) -> int:
        """The length of the first list."""
        for file in self._files:
            if file.groups[-1] > file.groups[0]:
                part, _, _ = _opened(file.path, file.place)
                return len(_Cursor(file, part, self._columns, int(file.groups[0]), 1).next(None, True).table[0])
        return 0


class _Cursor:
    """A place in a file, from which it is read on to its end."""

    def __init__(self, file: _File, part: ParquetPart, columns: Sequence[str], row: int, batch_rows: int) -> None:
        self.file, self.part = file, part
        group = self._group(row)
        self.row, self._batch_rows = int(file.groups[group]), batch_rows
        self._batches = _batches(part, group, columns, batch_rows)  # knows nothing of this cursor, so both go at once

    @property
    def at_end(self) -> bool:
        """Whether all rows of the file were read."""
        return bool(self.row >= self.file.groups[-1])

    def reaches(self, row: int) -> bool:
        """Whether reading on is a way to a row, without row groups between that could be passed over."""
        if not self.row <= row < self.file.groups[-1]:
            return False
        return row < self.row + self._batch_rows or self._group(row) == self._group(self.row)

    def next(self, missing: Missing, is_list: bool) -> Piece:
        """The next rows, with missing values filled in."""
        own = self.row - int(self.file.groups[0])
        batch: Any = next(self._batches, None)
        if batch is None:
            check_rows(self.part, own)  # it ends too early
        batch = batch.slice(0, self.part.rows - own)
        block = checks.filled(feature_block(batch.columns, is_list, self.part, own), missing)
        piece = Piece(self.row, block)
        self.row += len(block)
        return piece

    def _group(self, row: int) -> int:
        return int(np.searchsorted(self.file.groups, row, side="right")) - 1


def _queries_of(piece: Piece, offsets: IntArray, query_ids: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """Where the queries of a piece begin in it, or before it, and their ids."""
    first = int(np.searchsorted(offsets, piece.start, side="right")) - 1
    end = int(np.searchsorted(offsets, piece.start + len(piece.table)))
    return offsets[first:end] - piece.start, query_ids[first:end]


def _batches(part: ParquetPart, group: int, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches from a row group to the end of the file."""
    with reading(part.path, part.readable):
        for batch in part.groups(range(group, part.file.num_row_groups), columns, batch_rows):
            if batch.num_rows:
                yield batch


def _opened(path: Path, place: Path) -> tuple[ParquetPart, tuple[int, int], str]:
    """A file, opened to be read bit by bit, with its state and a digest of its footer."""
    part = ParquetPart.open(path, _BUFFER_BYTES, place)
    with reading(path, ParquetPart.readable):
        state = _state(place)
        with place.open("rb") as file:
            file.seek(-8, 2)
            length = int.from_bytes(file.read(4), "little")
            file.seek(-8 - length, 2)
            footer = hashlib.sha256(file.read()).hexdigest()
    return part, state, footer


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _check_unchanged(file: _File) -> None:
    try:
        same = _state(file.place) == file.state
    except OSError:
        same = False
    if not same:
        raise _changed(file.path)


def _changed(path: Path) -> FormatError:
    return FormatError("changed since it was opened; load the data again.", path=path)


def _group_offsets(part: ParquetPart) -> IntArray:
    described = part.file.metadata
    sizes = [described.row_group(group).num_rows for group in range(described.num_row_groups)]
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
