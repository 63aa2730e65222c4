"""`ParquetFeatures`: a table of features that stays in Parquet files and is read by slices, however large it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import DataError

if TYPE_CHECKING:
    from cldrank.data.checks import Missing
    from cldrank.data.formats.parquet_pieces import ParquetPieces

BLOCK_VALUES = 1 << 21  # of a block of rows, unless its size is given: 8 MiB


class ParquetFeatures:
    """Features on disk that behave like a float32 array where that is read by slices; nothing in it can be changed.

    `features[start:stop]` is a new array, for which only the row groups that hold these rows are read, a batch at a
    time; `features[rows]` gathers rows by their numbers, best in rising order, and `features[:, 3]` is one column.
    Values are checked as they are read. Several threads may read at once. A file that changes in the meantime is
    refused.

    row_group_offsets   the rows at which row groups begin, and the number of rows at the end: what lies between two of
                        them can be read without reading anything else

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]}), f"{folder}/x.parquet", row_group_size=2)
    ...     features = ParquetFeatures.open(f"{folder}/x.parquet", ["a", "b"])
    ...     features.shape, features[1:3], features.row_group_offsets
    ((3, 2), array([[2., 5.], [3., 6.]], dtype=float32), array([0, 2, 3]))
    """

    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, pieces: ParquetPieces, starts: IntArray, offsets: IntArray) -> None:
        """Spans of the rows of some files: span i begins at row starts[i] there, and at offsets[i] here."""
        self._pieces, self._starts, self._offsets = pieces, starts, offsets

    @classmethod
    def open(
        cls,
        paths: str | PathLike[str] | Sequence[str | PathLike[str]],
        columns: Sequence[str],
        *,
        missing: Missing = None,
    ) -> Self:
        """The columns of one file, or of several one after the other.

        columns   columns of numbers, or one column of lists of numbers
        missing   the value to fill in where one is missing, or "keep"; by default a missing value is refused
        """
        from cldrank.data.formats.parquet_pieces import ParquetPieces

        listed = [paths] if isinstance(paths, str | PathLike) else paths
        pieces = ParquetPieces([Path(path) for path in listed], columns, missing)
        return cls(pieces, np.zeros(1, dtype=np.int64), np.array([0, pieces.n_rows]))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self._offsets[-1]), self._pieces.width

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the features: of the columns, or as noted with a list column, or else f1, f2, …"""
        return self._pieces.names

    @property
    def size(self) -> int:
        """The number of values."""
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        """The bytes that all of it would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        rows, width = self.shape
        return f"ParquetFeatures({rows:,} × {width:,} on disk, {self.nbytes / 2**30:,.1f} GiB as float32)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refuse to become an array as a whole, which may not fit into memory."""
        del dtype, copy
        raise DataError(
            f"the features are on disk ({self._pieces.place()}), and as an array they would take "
            f"{self.nbytes / 2**30:,.1f} GiB; read them by slices, features[start:stop], or load the data with "
            "stream=False where there is memory for that. Linear models, networks, predict and evaluate read slices."
        )

    @property
    def row_group_offsets(self) -> IntArray:
        """The rows at which row groups begin, ascending, and the number of rows at the end."""
        groups = self._pieces.group_offsets
        stops = self._starts + np.diff(self._offsets)
        first, last = np.searchsorted(groups, self._starts, "right"), np.searchsorted(groups, stops, "left")
        inner = groups[_ranges(first, last)] + np.repeat(self._offsets[:-1] - self._starts, last - first)
        moves = np.ones(len(self._starts), dtype=bool)  # spans that begin in another row group than the last one ended
        moves[1:] = first[1:] != np.searchsorted(groups, stops[:-1] - 1, "right")
        return np.unique(np.concatenate([self._offsets[:-1][moves], inner, self._offsets[-1:]]))

    def __getitem__(self, rows: Any) -> NDArray[np.float32]:
        """Some rows as a new array: a slice, row numbers, a mask or one row; or a column of them: `[rows, column]`."""
        if isinstance(rows, tuple):
            if len(rows) != 2:
                raise IndexError(f"features have rows and columns: [rows] or [rows, columns], not {len(rows)} indices.")
            return self._columns(*rows)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            return self._span(start, max(start, stop)) if step == 1 else self._gather(np.arange(start, stop, step))
        chosen = np.asarray(rows)
        if chosen.dtype == bool:
            if chosen.shape != (len(self),):
                raise IndexError(f"a mask over rows needs {len(self):,} entries, this one has {chosen.size:,}.")
            chosen = np.flatnonzero(chosen)
        if chosen.size and chosen.dtype.kind not in "iu":
            what = f"{chosen.dtype} values" if chosen.dtype != object else repr(rows)
            raise IndexError(f"rows are chosen by whole numbers, slices or a mask, not by {what}.")
        if chosen.ndim > 1:
            raise IndexError(f"rows are chosen by a flat list of numbers, not by an array of shape {chosen.shape}.")
        found = self._gather(np.atleast_1d(chosen).astype(np.int64))
        return found if chosen.ndim else found[0]

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """All rows in order, block after block, each with the number of its first row."""
        size = block_rows or max(1, BLOCK_VALUES // max(self.shape[1], 1))
        return ((start, self[start : start + size]) for start in range(0, len(self), size))

    def spans(self, starts: ArrayLike, stops: ArrayLike) -> ParquetFeatures:
        """The rows start … stop-1 of each pair, one span after the other; they stay on disk.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pq.write_table(pa.table({"a": [1.0, 2.0, 3.0, 4.0]}), f"{folder}/x.parquet")
        ...     ParquetFeatures.open(f"{folder}/x.parquet", ["a"]).spans([2, 0], [4, 1])[:].ravel()
        array([3., 4., 1.], dtype=float32)
        """
        begin, end = self._source_spans(np.asarray(starts, dtype=np.int64), np.asarray(stops, dtype=np.int64))
        opens = np.ones(len(begin), dtype=bool)
        opens[1:] = begin[1:] != end[:-1]  # else it goes on where the last one ended
        closes = np.ones(len(begin), dtype=bool)
        closes[:-1] = opens[1:]
        return ParquetFeatures(self._pieces, begin[opens], segments.from_lengths(end[closes] - begin[opens]))

    def of_columns(self, places: ArrayLike) -> ParquetFeatures:
        """Some of the columns, or all of them in another order; they stay on disk, and no other column is read."""
        return ParquetFeatures(self._pieces.of_columns(np.asarray(places)), self._starts, self._offsets)

    def _source_spans(self, starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray]:
        """Spans of rows as spans of the rows of the files; each may need several."""
        starts, stops = starts[stops > starts], stops[stops > starts]
        first = np.searchsorted(self._offsets, starts, "right") - 1
        last = np.searchsorted(self._offsets, stops, "left")
        own, asked = _ranges(first, last), np.repeat(np.arange(len(starts)), last - first)
        low = np.maximum(starts[asked], self._offsets[own])
        high = np.minimum(stops[asked], self._offsets[own + 1])
        shift = self._starts[own] - self._offsets[own]
        return low + shift, high + shift

    def _span(self, start: int, stop: int) -> NDArray[np.float32]:
        found = np.empty((stop - start, self.shape[1]), dtype=np.float32)
        begin, end = self._source_spans(np.array([start]), np.array([stop]))
        filled = 0
        for low, high in zip(begin.tolist(), end.tolist(), strict=True):
            while low < high:
                piece = self._pieces.piece(low)
                part = piece.table[low - piece.start : high - piece.start]
                found[filled : filled + len(part)] = part
                low, filled = low + len(part), filled + len(part)
        return found

    def _gather(self, rows: IntArray) -> NDArray[np.float32]:
        beyond = (rows < -len(self)) | (rows >= len(self))
        if beyond.any():
            raise IndexError(f"row {rows[beyond][0]} is out of range: there are {len(self):,} rows.")
        rows = rows % max(len(self), 1)
        own = np.searchsorted(self._offsets, rows, "right") - 1
        source = self._starts[own] + rows - self._offsets[own]
        order = np.argsort(source, kind="stable")
        rising = source[order]
        found = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        filled = 0
        while filled < len(rows):
            piece = self._pieces.piece(int(rising[filled]))
            end = int(np.searchsorted(rising, piece.start + len(piece.table)))
            found[order[filled:end]] = piece.table[rising[filled:end] - piece.start]
            filled = end
        return found

    def name_queries(self, offsets: IntArray, query_ids: NDArray[Any]) -> None:
        """Let errors about values name the query, of those that all rows of the files belong to."""
        self._pieces.queries = offsets, query_ids

    def _columns(self, rows: Any, columns: Any) -> NDArray[np.float32]:
        """A column, or several, of some rows."""
        places = np.arange(self.shape[1])[columns]
        if places.ndim > 1:
            raise IndexError(f"columns are chosen by a number, a slice or a flat list, not by {columns!r}.")
        if not isinstance(columns, slice) and places.ndim and not isinstance(rows, slice) and np.ndim(rows):
            raise IndexError(
                "an array picks a value for each pair of row and column; here, take features[rows][:, columns]."
            )
        found = self.of_columns(np.atleast_1d(places))[rows]
        return found if places.ndim else found[..., 0]


def _ranges(first: IntArray, last: IntArray) -> IntArray:
    """first[i] … last[i]-1, one range after the other."""
    sizes = last - first
    return np.repeat(last - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
