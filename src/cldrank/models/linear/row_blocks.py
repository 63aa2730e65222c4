"""Where the rows of a linear fit live: in memory or on disk, on a GPU, on a cluster. A fit folds over their blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.errors import UsageError
from cldrank.feature_blocks import RemoteFeatures
from cldrank.host import available_cores, spare_memory
from cldrank.workers import ahead, fair_threads

if TYPE_CHECKING:
    from cldrank.models.fit import Context

Item = TypeVar("Item")
Value = TypeVar("Value")
Array = Any  # a numpy array or a torch tensor

_BLOCK_VALUES = 1 << 20  # 8 MiB of float64: stays in the cache between the steps of a pass
_WORTH_COMPILING = 1 << 22  # values; for fewer, the compiled loops would gain less than loading them takes
_MOST_THREADS = 8  # beyond, memory is the limit
_KEPT_BYTES = 384 << 20  # a scaled copy of an array is kept up to this size, and made in each pass beyond


class View(NamedTuple):
    """How a model sees raw features: scaled, with a last column of ones."""

    scaling: scalings.Scaling

    @property
    def width(self) -> int:
        """The number of columns, the ones included."""
        return self.scaling.n_features + 1

    def scaled(self, raw: NDArray[np.float32], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Scaled features and ones, written to `out` if given."""
        if not isinstance(self.scaling.rule, scalings.Unscaled):
            raw = self.scaling.transform(raw)
        table = np.empty((len(raw), self.width), dtype=np.float32) if out is None else out
        table[:, :-1] = raw
        table[:, -1] = 1.0
        return table


class Rows(ABC):
    """Rows as a model sees them, in blocks, each with what was observed of it.

    n_rows     the rows, of all blocks
    view       how the model sees them
    observed   of all rows together
    compiles   whether compiled loops pay
    """

    n_rows: int
    view: View
    observed: Any
    compiles: bool = False

    def solving(self) -> AbstractContextManager[Any]:
        """What surrounds the steps of a solver, between which rows are folded over."""
        return nullcontext()

    @abstractmethod
    def fold(self, function: Callable[[Array, Any], Value], join: Callable[[Value, Value], Value]) -> Value:
        """What `join` makes, in order, of what a function makes of the rows of each block and of what was observed.

        `join` must be associative, so that values may be joined wherever they are.
        """


class LocalRows(Rows):
    """Rows of this machine: of an array, perhaps mapped from disk.

    rows      (rows,) those that take part, rising; all by default
    offsets   where blocks may end, such as at the end of a query; anywhere by default
    """

    def __init__(
        self,
        features: Any,
        observed: Any,
        view: View,
        *,
        rows: IntArray | None = None,
        block_rows: int | None = None,
        offsets: IntArray | None = None,
    ) -> None:
        self._features, self.view, self.observed = features, view, observed
        self._rows = None if rows is None or len(rows) == len(features) else rows
        self.n_rows = len(features) if rows is None else len(rows)
        size = block_rows or max(1, _BLOCK_VALUES // view.width)
        cuts = np.arange(0, self.n_rows, size)
        if offsets is not None:
            cuts = offsets[np.searchsorted(offsets, cuts)]
        self.spans = list(pairwise(np.unique(np.append(cuts, self.n_rows)).tolist()))
        self.compiles = self.n_rows * view.width >= _WORTH_COMPILING
        self._table: NDArray[np.float32] | None = None
        if isinstance(features, np.ndarray) and self.n_rows * view.width * 4 <= min(_KEPT_BYTES, spare_memory()):
            table = np.empty((self.n_rows, view.width), dtype=np.float32)
            for _ in in_order(lambda span: view.scaled(self._raw(*span), out=table[slice(*span)]), self.spans):
                pass
            self._table = table

    def fold(self, function: Callable[[Array, Any], Value], join: Callable[[Value, Value], Value]) -> Value:
        """Several blocks at a time, where there are processors for it; their values are joined in order."""
        return reduce(join, in_order(lambda span: function(*self.block(span)), self.spans))

    def block(self, span: tuple[int, int]) -> tuple[NDArray[np.float32], Any]:
        """The rows of a span, and what was observed of them."""
        part = self.view.scaled(self._raw(*span)) if self._table is None else self._table[slice(*span)]
        return part, self.observed.part(*span)

    def _raw(self, start: int, stop: int) -> NDArray[np.float32]:
        if self._rows is None:
            span: NDArray[np.float32] = self._features[start:stop]
            return span
        rows = self._rows[start:stop]
        if rows[-1] - rows[0] == len(rows) - 1:  # a span is read in place, scattered rows are gathered
            return self._features[int(rows[0]) : int(rows[-1]) + 1]  # type: ignore[no-any-return]
        return self._features[rows]  # type: ignore[no-any-return]


def rows_of(
    context: Context,
    scaling: str | scalings.ScalingRule | None,
    observed: Any,
    *,
    rows: IntArray,
    device: str | None = None,
    offsets: IntArray | None = None,
) -> Rows:
    """The rows of a dataset that a fit learns from, wherever its features live; the scaling is learned from all rows.

    rows       (rows,) of the dataset, rising
    observed   what was observed of them
    device     a GPU to hold them, named as torch does
    offsets    where blocks may end; anywhere by default
    """
    features: Any = context.data.features
    if device is not None:
        if isinstance(features, RemoteFeatures):
            raise UsageError("features on Spark are not copied to a GPU; leave `device` out.")
        from cldrank.models.linear.device_rows import DeviceRows

        size = context.run.block_rows
        return DeviceRows(features, observed, scaling, rows=rows, device=device, block_rows=size)
    view = View(scalings.fit(scaling, features))
    if isinstance(features, RemoteFeatures):
        there: Rows = features.fit_rows(observed, view, rows)
        return there
    return LocalRows(features, observed, view, rows=rows, block_rows=context.run.block_rows, offsets=offsets)


def in_order(function: Callable[[Item], Value], items: Sequence[Item]) -> Iterator[Value]:
    """What a function makes of each item, in order, a few items ahead in threads; so sums come out the same anywhere.

    BLAS keeps to a single thread meanwhile: blocks side by side are quicker than threads within a block.
    """
    threads = min(len(items), fair_threads(min(available_cores(), _MOST_THREADS)))
    if threads < 2:
        yield from map(function, items)
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield from ahead(function, items, threads, 2 * threads)


def wider(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """The lower of two lows and the higher of two highs."""
    return min(first[0], second[0]), max(first[1], second[1])


def added(first: Sequence[Array | None], second: Sequence[Array | None]) -> list[Array | None]:
    """The sums of two sequences of arrays, place by place; None stands for nothing."""
    return [a if b is None else b if a is None else a + b for a, b in zip(first, second, strict=True)]
