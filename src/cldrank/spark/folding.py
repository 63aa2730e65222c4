"""Folds over Spark DataFrames: a value per partition, joined there, and again in two levels."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from cldrank.errors import CldrankError, DataError
from cldrank.reading import reason

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Value = TypeVar("Value")
Join = Callable[[Any, Any], Any]

_DIRECT = 32  # partitions whose values the driver joins itself; of more, a second level joins groups first
_SCHEMA = "partition long, value binary"


def folded(
    frame: DataFrame, partitions: int, values: Callable[[Iterable[pa.RecordBatch]], Iterator[Value]], join: Join
) -> Any:
    """What `join` makes of the values that a function makes of the batches of each partition.

    Both are sent to the executors. Values are joined by the number of their partition, so that sums are the same
    whichever executor was quicker; an executor that is lost is Spark's to replace. None if there are no values.

    partitions   about how many there are: of many, groups are joined before the driver sees them
    """
    joined = _each_partition(frame, values, join)
    if partitions > _DIRECT:
        groups = math.isqrt(partitions)
        joined = _each_partition(joined.repartition(groups, joined["partition"] % groups), _unpacked, join)
    with explained():
        rows = joined.collect()
    parts = [_value(row["value"]) for row in sorted(rows, key=lambda row: row["partition"])]
    return reduce(join, parts) if parts else None


@contextmanager
def explained(expected: str = "") -> Iterator[None]:
    """Raise Spark's long errors as short ones; `expected` is what would have been right, if that is known."""
    try:
        yield
    except CldrankError:
        raise
    except Exception as error:  # Java's, as Py4J or Connect pass them on
        if not type(error).__module__.startswith(("py4j", "pyspark")):
            raise
        raise DataError(_words(str(error), expected) or f"Spark could not finish: {reason(error)}") from error


def _words(text: str, expected: str) -> str:
    """The cause that an executor reports, or else what was expected."""
    own = re.search(r"cldrank\.errors\.\w+: (.+)", text)
    if own:
        return own[1].strip()
    lacking = re.search(r"No module named '([\w.]+)'", text)
    if lacking:
        return (
            f"the Python of Spark's executors has no {lacking[1]}; they need cldrank of this version and all it needs: "
            "set PYSPARK_PYTHON to such a Python, or ship one with spark.archives."
        )
    if not expected:
        return ""
    cause = re.search(r"Caused by: [\w.$]+: (.+)", text) or re.search(r"(\[[A-Z_]+\].+)", text)
    return f"expected {expected}" + (f" ({cause[1].strip().rstrip('.')})." if cause else ".")


def _each_partition(frame: DataFrame, values: Callable[[Iterable[Any]], Iterator[Any]], join: Join) -> DataFrame:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        try:
            each = values(batches)
            first = next(each, None)
            results: list[Any] = [] if first is None else [(reduce(join, each, first),)]  # in a tuple: errors are texts
        except CldrankError as error:  # its words, in place of a traceback
            results = [str(error)]
        for result in results:
            packed = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_pydict({"partition": [number], "value": [packed]})

    return frame.mapInArrow(work, _SCHEMA)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The values of a group of partitions, in their order."""
    rows = sorted((row["partition"], row["value"]) for batch in batches for row in batch.to_pylist())
    return (_value(value) for _, value in rows)


def _value(packed: bytes) -> Any:
    """What an executor sent; an error that it met is raised here."""
    value = pickle.loads(packed)  # noqa: S301 - what `_each_partition` wrote on this cluster
    if isinstance(value, str):
        raise DataError(value)
    return value[0]
