"""The rows of a linear fit on Spark: packed once, kept by the executors, folded over in each pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cldrank.models.linear.ordered import Entries
from cldrank.models.linear.rows import Array, Rows, View
from cldrank.models.targets import Observations, Targets
from cldrank.spark.folding import folded
from cldrank.spark.packing import BLOCK, PackedCounts, Packer, counted, unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class ClusterObserved:
    """What was observed of all rows: entries are known here, the candidates never shown are only counted."""

    seen: Observations | Entries | Targets
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
    def n_queries(self) -> int:
        """How many queries they belong to."""
        return self.counts.queries

    @property
    def all_shown(self) -> bool:
        """Whether nothing is left that was not shown."""
        return self.counts.absent_weight == 0

    @property
    def n_thresholds(self) -> int:
        """Of entries: how many thresholds part the places."""
        return int(self.seen.n_levels) - (1 if self.all_shown else 0)  # type: ignore[union-attr]


class SparkRows(Rows):
    """Blocks of rows that Spark keeps, in memory or on its disks, until they are no longer needed."""

    def __init__(self, joined: DataFrame, partitions: int, packer: Packer, seen: Any, view: View) -> None:
        from pyspark import StorageLevel

        blocks = joined.mapInArrow(packer, f"{BLOCK} binary").persist(StorageLevel.MEMORY_AND_DISK)
        self._blocks, self._partitions, self.view, self.compiles = blocks, partitions, view, True
        weakref.finalize(self, blocks.unpersist)
        counts = folded(blocks, partitions, counted, PackedCounts.joined) or PackedCounts(0, 0, 0.0, 0)
        self.n_rows, self.observed = counts.rows, ClusterObserved(seen, counts)

    def fold(self, function: Callable[[Array, Any], Value], join: Callable[[Value, Value], Value]) -> Value:
        """One pass: a value from each partition."""
        found: Value = folded(self._blocks, self._partitions, partial(_block_values, self.view, function), join)
        return found


def _block_values(
    view: View, function: Callable[[Array, Any], Value], batches: Iterable[pa.RecordBatch]
) -> Iterator[Value]:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # the solver looks for what is not finite
        for features, own in unpacked(batches):
            yield function(view.scaled(features), own)
