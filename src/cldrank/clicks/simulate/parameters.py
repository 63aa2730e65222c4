"""Checks of the numbers that a user chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError

PerPosition = float | tuple[float, ...]


def number(value: Any, name: str, least: float = 0.0, most: float = np.inf) -> float:
    """The value as a float within bounds.

    >>> number(1, "eta")
    1.0
    """
    if not _is_finite(value) or not least <= value <= most:
        bounds = f"of at least {least:g}" if most == np.inf else f"from {least:g} to {most:g}"
        raise UsageError(f"{name} must be a number {bounds}, not {value!r}.")
    return float(value)


def whole(value: Any, name: str, least: int = 1) -> int:
    """The value as a whole number; 1e5 will do for 100000.

    >>> whole(1e5, "sessions")
    100000
    """
    if not _is_finite(value) or value != int(value) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    if value > np.iinfo(np.int64).max:
        raise UsageError(f"{name} is {value:g}; more than {np.iinfo(np.int64).max:g} cannot be counted.")
    return int(value)


def _is_finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def per_position(value: Any, name: str) -> PerPosition:
    """One probability for all positions, or one per position from the top."""
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        if not len(value):
            raise UsageError(f"{name} is empty; give one number, or one per position.")
        return tuple(number(entry, f"{name} of position {place}", 0, 1) for place, entry in enumerate(value, 1))
    return number(value, name, 0, 1)


def spread(value: PerPosition, name: str, depth: int) -> NDArray[np.float64]:
    """The value at each of the first `depth` positions.

    >>> spread(0.5, "continuation", 3)
    array([0.5, 0.5, 0.5])
    """
    if isinstance(value, tuple):
        if len(value) < depth:
            raise UsageError(f"{name} has {len(value)} entries for pages of {depth} results; give one per position.")
        return np.array(value[:depth])
    return np.full(depth, value)
