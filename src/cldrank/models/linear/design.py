"""The columns of a linear model, block by block: scaled, and brought near mean 0 and size 1 for the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cldrank import scaling as scalings
from cldrank.models.linear.row_blocks import Array, Rows

Value = TypeVar("Value")
Floats = NDArray[np.float64]

_SLICE = 4096  # rows of each product that a device computes side by side
_GLANCE = 64  # rows of a block that show most columns to vary


class Block:
    """Some rows as the model sees them, and what was observed of them.

    part        the rows in float64; or in float32 where loops are compiled, which read them without a wide copy
    """

    def __init__(self, part: Array, own: Any = None, *, compiled: bool = False) -> None:
        self.part, self.own, self._compiled = part, own, compiled

    @cached_property
    def wide(self) -> Array:
        """The rows in float64."""
        return self.part.astype(np.float64) if self._compiled else self.part

    def dot(self, coefficients: Array) -> Array:
        """Of each row, Σ column * coefficient, in float64."""
        return _compiled().dot(self.part, coefficients) if self._compiled else self.part @ coefficients

    def back(self, values: Array) -> Array:
        """Of each column, Σ value of the row * entry, in float64."""
        return _compiled().back(self.part, values) if self._compiled else self.part.T @ values

    def take(self, places: Array) -> Array:
        """Some of the rows, in float64."""
        return self.part[places].astype(np.float64) if self._compiled else self.part[places]

    def gram(self, weight: Array) -> Array:
        """Σ weight x xᵀ over the rows."""
        if not self._compiled:
            return gram(self.part, weight)
        scaled = _compiled().scaled(self.part, np.sqrt(weight))
        return scaled.T @ scaled


def gram(rows: Array, weight: Array) -> Array:
    """Σ weight x xᵀ, as the square of the weighted rows, which halves the work for BLAS."""
    part = rows * (weight**0.5)[:, None]
    return part.T @ part if isinstance(part, np.ndarray) else _squared(part)


def _squared(part: Any) -> Any:
    """partᵀ part on a device: the sum of many small products, as a product of few columns leaves most of it idle."""
    width, whole = part.shape[1], len(part) // _SLICE
    slices = part[: whole * _SLICE].view(whole, _SLICE, width)
    rest = part[whole * _SLICE :]
    return slices.transpose(1, 2).bmm(slices).sum(0) + rest.T @ rest


class Design:
    """The columns of a model over rows that live anywhere; nothing larger than a block is held in float64.

    A model sees (scaled - center) * factor, and a last column of ones. With a standard scaling that is what the scaling
    gives; else center and factor make the columns even, so that no digits are lost.

    width     columns, including that of ones
    moving    (columns,): whether a column varies; the ones do not
    center    (columns,)
    factor    (columns,)
    observed  of all rows
    """

    def __init__(self, rows: Rows) -> None:
        self.rows, self.width, self.observed = rows, rows.view.width, rows.observed
        even = isinstance(rows.view.scaling.rule, scalings.Standard)
        seen = rows.fold(partial(_survey, even), _Survey.joined)
        uneven = seen.moving & (seen.squares > 0)
        spread = np.sqrt(seen.squares / rows.n_rows)
        self.moving = seen.moving
        self.center = np.where(uneven, seen.mean, 0.0)
        self.factor = np.where(uneven, 1 / np.where(uneven, spread, 1.0), 1.0)
        self._even = (self.center, self.factor) if uneven.any() else None

    def fold(self, function: Callable[[Block], Value], join: Callable[[Value, Value], Value]) -> Value:
        """What `join` makes, in order, of what a function makes of each block; see `Rows.fold`."""
        return self.rows.fold(partial(_of_block, function, self._even, self.rows.compiles), join)

    def to_features(self, parameters: Floats) -> tuple[Floats, float]:
        """Coefficients of the scaled features, and the intercept, from those of all columns."""
        scaled = (parameters * self.factor)[:-1]
        return scaled, float(parameters[-1] - scaled @ self.center[:-1])


class _Survey(NamedTuple):
    """Of scaled rows: the first, which columns vary, their mean, and the squares of what is away from it.

    Of columns that are even already, mean and squares are 0.
    """

    n_rows: int
    first: Floats
    moving: NDArray[np.bool_]
    mean: Floats
    squares: Floats

    def joined(self, other: _Survey) -> _Survey:
        """Both together."""
        n_rows = self.n_rows + other.n_rows
        step = other.mean - self.mean
        return _Survey(
            n_rows,
            self.first,
            self.moving | other.moving | (self.first != other.first),
            self.mean + step * (other.n_rows / n_rows),
            self.squares + other.squares + step**2 * (self.n_rows * other.n_rows / n_rows),
        )


def _survey(even: bool, part: Array, own: Any) -> _Survey:
    del own
    first = part[0]
    moving = (part[:: max(1, len(part) // _GLANCE)] != first).any(0)
    moved = as_numpy(moving).copy()
    still = np.flatnonzero(~moved)  # hardly any: what has moved need not be looked at in full
    moved[still] = as_numpy((part[:, still] != first[still]).any(0))
    mean, squares = np.zeros(part.shape[1]), np.zeros(part.shape[1])
    if not even:
        wide = _widened(part)
        mean = as_numpy(wide.mean(0))
        squares = as_numpy(((wide - wide.mean(0)) ** 2).sum(0))
    return _Survey(len(part), as_numpy(first).astype(np.float64), moved, mean, squares)


def _of_block(
    function: Callable[[Block], Value], even: tuple[Floats, Floats] | None, compiles: bool, part: Array, own: Any
) -> Value:
    if even is None and compiles and isinstance(part, np.ndarray):
        return function(Block(part, own, compiled=True))
    wide = _widened(part)
    if even is not None:
        center, factor = (like(values, part) for values in even)
        wide = (wide - center) * factor
    return function(Block(wide, own))


def _widened(part: Array) -> Array:
    return part.astype(np.float64) if isinstance(part, np.ndarray) else part.double()


def like(values: NDArray[Any], part: Array) -> Array:
    """`values` on the device of `part`."""
    if isinstance(part, np.ndarray):
        return values
    import torch

    return torch.from_numpy(np.array(values)).to(part.device)


def as_numpy(values: Any) -> NDArray[Any]:
    """An array as numpy's, wherever it is."""
    local: NDArray[Any] = np.asarray(values if isinstance(values, np.ndarray | np.generic | float) else values.cpu())
    return local


def _compiled() -> Any:
    from cldrank.models import compiled

    return compiled
