"""Rows of a DataFrame as blocks of numpy arrays, with what was observed of them. This runs on the executors."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.models.targets import Observations, Targets

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["targets", "observations"]

QUERY, DOCUMENT, FEATURES = "cldrank_query", "cldrank_document", "cldrank_features"
PAGES, LEVEL, TARGET, WEIGHT = (f"cldrank_{name}" for name in ("pages", "level", "target", "weight"))
BLOCK_COLUMN = "block"

_BLOCK_VALUES = 1 << 20
_PARTITION_BITS = 40  # of the code of a query, those that count queries within a partition


def packed_features(batch: pa.RecordBatch, names: tuple[str, ...], *, missing: bool = False) -> NDArray[np.float32]:
    """The features of some rows as a table; refused where a feature is null or not finite, or an id is null.

    missing   whether features may be missing, as null or NaN
    """
    for name, what in ((QUERY, "query"), (DOCUMENT, "document")):
        if batch[name].null_count:
            raise DataError(f"{batch[name].null_count:,} rows have no {what} id; every candidate needs one.")
    values = batch[FEATURES].flatten()
    table = np.asarray(values.fill_null(float("nan")), dtype=np.float32).reshape(batch.num_rows, len(names))
    bad = np.empty((0, 2)) if missing else np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = map(int, bad[0])
        query, document = (batch[name][row].as_py() for name in (QUERY, DOCUMENT))
        value = values[row * len(names) + column].as_py()
        raise DataError(
            f"feature {names[column]!r} of query {query}, document {document} is {'null' if value is None else value}; "
            "features must be finite float32 numbers: fill in missing values first."
        )
    return table


class PackedCounts(NamedTuple):
    """Of some blocks: rows, candidates not shown, and their weight."""

    rows: int
    absent: int
    absent_weight: float

    def joined(self, other: PackedCounts) -> PackedCounts:
        """Both together."""
        return PackedCounts(*map(operator.add, self, other))


@dataclass(frozen=True)
class Packer:
    """Makes blocks of the rows of a partition, in which each query's rows follow one another.

    kind    what was observed: targets of rows, or shown and unshown candidates
    names   of the features
    """

    kind: Kind
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each block."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        first = (0 if context is None else context.partitionId()) << _PARTITION_BITS
        for number, part in _whole_queries(batches, self.block_rows):
            for block in self._blocks(part, first + number):
                packed = pickle.dumps(block, protocol=pickle.HIGHEST_PROTOCOL)
                yield pa.RecordBatch.from_pydict({BLOCK_COLUMN: pa.array([packed], pa.binary())})

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return max(1, _BLOCK_VALUES // (len(self.names) + 1))

    def _blocks(self, rows: pa.RecordBatch, first: int) -> Iterator[tuple[Any, Any] | str]:
        """The blocks of some queries, as pairs of features and what was observed; or what is wrong with them."""
        import pyarrow.compute as pc

        try:
            features = packed_features(rows, self.names)
            queries = _query_codes(rows)
            _check_unique(rows, queries)
        except DataError as error:
            yield str(error)
            return
        seen = np.asarray(pc.fill_null(pc.list_value_length(rows[TARGET]), 0), dtype=np.int64)
        pages = np.asarray(rows[PAGES].fill_null(0.0), dtype=np.float64)
        starts = np.flatnonzero(np.diff(queries, prepend=-1))
        pages = np.maximum.reduceat(pages, starts)[queries]  # of the query, whichever of its rows has it
        kept = np.flatnonzero(seen if self.kind == "targets" else pages)
        if not len(kept):
            return
        owner = np.repeat(np.arange(len(seen)), seen)
        inside = np.flatnonzero(np.isin(owner, kept))
        columns = (LEVEL, TARGET, WEIGHT)
        level, target, weight = (np.asarray(rows[name].flatten(), dtype=np.float64)[inside] for name in columns)
        codes, numbers = first + queries[kept], np.arange(len(kept))
        observed: Targets | Observations
        if self.kind == "targets":
            observed = Targets(numbers, target, weight, codes)
        else:
            absent = np.where(seen[kept] > 0, 0.0, pages[kept])
            shown, begins = np.unique(np.searchsorted(kept, owner[inside]), return_index=True)
            offsets, places = np.append(begins, len(inside)), level.astype(np.int64)
            observed = Observations(numbers, codes, absent, shown, offsets, target, weight, level=places)
        for start in range(0, len(kept), self.block_rows):
            stop = min(start + self.block_rows, len(kept))
            yield features[kept[start:stop]], observed.part(start, stop)


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[NDArray[np.float32], Any]]:
    """The blocks of a partition."""
    for batch in batches:
        for packed in batch[BLOCK_COLUMN]:
            block = pickle.loads(packed.as_buffer())  # noqa: S301 - what `Packer` wrote on this cluster
            if isinstance(block, str):
                raise DataError(block)
            yield block


def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedCounts]:
    """The counts of each block."""
    for _, own in unpacked(batches):
        absent = np.zeros(0) if isinstance(own, Targets) else own.absent
        yield PackedCounts(len(own.queries), int((absent > 0).sum()), float(absent.sum()))


def _whole_queries(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of about `least` rows that end with a query, each with how many queries came before."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    done, last = 0, None
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        before, last = last, batch[QUERY][batch.num_rows - 1]
        if sum(part.num_rows for part in waiting) < least or before == last:  # a large query goes on
            continue
        joined = pa.concat_batches(waiting)
        codes = _query_codes(joined)
        split = int(np.searchsorted(codes, codes[-1]))  # the last query may go on
        if split:
            yield done, joined.slice(0, split)
            done += int(codes[-1])
        waiting = [joined.slice(split)]
    if waiting:
        yield done, pa.concat_batches(waiting)


def _query_codes(rows: pa.RecordBatch) -> IntArray:
    """The number of each row's query, from 0 on."""
    queries = np.asarray(rows[QUERY].dictionary_encode().indices, dtype=np.int64)
    return np.cumsum(np.diff(queries, prepend=queries[:1]) != 0)


def _check_unique(rows: pa.RecordBatch, queries: IntArray) -> None:
    """Refuse a document that a query has twice; documents of a query are sorted."""
    documents = np.asarray(rows[DOCUMENT].dictionary_encode().indices)
    twice = np.flatnonzero((np.diff(documents) == 0) & (np.diff(queries) == 0))
    if len(twice):
        query, document = (rows[name][int(twice[0])].as_py() for name in (QUERY, DOCUMENT))
        raise DataError(f"query {query} has document {document} twice; each candidate may appear once.")
