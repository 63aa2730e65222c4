"""The base of click models and policies: checks, truth files and options of `cldrank simulate` come from it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import UsageError, setting
from cldrank.parameters import Value, parameters

PerPosition = float | tuple[float, ...]


class Ingredient(Value):
    """A click model or a policy: a frozen value with a name.

    name    as the command line and truth files spell it
    about   one phrase for help
    """

    name: ClassVar[str]
    about: ClassVar[str]

    def __post_init__(self) -> None:
        for one in parameters(type(self)).values():
            value = _as_python(getattr(self, one.name))
            one.check(value)
            if value == ():
                raise UsageError("{} is empty; give at least one number.", setting(one.name))
            object.__setattr__(self, one.name, _as_float(value) if float in one.kinds else value)

    def check(self, depth: int) -> None:
        """Refuse parameters that do not fit pages of `depth` results."""
        del depth

    def describe(self) -> dict[str, Any]:
        """Name and parameters."""
        return {"name": self.name, **self.get_params()}


def spread(value: PerPosition, name: str, depth: int) -> NDArray[np.float64]:
    """The value at each of the first `depth` positions.

    >>> spread(0.5, "continuation", 3)
    array([0.5, 0.5, 0.5])
    """
    if isinstance(value, tuple):
        if len(value) < depth:
            raise UsageError(
                "{} has {} entries for pages of {} results; give one per position.", setting(name), len(value), depth
            )
        return np.array(value[:depth], dtype=np.float64)
    return np.full(depth, float(value))


def _as_python(value: Any) -> Any:
    """Numbers and tuples as Python has them, from NumPy's or a list."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(value) if isinstance(value, list) else value


def _as_float(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(float, value))
    return value if value is None else float(value)
