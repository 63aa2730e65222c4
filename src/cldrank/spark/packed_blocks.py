"""Rows of a DataFrame as blocks of numpy arrays, with what was observed of them. This runs on the executors."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.feature_blocks import as_float32
from cldrank.models.targets import Observations, Targets

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["targets", "observations"]
Floats = NDArray[np.float64]

QUERY, DOCUMENT, FEATURES = "cldrank_query", "cldrank_document", "cldrank_features"
PAGES, LEVEL, TARGET, WEIGHT = (f"cldrank_{name}" for name in ("pages", "level", "target", "weight"))
BLOCK = "block"

_BLOCK_VALUES = 1 << 20
_PARTITION_BITS = 40  # of the code of a query, those that count queries within a partition


def feature_blocks(names: tuple[str, ...], batches: Iterable[pa.RecordBatch]) -> Iterator[NDArray[np.float32]]:
    """The features of each batch of rows, checked."""
    for batch in batches:
        if batch.num_rows:
            yield packed_features(batch, names)


def packed_features(
    batch: pa.RecordBatch | pa.Table, names: tuple[str, ...], *, missing: bool = False
) -> NDArray[np.float32]:
    """The features of some rows as a table; refused where one is null or not finite, or an id is null.

    missing   whether features may be missing, as null or NaN
    """
    for name, what in ((QUERY, "query"), (DOCUMENT, "document")):
        if batch[name].null_count:
            raise DataError(f"{batch[name].null_count:,} rows have no {what} id; every candidate needs one.")
    column = _flat(batch[FEATURES])
    values = column.flatten()
    if missing:
        values = values.fill_null(float("nan"))
        return np.asarray(values, dtype=np.float32).reshape(len(column), len(names))
    if values.null_count:
        place = int(np.flatnonzero(np.asarray(values.is_null()))[0])
        raise _not_a_number(batch, names, place, "null")
    table = np.asarray(values).reshape(len(column), len(names))
    if not np.isfinite(table).all():
        place = int(np.flatnonzero(~np.isfinite(table).ravel())[0])
        raise _not_a_number(batch, names, place, str(table.ravel()[place]))
    return as_float32(table)


def _not_a_number(batch: Any, names: tuple[str, ...], place: int, value: str) -> DataError:
    row, column = divmod(place, len(names))
    query, document = (batch[name][row].as_py() for name in (QUERY, DOCUMENT))
    return DataError(
        f"feature {names[column]!r} of query {query}, document {document} is {value}; features must be finite float32 "
        "numbers: fill in missing values first."
    )


class PackedCounts(NamedTuple):
    """Of some blocks: rows, candidates not shown, and their weight."""

    rows: int
    absent: int
    absent_weight: float

    def joined(self, other: PackedCounts) -> PackedCounts:
        """Both together."""
        absent, weight = self.absent + other.absent, self.absent_weight + other.absent_weight
        return PackedCounts(self.rows + other.rows, absent, weight)


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
                yield pa.RecordBatch.from_pydict({BLOCK: pa.array([packed], pa.binary())})

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return max(1, _BLOCK_VALUES // (len(self.names) + 1))

    def _blocks(self, rows: pa.Table, first: int) -> Iterator[tuple[Any, Any] | str]:
        """The blocks of some queries, as pairs of features and what was observed; or what is wrong with them."""
        try:
            features = packed_features(rows, self.names)
            queries = _query_codes(rows)
            _check_unique(rows, queries)
        except DataError as error:
            yield str(error)
            return
        seen = _lengths(rows[TARGET])
        if self.kind == "targets":
            kept = np.flatnonzero(seen > 0)
        else:
            pages = _largest_of_query(np.asarray(_flat(rows[PAGES]).fill_null(0.0), dtype=np.float64), queries)
            kept = np.flatnonzero(pages > 0)
        if not len(kept):
            return
        entries = np.repeat(np.arange(len(seen)), seen)
        values = {name: _values(rows[name]) for name in (LEVEL, TARGET, WEIGHT)}
        inside = np.flatnonzero(np.isin(entries, kept))
        owner = np.searchsorted(kept, entries[inside])
        own = {name: found[inside] for name, found in values.items()}
        codes = first + queries[kept]
        nothing = np.zeros(len(kept)) if self.kind == "targets" else np.where(seen[kept] > 0, 0.0, pages[kept])
        observed = _observed(self.kind, codes, owner, own, nothing)
        for start in range(0, len(kept), self.block_rows):
            stop = min(start + self.block_rows, len(kept))
            yield features[kept[start:stop]], observed.part(start, stop)


def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[NDArray[np.float32], Any]]:
    """The blocks of a partition."""
    for batch in batches:
        for packed in batch[BLOCK]:
            block = pickle.loads(packed.as_buffer())  # noqa: S301 - what `Packer` wrote on this cluster
            if isinstance(block, str):
                raise DataError(block)
            yield block


def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedCounts]:
    """The counts of each block."""
    for _, own in unpacked(batches):
        absent = np.zeros(0) if isinstance(own, Targets) else own.absent
        yield PackedCounts(len(own.queries), int((absent > 0).sum()), float(absent.sum()))


def _observed(kind: Kind, queries: IntArray, owner: IntArray, own: dict[str, Any], absent: Floats) -> Any:
    rows = np.arange(len(queries))
    target, weight = own[TARGET], own[WEIGHT]
    if kind == "targets":
        return Targets(rows, target, weight, queries)
    shown, first = np.unique(owner, return_index=True)
    offsets, level = np.append(first, len(owner)), own[LEVEL].astype(np.int64)
    return Observations(rows, queries, absent, shown, offsets, target, weight, level=level)


def _whole_queries(batches: Iterable[pa.RecordBatch], least: int) -> Iterator[tuple[int, pa.Table]]:
    """Tables of about `least` rows that end with a query, each with how many queries came before."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    done, last = 0, None
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        before, last = last, batch[QUERY][batch.num_rows - 1]
        if sum(one.num_rows for one in waiting) < least or before == last:  # a large query goes on
            continue
        table = pa.Table.from_batches(waiting)
        codes = _query_codes(table)
        split = int(np.searchsorted(codes, codes[-1]))  # the last query may go on
        if split:
            yield done, table.slice(0, split)
            done += int(codes[-1])
        waiting = table.slice(split).to_batches()
    if waiting:
        yield done, pa.Table.from_batches(waiting)


def _query_codes(rows: pa.Table) -> IntArray:
    """The number of each row's query, from 0 on."""
    queries = np.asarray(_flat(rows[QUERY]).dictionary_encode().indices, dtype=np.int64)
    return np.cumsum(np.diff(queries, prepend=queries[:1]) != 0)


def _check_unique(rows: pa.Table, queries: IntArray) -> None:
    """Refuse a document that a query has twice; documents of a query are sorted."""
    documents = np.asarray(_flat(rows[DOCUMENT]).dictionary_encode().indices)
    twice = np.flatnonzero((np.diff(documents) == 0) & (np.diff(queries) == 0))
    if len(twice):
        query, document = (rows[name][int(twice[0])].as_py() for name in (QUERY, DOCUMENT))
        raise DataError(f"query {query} has document {document} twice; each candidate may appear once.")


def _largest_of_query(values: Floats, queries: IntArray) -> Floats:
    """For each row, the largest value among the rows of its query."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    found: Floats = np.maximum.reduceat(values, starts)[queries]
    return found


def _lengths(column: Any) -> IntArray:
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(pc.list_value_length(_flat(column)), 0), dtype=np.int64)


def _values(column: Any) -> Floats:
    return np.asarray(_flat(column).flatten(), dtype=np.float64)


def _flat(column: Any) -> Any:
    """A column in one piece."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column
