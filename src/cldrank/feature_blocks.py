"""Tables of features: checked, and read in blocks of rows, so that an array mapped from disk is never copied whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.arguments import check_whole
from cldrank.errors import DataError

Floats = NDArray[np.float64]
Value = TypeVar("Value")

_BLOCK_VALUES = 1 << 18  # 2 MiB of float64: stays in the cache between the steps of a transformation


class RemoteFeatures(ABC):
    """Features that never come to this machine as a whole: what is to be known of them is computed where they are."""

    ndim = 2
    dtype = np.dtype(np.float32)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    def __len__(self) -> int:
        return self.shape[0]

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A SHA-256 of what they hold."""

    @property
    @abstractmethod
    def n_unseen(self) -> int:
        """How many candidates of the same queries have no row here, as they were never shown."""

    @abstractmethod
    def fold(self, function: Callable[[NDArray[np.float32]], Value], join: Callable[[Value, Value], Value]) -> Value:
        """What `join` makes of what a function makes of each block of rows; both are sent to where the blocks are."""

    @abstractmethod
    def fit_rows(self, observed: Any, view: Any, rows: Any) -> Any:
        """The rows of a linear fit (see `cldrank.models.linear.rows`), with what was observed of them."""


def as_table(features: ArrayLike | RemoteFeatures) -> Any:
    """Features as a table of numbers, without copying what is an array already, nor reading what is not in memory."""
    if isinstance(features, RemoteFeatures):
        return features
    given: Any = features
    table: NDArray[Any] = given if hasattr(given, "row_group_offsets") else np.asarray(given)
    if table.ndim != 2:
        raise DataError(f"features must be a table (rows × features), not an array of shape {table.shape}.")
    if table.dtype.kind not in "fiub":
        raise DataError(f"features must be numbers, not {table.dtype} values.")
    return table


def row_blocks(table: NDArray[Any], block_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive blocks of rows, of a size that suits the cache unless it is given.

    >>> list(row_blocks(np.zeros((5, 2)), 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    rows, width = table.shape
    size = (
        max(1, _BLOCK_VALUES // max(width, 1)) if block_rows is None else check_whole("block_rows", block_rows, least=1)
    )
    return ((start, min(start + size, rows)) for start in range(0, rows, size))


class Moments(NamedTuple):
    """Of each feature: mean, sum of squared deviations from it, smallest and largest value, over `rows` rows."""

    rows: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, table: Any, before: Callable[[Floats], Floats], block_rows: int | None = None) -> Moments:
        """Those of all rows of a table, once `before` has transformed them."""
        if isinstance(table, RemoteFeatures):
            return table.fold(partial(_moments, before), Moments.joined)
        blocks = (cls.of_block(before(block)) for block in float_blocks(table, block_rows))
        total = next(blocks)
        for block in blocks:
            total = total.joined(block)
        return total

    @classmethod
    def of_block(cls, block: NDArray[np.float64]) -> Moments:
        """Those of one block, which loses its mean."""
        low, high, mean = block.min(axis=0), block.max(axis=0), block.mean(axis=0)
        block -= mean
        return cls(len(block), mean, np.einsum("ij,ij->j", block, block), low, high)

    def joined(self, other: Moments) -> Moments:
        """Both together (Chan, Golub and LeVeque 1979): no difference of large sums, so no digits are lost."""
        rows = self.rows + other.rows
        step = other.mean - self.mean
        return Moments(
            rows,
            self.mean + step * (other.rows / rows),
            self.squares + other.squares + step**2 * (self.rows * other.rows / rows),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def _moments(before: Callable[[Floats], Floats], block: NDArray[np.float32]) -> Moments:
    return Moments.of_block(before(block.astype(np.float64)))


def float_blocks(table: NDArray[Any], block_rows: int | None) -> Iterator[NDArray[np.float64]]:
    """The rows of a table, block after block, rounded to float32 and checked to be finite."""
    for start, stop in row_blocks(table, block_rows):
        yield as_float32(table[start:stop], row=start).astype(np.float64)


def as_float32(part: NDArray[Any], row: int = 0, column: int = 0, names: Sequence[str] = ()) -> NDArray[np.float32]:
    """A part of a table as float32, all finite; `row` and `column` say where in the table it begins."""
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        values = part.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        at = tuple(np.argwhere(~np.isfinite(values))[0])
        what, counted = (f"feature {names[column + at[1]]!r}", "") if names else (f"column {column + at[1]}", "both ")
        raise DataError(
            f"{what} of row {row + at[0]} ({counted}counted from 0) is {part[at]}; features must be finite float32 "
            "numbers: fill in missing values first; trees alone can use them."
        )
    return values
