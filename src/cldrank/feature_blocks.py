"""Tables of features: checked, and read in blocks of rows, so that an array mapped from disk is never copied whole."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.arguments import check_whole
from cldrank.errors import DataError
from cldrank.host import available_cores
from cldrank.workers import ahead, fair_threads

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Floats = NDArray[np.float64]
Value = TypeVar("Value")

_BLOCK_VALUES = 1 << 18  # 2 MiB of float64: stays in the cache between the steps of a transformation
_DEVICE_VALUES = 1 << 25  # 256 MiB of float64 on a device at a time
_STAGED_BYTES = 4 << 20  # of the pinned buffer of each thread
_THREADS = 4


class RemoteFeatures(ABC):
    """Features that never come to this machine as a whole: what is to be known of them is computed where they are.

    shape         rows and features
    fingerprint   a SHA-256 of what they hold
    n_unseen      how many candidates of the same queries have no row here, as they were never shown
    """

    ndim = 2
    dtype = np.dtype(np.float32)
    shape: Any
    fingerprint: Any
    n_unseen: Any

    def __len__(self) -> int:
        return int(self.shape[0])

    @abstractmethod
    def spans(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> RemoteFeatures:
        """The features of some queries, by the first row of each and the row behind its last."""

    @abstractmethod
    def fold(self, function: Callable[[NDArray[np.float32]], Value], join: Callable[[Value, Value], Value]) -> Value:
        """Apply a function to each block of rows, and join the results; both functions are sent to the blocks."""

    @abstractmethod
    def fit_rows(self, observed: Any, view: Any, rows: Any) -> Any:
        """The rows of a linear fit (see `cldrank.models.linear.row_blocks`), with what was observed of them."""


class Moments(NamedTuple):
    """Of each feature: mean, sum of squared deviations from it, smallest and largest value, over `rows` rows."""

    rows: int
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, table: Any, before: Callable[[Any], Any]) -> Moments:
        """Those of all rows of a table, once `before` has transformed them."""
        if isinstance(table, RemoteFeatures):
            return table.fold(partial(_moments, before), Moments.joined)
        blocks = (cls.of_block(before(block)) for block in float_blocks(table))
        total = next(blocks)
        for block in blocks:
            total = total.joined(block)
        return total

    @classmethod
    def of_block(cls, block: Any) -> Moments:
        """The moments of a block, from which its mean is subtracted."""
        xp = library_of(block)
        low, high, mean = xp.amin(block, 0), xp.amax(block, 0), block.mean(0)
        block -= mean
        if xp is np:
            return cls(len(block), mean, np.einsum("ij,ij->j", block, block), low, high)
        return cls(len(block), *(part.cpu().numpy() for part in (mean, block.square().sum(0), low, high)))

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


def library_of(block: Any) -> Any:
    """NumPy, or torch for a tensor."""
    if isinstance(block, np.ndarray):
        return np
    import torch

    return torch


def as_table(features: ArrayLike | RemoteFeatures) -> Any:
    """Features as a table of numbers, without copying what is an array already."""
    if isinstance(features, RemoteFeatures):
        return features
    table: NDArray[Any] = np.asarray(features)
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        raise DataError(f"features must be a table of numbers (rows × features), not {table.dtype} {table.shape}.")
    return table


def row_blocks(table: Any, block_rows: int | None = None) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive blocks of rows, of a size that suits the cache, or a device, unless it is given."""
    rows, width = table.shape
    values = _BLOCK_VALUES if isinstance(table, np.ndarray) else _DEVICE_VALUES
    size = values // max(width, 1) or 1 if block_rows is None else check_whole("block_rows", block_rows, least=1)
    return ((start, min(start + size, rows)) for start in range(0, rows, size))


def float_blocks(table: Any) -> Iterator[Any]:
    """The rows of a table in float64, block after block; an array is rounded to float32 and checked to be finite."""
    for start, stop in row_blocks(table):
        is_array = isinstance(table, np.ndarray)
        yield as_float32(table[start:stop], row=start).astype(np.float64) if is_array else table[start:stop].double()


def as_float32(part: NDArray[Any], row: int = 0, names: Sequence[str] = ()) -> NDArray[np.float32]:
    """A part of a table as float32, all finite; `row` says where in the table it begins."""
    values = _float32(part)
    if not np.isfinite(values).all():
        at = tuple(np.argwhere(~np.isfinite(values))[0])
        what, counted = (f"feature {names[at[1]]!r}", "") if names else (f"column {at[1]}", "both ")
        raise DataError(
            f"{what} of row {row + at[0]} ({counted}counted from 0) is {part[at]}; features must be finite float32 "
            "numbers: fill in missing values first; trees alone can use them."
        )
    return values


def _float32(part: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        return part.astype(np.float32, copy=False)


# -- on a device ---------------------------------------------------------------------------------------------------


def uploaded(table: NDArray[Any], device: torch.device | str) -> Tensor:
    """A table of features as float32 on a device; a value that is not finite is refused as elsewhere.

    On a GPU, several threads copy parts of the table into pinned buffers, from which the GPU fetches them meanwhile. On
    the CPU, what is float32 already, and may be written to, is shared, not copied.
    """
    import torch

    place = torch.device(device)
    if place.type == "cpu":
        here = np.ascontiguousarray(_float32(table[:]))
        copied = torch.from_numpy(here if here.flags.writeable else here.copy())
    else:
        copied = torch.empty(table.shape, dtype=torch.float32, device=place)
        _staged(table, copied)
    for start, stop in row_blocks(copied):
        if not bool(copied[start:stop].isfinite().all()):
            as_float32(table[start:stop], row=start)  # raises, and says which
    return copied


def _staged(table: NDArray[Any], copied: Tensor) -> None:
    """Copy a table to a GPU; each thread fills a pinned buffer of its own as soon as the GPU is done with it."""
    import torch

    rows, width = table.shape
    step = max(1, _STAGED_BYTES // (4 * max(width, 1)))
    own, current = threading.local(), torch.cuda.current_stream(copied.device)

    def copy(start: int) -> None:
        part = table[start : start + step]
        if not hasattr(own, "buffer"):
            own.buffer = torch.empty((min(step, rows), width), dtype=torch.float32, pin_memory=True)
            own.stream, own.done = torch.cuda.Stream(copied.device), torch.cuda.Event()
            own.stream.wait_stream(current)
        own.done.synchronize()
        np.copyto(own.buffer[: len(part)].numpy(), _float32(part))
        with torch.cuda.stream(own.stream):
            copied[start : start + len(part)].copy_(own.buffer[: len(part)], non_blocking=True)
            own.done.record()

    threads = fair_threads(min(_THREADS, available_cores()))
    for _ in ahead(copy, range(0, rows, step), threads, most=2 * threads):
        pass
    torch.cuda.synchronize(copied.device)
