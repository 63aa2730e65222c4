"""Parquet files whose features stay on disk: loading takes one pass over ids and labels."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.folders import cache_folder
from cldrank.data.formats.parquet_columns import ColumnNames, ParquetPart, Roles, check_same_ids, is_text
from cldrank.data.formats.parquet_rows import check_rows, id_array, id_runs, row_batches
from cldrank.data.grouping import gather_queries
from cldrank.data.parquet_features import ParquetFeatures
from cldrank.errors import FormatError, Spelling
from cldrank.wording import some

_BATCH_ROWS = 1 << 16
_BUFFER_BYTES = 1 << 16  # of a column
_CHECKED_ROWS = 1 << 20  # whose document ids are compared at a time, rounded up to whole queries


def decoded_bytes(paths: Sequence[Path], columns: ColumnNames | None) -> int:
    """The bytes that the features of some files take in memory, as their footers say."""
    first = ParquetPart.open(paths[0])
    roles = Roles.of(first, columns)
    wanted = set(roles.features)

    def is_wanted(leaf: str) -> bool:  # a dot may be part of a name, or lead into the lists of a column
        return any(leaf.startswith(f"{name}.") for name in wanted) if roles.is_list else leaf in wanted

    values = 0
    for path in paths:
        described = (first if path is paths[0] else ParquetPart.open(path)).file.metadata
        for group in map(described.row_group, range(described.num_row_groups)):
            leaves = map(group.column, range(group.num_columns))
            values += sum(leaf.num_values for leaf in leaves if is_wanted(leaf.path_in_schema))
    return 4 * values


def open_parquet(
    paths: Sequence[Path], *, columns: ColumnNames | None = None, missing: Missing = None, name: str = ""
) -> RankingDataset:
    """What `read_parquet` reads, with features that stay in the files; the rows of a query must lie together there."""
    found = _Pass(paths, columns)
    if missing is None and any(one.get("has_missing", False) for one in found.described):
        missing = checks.KEEP
    with checks.about(*paths):
        features = ParquetFeatures.open(paths, found.roles.features, missing=missing)
        offsets, query_ids = found.queries()
        features.name_queries(offsets, query_ids)
        return RankingDataset._trusted(
            features=features,
            offsets=offsets,
            labels=found.row_labels(),
            query_ids=query_ids,
            doc_ids=found.row_documents(offsets),
            feature_names=features.names,
            name=name or found.described[0].get("name", ""),
            synthetic=any(one.get("synthetic", False) for one in found.described),
            source_rows=None,
            has_missing=missing == checks.KEEP,
        )


class ScatteredRowsError(FormatError):
    """Files in which the rows of a query do not lie together, so that their features cannot stay on disk."""

    def __init__(self, query: int | str, places: Sequence[str], path: str) -> None:
        super().__init__(
            "the rows of query {!r} do not lie together: some begin in {}, some in {}. Features that stay on disk are "
            "read in the order of the files, so sort these by query, for instance with DuckDB: COPY (FROM "
            "'parts/*.parquet' ORDER BY query_id) TO 'sorted.parquet'; or load them into memory, where there is "
            "enough, with {}.",
            query,
            *places,
            Spelling("stream=False", "--no-stream"),
            path=path,
        )
        self.query = query


class _Pass:
    """What one pass over the ids and labels of some files finds."""

    def __init__(self, paths: Sequence[Path], columns: ColumnNames | None) -> None:
        self._paths, self.described = paths, list[dict[str, Any]]()
        self._runs: list[tuple[IntArray, NDArray[Any]]] = []
        self._labels: list[NDArray[np.float32]] = []
        self._documents: list[Any] = []  # Arrow arrays: as text, a quarter of what numpy takes
        self._ends: list[int] = []  # of the rows of each file
        first = ParquetPart.open(paths[0], _BUFFER_BYTES)
        self.roles = Roles.of(first, columns)
        self.rows = 0
        for path in paths:
            self._add(first, first if path is paths[0] else ParquetPart.open(path, _BUFFER_BYTES))
        if not self.rows:
            raise FormatError("holds no rows.", path=paths[0])

    def _add(self, first: ParquetPart, part: ParquetPart) -> None:
        roles = self.roles
        roles.check(part)
        ids = [column for column in (roles.query_id, roles.doc_id) if column is not None]
        for column in ids:
            check_same_ids(first, part, column)
        self.described.append(part.description())
        row = 0
        for batch in row_batches(part, [*ids, *([] if roles.label is None else [roles.label])], _BATCH_ROWS):
            with checks.about(part.path):
                for column, values in zip(batch.schema.names, batch.columns, strict=True):
                    part.check_values(column, values, row)
                plain = [part.plain_ids(*one, row) for one in zip(ids, batch.columns, strict=False)]
                starts, run_ids = id_runs(plain[0])
                self._runs.append((starts + self.rows + row, run_ids))
                self._documents += plain[1:]
                if roles.label is not None:
                    self._labels.append(checks.row_labels(batch.columns[-1], batch.num_rows, row))
            row += batch.num_rows
        check_rows(part, row)
        self.rows += row
        self._ends.append(self.rows)

    def queries(self) -> tuple[IntArray, NDArray[Any]]:
        """Offsets and ids of the queries; refused where the rows of one do not lie together."""
        starts = np.concatenate([starts for starts, _ in self._runs])
        ids = np.concatenate([ids for _, ids in self._runs])
        goes_on = np.concatenate([[False], ids[1:] == ids[:-1]])  # into the next batch
        starts, ids = starts[~goes_on], ids[~goes_on]
        query_ids, offsets, order = gather_queries(starts, ids, self.rows) if len(ids) else (ids, starts, None)
        if order is not None:
            unique, first, counts = np.unique(ids, return_index=True, return_counts=True)
            scattered = unique[counts > 1][np.argmin(first[counts > 1])]
            places = [self._place(int(row)) for row in starts[ids == scattered][:2]]
            raise ScatteredRowsError(scattered.item(), places, some(self._paths, most=3))
        return offsets, query_ids

    def _place(self, row: int) -> str:
        file = int(np.searchsorted(self._ends, row, side="right"))
        return f"row {row - (self._ends[file - 1] if file else 0)} of {self._paths[file]}"

    def row_labels(self) -> NDArray[np.float32] | None:
        """One label per row, where there are some."""
        return np.concatenate(self._labels) if self._labels else None

    def row_documents(self, offsets: IntArray) -> NDArray[Any] | None:
        """One document id per row, where there are some, none twice within a query."""
        if not self._documents:
            return None
        found = _numbers(self._documents) if not is_text(self._documents[0].type) else _texts(self._documents)
        last = 0
        while last < len(offsets) - 1:
            start = int(offsets[last])
            stop = int(np.searchsorted(offsets, start + _CHECKED_ROWS)) if last < len(offsets) - 1 else last
            stop = min(max(stop, last + 1), len(offsets) - 1)
            checks.unique_doc_ids(found[start : offsets[stop]], offsets[last : stop + 1] - start, start)
            last = stop
        return found


def _numbers(chunks: list[Any]) -> NDArray[np.int64]:
    return np.concatenate([chunk.to_numpy() for chunk in chunks])


def _texts(chunks: list[Any]) -> NDArray[np.str_]:
    """Texts as numpy has them, four bytes for each letter of the longest: mapped from a file without a name."""
    whole = pa.chunked_array(chunks)
    lengths = pc.binary_length(whole)
    checks.check_lengths(len(whole), pc.max(lengths).as_py(), pc.sum(lengths).as_py())
    longest = pc.max(pc.utf8_length(whole)).as_py()
    found = _mapped(len(whole), max(longest, 1))
    end = 0
    for chunk in chunks:
        found[end : end + len(chunk)] = id_array(chunk)
        end += len(chunk)
    return found


def _mapped(rows: int, letters: int) -> NDArray[np.str_]:
    """An empty array of texts that lies in a file of the cache, or in memory where none can be written."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()) as file:  # the mapping keeps it alive
            _reserve(file.fileno(), 4 * letters * rows)
            return np.memmap(file, dtype=f"<U{letters}", mode="r+", shape=(rows,))
    except OSError:
        return np.empty(rows, dtype=f"<U{letters}")


def _reserve(file: int, size: int) -> None:
    """Make a file as long as that, with room on the disk: a write to a mapping that finds none kills the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    elif shutil.disk_usage(cache_folder()).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    else:
        os.truncate(file, size)
