"""`SparkFeatures`: the features of a `SparkDataset`, and `SparkRows`: the rows of a linear fit on them.

Rows are packed into blocks once and kept by the executors; each pass of a fit folds over them.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.candidates import Candidates
from cldrank.errors import UsageError
from cldrank.feature_blocks import RemoteFeatures
from cldrank.models.linear.row_blocks import Array, Rows, View
from cldrank.models.targets import Observations, Targets
from cldrank.spark.folding import explained, folded
from cldrank.spark.packed_blocks import (
    BLOCK_COLUMN,
    DOCUMENT,
    FEATURES,
    LEVEL,
    PAGES,
    QUERY,
    TARGET,
    WEIGHT,
    Kind,
    PackedCounts,
    Packer,
    counted,
    packed_features,
    unpacked,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Value = TypeVar("Value")

_PARTITION_BYTES = 128 << 20  # of features: so that an executor holds many partitions, and each of them with ease
_MANY = 64  # partitions are assumed of a table in a lake, as asking for their number may cost a pass
_ELSEWHERE = "the features are on Spark and are not copied to this machine, where this call needs them."


class SparkFeatures(RemoteFeatures):
    """Features in a DataFrame: those of the candidates that were shown, and of all others of their queries.

    frame        query, document and features, a row for each candidate
    names        of the features
    candidates   those that were shown, whose rows are counted here
    """

    def __init__(self, frame: DataFrame, names: tuple[str, ...], candidates: Candidates) -> None:
        self._frame, self._names, self._candidates = frame, names, candidates

    @property
    def shape(self) -> tuple[int, int]:
        """The candidates that were shown, and the features."""
        return self._candidates.n_rows, len(self._names)

    def __getitem__(self, rows: Any) -> Any:
        """Refuse to give rows."""
        raise UsageError(_ELSEWHERE)

    def spans(self, starts: IntArray, stops: IntArray) -> SparkFeatures:
        """The features of some queries, by the first and the last row of each, which stay on Spark."""
        del stops  # a query has all its rows
        kept = np.searchsorted(self._candidates.offsets, starts)
        others = np.setdiff1d(np.arange(self._candidates.n_queries), kept)
        left_out = self._of_queries(self._candidates.query_ids[others])
        frame = self._frame.join(left_out, QUERY, "left_anti")
        return SparkFeatures(frame, self._names, self._candidates.select(kept)[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refuse to become an array."""
        del dtype, copy
        raise UsageError(_ELSEWHERE)

    def fold(self, function: Callable[[NDArray[np.float32]], Value], join: Callable[[Value, Value], Value]) -> Value:
        """A pass over all candidates, those of queries that were never displayed included."""
        value: Value = folded(self._frame, _MANY, partial(_table_values, self._names, function), join)
        return value

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the names, the number of rows and a sum of their hashes, whatever their order.

        It tells tables on Spark apart, but differs from that of the same data in memory.
        """
        from pyspark.sql import functions as sql

        hashed = sql.xxhash64(QUERY, DOCUMENT, FEATURES).cast("decimal(38,0)")
        with explained():
            row = self._frame.select(sql.count(sql.lit(1)).alias("rows"), sql.sum(hashed).alias("sum")).first()
        return hashlib.sha256(repr((self._names, row["rows"], str(row["sum"]))).encode()).hexdigest()

    @cached_property
    def n_unseen(self) -> int:
        """How many candidates of the same queries were never shown."""
        from pyspark.sql.functions import col

        displayed = self._of_queries(self._candidates.query_ids)
        with explained():
            count = self._frame.select(col(QUERY)).join(displayed, QUERY, "left_semi").count()
        return int(count) - self._candidates.n_rows

    def _of_queries(self, ids: NDArray[Any]) -> DataFrame:
        """A DataFrame of the ids of some queries."""
        import pyarrow as pa

        return self._frame.sparkSession.createDataFrame(pa.table({QUERY: pa.array(ids.astype(np.str_))}))

    def fit_rows(self, observed: Any, view: View, rows: IntArray) -> SparkRows:
        """The rows of a fit: candidates joined with what was observed of them.

        rows   of the candidates that were shown, those of which something was observed
        """
        session = self._frame.sparkSession
        kind: Kind = "targets" if isinstance(observed, Targets) else "observations"
        seen = session.createDataFrame(_entries(self._candidates, observed, rows))
        keys = [QUERY, DOCUMENT]
        joined = self._frame.join(seen, keys, "left")
        with explained():
            size = 4 * self._frame.count() * len(self._names)
        partitions = max(int(session.conf.get("spark.sql.shuffle.partitions")), -(-size // _PARTITION_BYTES))
        together = joined.repartition(partitions, QUERY).sortWithinPartitions(*keys)
        return SparkRows(together, partitions, Packer(kind, self._names), observed, view)


@dataclass(frozen=True, eq=False)
class ClusterObserved:
    """What was observed of all rows: entries are known here, the candidates never shown are only counted."""

    seen: Observations | Targets
    counts: PackedCounts

    def __getattr__(self, name: str) -> Any:
        return getattr(self.seen, name)

    @property
    def total(self) -> float:
        """The weight of all rows, W."""
        return float(self.seen.weight.sum()) + self.counts.absent_weight

    @property
    def n_rows(self) -> int:
        """How many weighted rows there are."""
        return len(self.seen.weight) + self.counts.absent

    @property
    def all_shown(self) -> bool:
        """Whether nothing is left that was not shown."""
        return self.counts.absent_weight == 0

    @property
    def n_thresholds(self) -> int:
        """How many thresholds separate the levels of the entries."""
        return int(self.seen.n_levels) - (1 if self.all_shown else 0)  # type: ignore[union-attr]


class SparkRows(Rows):
    """Blocks of rows that Spark keeps, in memory or on its disks, until they are no longer needed."""

    def __init__(self, joined: DataFrame, partitions: int, packer: Packer, seen: Any, view: View) -> None:
        from pyspark import StorageLevel

        blocks = joined.mapInArrow(packer, f"{BLOCK_COLUMN} binary").persist(StorageLevel.MEMORY_AND_DISK)
        self._blocks, self._partitions, self.view, self.compiles = blocks, partitions, view, True
        weakref.finalize(self, blocks.unpersist)
        counts = folded(blocks, partitions, counted, PackedCounts.joined) or PackedCounts(0, 0, 0.0)
        self.n_rows, self.observed = counts.rows, ClusterObserved(seen, counts)

    def fold(self, function: Callable[[Array, Any], Value], join: Callable[[Value, Value], Value]) -> Value:
        """A pass over the blocks: a value from each partition."""
        value: Value = folded(self._blocks, self._partitions, partial(_block_values, self.view, function), join)
        return value


def _block_values(
    view: View, function: Callable[[Array, Any], Value], batches: Iterable[pa.RecordBatch]
) -> Iterator[Value]:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the solver looks for what is not finite
        for features, own in unpacked(batches):
            yield function(view.scaled(features), own)


def _table_values(
    names: tuple[str, ...], function: Callable[[NDArray[np.float32]], Value], batches: Iterable[pa.RecordBatch]
) -> Iterator[Value]:
    return (function(packed_features(batch, names)) for batch in batches if batch.num_rows)


def _entries(candidates: Candidates, observed: Targets | Observations, rows: IntArray) -> pa.Table:
    """What was observed of each candidate, and what a never-shown candidate of its query weighs."""
    import pyarrow as pa

    level, pages = np.ones(len(observed.target)), None
    if isinstance(observed, Targets):
        offsets = np.arange(len(rows) + 1)
    else:
        rows, offsets, pages = rows[observed.shown], observed.offsets, observed.pages  # the join finds the others
        level = level if observed.level is None else observed.level.astype(np.float64)
    values = {LEVEL: level, TARGET: observed.target, WEIGHT: observed.weight}
    begins, queries = pa.array(offsets.astype(np.int32)), candidates.row_queries[rows]
    return pa.table(
        {
            QUERY: pa.array(candidates.query_ids[queries].astype(np.str_)),
            DOCUMENT: pa.array(candidates.doc_ids[rows].astype(np.str_)),
            PAGES: pa.array(np.zeros(len(rows)) if pages is None else pages[queries]),
            **{name: pa.ListArray.from_arrays(begins, pa.array(own)) for name, own in values.items()},
        }
    )
