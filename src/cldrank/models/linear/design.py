"""The columns of a linear model, block by block: scaled, and brought near mean 0 and size 1 for the arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank._typing import IntArray
from cldrank.rankers.devices import device_of
from cldrank.workers import ahead, available_cores, fair_threads

Array = Any  # a numpy array or a torch tensor
Item = TypeVar("Item")
Result = TypeVar("Result")

_BLOCK_VALUES = 1 << 20  # 8 MiB of float64: stays in the cache between the steps of a pass
_DEVICE_VALUES = 1 << 25  # on an accelerator, few large blocks
_WORTH_COMPILING = 1 << 22  # values; for fewer, the compiled loops would gain less than loading them takes
_MOST_THREADS = 8  # beyond, memory is the limit
_KEPT_BYTES = 384 << 20  # a scaled copy up to this size is kept; a larger one is made again in each pass


class Block:
    """The rows from `start` to `stop` as the model sees them: in float64, and in float32 for what need not be exact.

    Without `wide` the two are the same numbers, and compiled loops read float32 without a wide copy being made.

    >>> block = Block(0, 2, None, np.array([[1, 2], [3, 4]], dtype=np.float32))
    >>> block.dot(np.array([1.0, 0.5])), block.back(np.array([1.0, 0.5]))
    (array([2., 5.]), array([2.5, 4. ]))
    """

    def __init__(self, start: int, stop: int, wide: Array | None, narrow: Array) -> None:
        self.start, self.stop, self.narrow, self._wide = start, stop, narrow, wide

    @property
    def wide(self) -> Array:
        """The rows in float64."""
        if self._wide is None:
            self._wide = self.narrow.astype(np.float64)
        return self._wide

    def dot(self, coefficients: Array) -> Array:
        """Of each row, Σ column * coefficient, in float64."""
        return self.wide @ coefficients if self._wide is not None else _kernel().dot(self.narrow, coefficients)

    def back(self, values: Array) -> Array:
        """Of each column, Σ value of the row * entry, in float64."""
        return self.wide.T @ values if self._wide is not None else _kernel().back(self.narrow, values)

    def take(self, places: Array) -> Array:
        """Some of the rows, in float64."""
        return self.narrow[places].astype(np.float64) if self._wide is None else self._wide[places]

    def gram(self, weight: Array, narrow: bool) -> Array:
        """Σ weight x xᵀ over the rows, in sums of float32 if `narrow`."""
        if self._wide is None:
            root = np.sqrt(weight)
            part = _kernel().scaled(self.narrow, root.astype(np.float32) if narrow else root)
            return part.T @ part
        return gram(self.narrow if narrow else self._wide, weight)


def gram(rows: Array, weight: Array) -> Array:
    """Σ weight x xᵀ, as the square of the weighted rows, which halves the work for BLAS.

    >>> gram(np.array([[1.0, 2.0]]), np.array([4.0]))
    array([[ 4.,  8.], [ 8., 16.]])
    """
    root = weight**0.5
    part = rows * (root.astype(rows.dtype) if isinstance(root, np.ndarray) else root.to(rows.dtype))[:, None]
    return part.T @ part


class Design:
    """Chosen rows and columns of some features, scaled, as blocks; nothing larger than a block is held in float64.

    A model sees (scaled - center) * factor, and a last column of ones. With a standard scaling that is what `scaling`
    gives; else center and factor make the columns even, so that no digits are lost. Without `centred`, for a model
    without an intercept, the center is 0.

    >>> features = np.array([[1e6], [3e6]], dtype=np.float32)
    >>> next(Design(features, scalings.fit(None, features)).blocks()).wide
    array([[-1.,  1.], [ 1.,  1.]])
    """

    n_rows: int
    width: int  # columns, the one of ones included
    moving: NDArray[np.bool_]  # (columns,): whether a column varies; the ones do not
    level: NDArray[np.float64]  # (columns,): the scaled value of those that do not vary
    center: NDArray[np.float64]  # (columns,)
    factor: NDArray[np.float64]  # (columns,)

    def __init__(
        self,
        features: NDArray[np.float32],
        scaling: scalings.Scaling,
        *,
        columns: IntArray | None = None,
        rows: IntArray | None = None,
        centred: bool = True,
        block_rows: int | None = None,
        device: str | None = None,
    ) -> None:
        self._features, self._scaling = features, scaling
        self._columns = None if columns is None or len(columns) == features.shape[1] else columns
        self._rows = None if rows is None or len(rows) == len(features) else rows
        self.n_rows = len(features) if rows is None else len(rows)
        self.width = (features.shape[1] if columns is None else len(columns)) + 1
        self._torch, self._device = _torch(device), device
        values = _BLOCK_VALUES if device is None else _DEVICE_VALUES
        self.block_rows = block_rows or max(1, values // self.width)
        self._compiles = self.n_rows * self.width >= _WORTH_COMPILING
        self._table: Array | None = None
        table = self._survey(centred)
        if table is not None:
            self._table = self.array(table)

    def _survey(self, centred: bool) -> NDArray[np.float32] | None:
        """One pass for what varies, how far and around what; gives the scaled rows if they are few enough to keep."""
        keeps = self.n_rows * self.width * 4 <= _KEPT_BYTES
        table = np.empty((self.n_rows, self.width), dtype=np.float32) if keeps else None
        even = isinstance(self._scaling.rule, scalings.Standard)
        first = self._scaled(0, 1)[0]
        origin = self._scaled(0, min(self.block_rows, self.n_rows)).mean(axis=0, dtype=np.float64)
        self.moving, total, squares = np.zeros(self.width, dtype=bool), np.zeros(self.width), np.zeros(self.width)

        def look(span: tuple[int, int]) -> tuple[Any, Any, Any]:
            part = self._scaled(*span, out=None if table is None else table[slice(*span)])
            away = np.zeros((1, self.width)) if even else part - origin
            moves = self.moving.copy()
            still = np.flatnonzero(~moves)  # after the first blocks, hardly any: what has moved need not be looked at
            moves[still] = (part[:, still] != first[still]).any(axis=0)
            return moves, away.sum(axis=0), np.einsum("ij,ij->j", away, away)

        for moves, deviation, square in in_order(look, self.spans):
            self.moving |= moves
            total += deviation
            squares += square
        mean = total / self.n_rows
        spread = np.sqrt(np.maximum(squares / self.n_rows - mean**2, 0.0))
        uneven = self.moving & (spread > 0)
        self.center = np.where(uneven & centred, origin + mean, 0.0)
        self.factor = np.where(uneven, 1 / np.where(uneven, spread, 1.0), 1.0)
        self.level = first.astype(np.float64)
        self._shifts = bool(uneven.any())
        return table

    def blocks(self) -> Iterator[Block]:
        """All rows, block after block."""
        return (self.block(*span) for span in self.spans)

    def map(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        """What a function makes of each block, in their order; several at a time where there are processors for it."""
        if self._torch is not None:
            return map(function, self.blocks())
        return in_order(lambda span: function(self.block(*span)), self.spans)

    def block(self, start: int, stop: int) -> Block:
        """The rows from start to stop."""
        part = self.array(self._scaled(start, stop)) if self._table is None else self._table[start:stop]
        if self._torch is None and not self._shifts and self._compiles:
            return Block(start, stop, None, part)
        wide = part.astype(np.float64) if self._torch is None else part.double()
        if not self._shifts:
            return Block(start, stop, wide, part)
        wide = (wide - self.array(self.center)) * self.array(self.factor)
        return Block(start, stop, wide, wide.astype(np.float32) if self._torch is None else wide.float())

    def array(self, values: NDArray[Any]) -> Array:
        """An array where the blocks are."""
        return values if self._torch is None else self._torch.from_numpy(np.array(values)).to(self._device)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Start and end of each block."""
        size = self.block_rows
        return [(start, min(start + size, self.n_rows)) for start in range(0, self.n_rows, size)]

    def _scaled(self, start: int, stop: int, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Scaled features and ones, written to `out` if there is one."""
        rows: slice | IntArray = slice(start, stop)
        if self._rows is not None:
            rows = self._rows[start:stop]
            if rows[-1] - rows[0] == len(rows) - 1:
                rows = slice(int(rows[0]), int(rows[-1]) + 1)  # a span is read in place, scattered rows are gathered
        part = self._features[rows]
        if not isinstance(self._scaling.rule, scalings.Unscaled):
            part = self._scaling.transform(part)
        found = np.empty((len(part), self.width), dtype=np.float32) if out is None else out
        found[:, :-1] = part if self._columns is None else part[:, self._columns]
        found[:, -1] = 1.0
        return found


def in_order(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """What a function makes of each item, in order, a few items ahead in threads; so sums come out the same anywhere.

    BLAS keeps to one thread meanwhile: blocks side by side are quicker than one block by many.

    >>> list(in_order(abs, [-2, 1, -3]))
    [2, 1, 3]
    """
    threads = min(len(items), fair_threads(min(available_cores(), _MOST_THREADS)))
    if threads < 2:
        yield from map(function, items)
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield from ahead(function, items, threads, 2 * threads)


def _kernel() -> Any:
    from cldrank.models.linear import kernel

    return kernel


def _torch(device: str | None) -> Any:
    """The torch module, if a device is named; refused where it is not there."""
    if device is None:
        return None
    device_of(device)
    import torch

    return torch
