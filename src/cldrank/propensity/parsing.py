"""Values from JSON files, each of the kind and range that it must be, or a DataError that names it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import Bounds
from cldrank.errors import DataError
from cldrank.parameters import Parameter
from cldrank.reading import reason

_LONGEST = 60  # characters of a value in a message


def as_number(value: Any, name: str, least: float | None = None, most: float | None = None) -> float:
    """A finite number within bounds; neither a truth value nor text.

    >>> as_number(1e999, "confidence", 0, 1)
    Traceback (most recent call last):
    cldrank.errors.DataError: confidence is inf, not a number of at least 0 and up to 1.
    """
    bounds = Bounds(least=least, most=most)
    if not Parameter(name, float, None, "", bounds).accepts(value):
        raise DataError(
            f"{name} is {_shown(value)}, not a {'number' if bounds.words else 'finite number'}{bounds.words}."
        )
    return float(value)


def as_whole(value: Any, name: str, least: int, most: int) -> int:
    """A whole number within bounds.

    >>> as_whole(True, "position", 1, 9)
    Traceback (most recent call last):
    cldrank.errors.DataError: position is True, not a whole number from 1 to 9.
    """
    if not Parameter(name, int, None, "", Bounds(least=least, most=most)).accepts(value):
        raise DataError(f"{name} is {_shown(value)}, not a whole number from {least} to {most}.")
    return int(value)


def numbers(value: Any, name: str) -> NDArray[np.float64]:
    """A list of finite numbers.

    >>> numbers([1, "2"], "low")
    Traceback (most recent call last):
    cldrank.errors.DataError: entry 2 of low is '2', not a finite number.
    """
    if not isinstance(value, list):
        raise DataError(f"{name} is {_shown(value)}, not a list of numbers.")
    return np.array([as_number(entry, f"entry {at} of {name}") for at, entry in enumerate(value, 1)], dtype=np.float64)


def symmetric(value: Any, name: str, size: int) -> NDArray[np.float64]:
    """A symmetric table of `size` rows, as a list of lists of finite numbers."""
    if not isinstance(value, list) or len(value) != size:
        found = f"has {len(value)} rows" if isinstance(value, list) else f"is {_shown(value)}"
        raise DataError(f"{name} {found}; it must be a table of {size} rows and columns.")
    entries = table(value, name, size)
    if not np.allclose(entries, entries.T, rtol=1e-6, atol=1e-9):
        raise DataError(f"{name} is not symmetric.")
    return entries


def table(value: Any, name: str, columns: int) -> NDArray[np.float64]:
    """A table of any number of rows, as a list of lists of finite numbers.

    >>> table([[1, 2], [3]], "replicates", 2)
    Traceback (most recent call last):
    cldrank.errors.DataError: row 2 of replicates has 1 entries; it must have 2.
    """
    if not isinstance(value, list):
        raise DataError(f"{name} is {_shown(value)}, not a list of rows.")
    rows = [numbers(row, f"row {at} of {name}") for at, row in enumerate(value, 1)]
    for at, row in enumerate(rows, 1):
        if len(row) != columns:
            raise DataError(f"row {at} of {name} has {len(row)} entries; it must have {columns}.")
    return np.array(rows, dtype=np.float64).reshape(len(rows), columns)


def as_floats(value: Any, name: str) -> NDArray[np.float64]:
    """A copy as float64, of whatever shape.

    >>> as_floats([1, "a"], "low")
    Traceback (most recent call last):
    cldrank.errors.DataError: low cannot be read as numbers (could not convert string to float: 'a').
    """
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} cannot be read as numbers ({reason(error)}).") from None


def as_text(value: Any, name: str) -> str:
    """A text that can be printed and written again."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"{name} holds half of a character (a lone surrogate).") from None
        return value
    raise DataError(f"{name} is {_shown(value)}, not a text.")


def texts(value: Any, name: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise DataError(f"{name} is {_shown(value)}, not a list of texts.")
    return tuple(as_text(entry, f"entry {at} of {name}") for at, entry in enumerate(value, 1))


def entry(content: Any, key: str, name: str) -> Any:
    """What a JSON object has under a key that it must have."""
    if not isinstance(content, dict):
        raise DataError(f"{name} is {_shown(content)}, not an object.")
    if key not in content:
        raise DataError(f"{name} lacks {key!r}.")
    return content[key]


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and abs(value) > 10**_LONGEST:
        return "an integer of too many digits"
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
