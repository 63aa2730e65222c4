"""Checks of arguments: whether a value is of a type and within bounds, and the words that refuse one that is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args, get_origin

import numpy as np

from cldrank.errors import Spelling, UsageError, setting
from cldrank.wording import with_article

_LARGEST = sys.float_info.max  # a larger whole number has no float


@dataclass(frozen=True)
class Bounds:
    """The numbers that a parameter may take; None where there is no bound.

    >>> Bounds(above=0, most=1).words
    ' above 0 and up to 1'
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def hold(self, value: float) -> bool:
        """Whether a number lies within them; no bounds take only what float64 can hold."""
        return (
            -_LARGEST <= value <= _LARGEST
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    @property
    def words(self) -> str:
        """How a sentence goes on behind `a number`."""
        low = f" of at least {_digits(self.least)}" if self.least is not None else ""
        low = f" above {_digits(self.above)}" if self.above is not None else low
        high = f"up to {_digits(self.most)}" if self.most is not None else ""
        high = f"below {_digits(self.below)}" if self.below is not None else high
        return f"{low} and {high}" if low and high else f"{low}{' ' * bool(high)}{high}"


NO_BOUNDS = Bounds()


def _digits(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def check_number(
    name: str,
    given: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    optional: bool = False,
) -> float:
    """A finite number within bounds, as a float; refused where it is anything else.

    >>> check_number("held_out", 1.5, above=0, below=1)
    Traceback (most recent call last):
    cldrank.errors.UsageError: held_out must be a number above 0 and below 1, not 1.5.
    """
    bounds = Bounds(least, above, most, below)
    if not is_of_kind(float, given, bounds):
        refuse(name, given, _requirement(float, bounds), optional=optional)
    return float(given)


def check_whole(
    name: str, given: Any, *, least: int | None = None, most: int | None = None, optional: bool = False
) -> int:
    """A whole number within bounds; refused where it is anything else, True and False included.

    >>> check_whole("seed", True, least=0)
    Traceback (most recent call last):
    cldrank.errors.UsageError: seed must be a whole number of at least 0, not True.
    """
    bounds = Bounds(least=least, most=most)
    if not is_of_kind(int, given, bounds):
        refuse(name, given, _requirement(int, bounds), optional=optional)
    return int(given)


def check_choice(name: str, given: Any, choices: Iterable[Any]) -> None:
    """Refuse what is not one of some words.

    >>> check_choice("engine", "dukdb", ("duckdb", "spark"))
    Traceback (most recent call last):
    cldrank.errors.UsageError: engine must be 'duckdb' or 'spark', not 'dukdb'.
    """
    known = tuple(choices)
    if not any(type(one) is type(given) and one == given for one in known):
        refuse(name, given, *map(repr, known))


def check_flag(name: str, given: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(given, bool | np.bool_):
        refuse(name, given, "True or False")


def refuse(name: str, given: Any, *requirements: str, optional: bool = False) -> None:
    """Raise the error that says what a parameter must be."""
    needed = one_of(requirements)
    words = Spelling(f"{needed}, or None" if optional else needed, needed)
    raise UsageError("{} must be {}, not {}.", setting(name), words, shortened(given))


def one_of(words: Sequence[str]) -> str:
    """Alternatives in words.

    >>> one_of(["a number above 0", "'profile'"]), one_of(["'a'", "'b'", "'c'"])
    ("a number above 0, or 'profile'", "'a', 'b' or 'c'")
    """
    if len(words) < 2:
        return "".join(words)
    comma = "," if len(words) == 2 and len(words[0].split()) > 2 else ""
    return f"{', '.join(words[:-1])}{comma} or {words[-1]}"


def as_json(given: Any) -> Any:
    """A value as JSON holds it; what JSON has no word for, such as infinity, as Python writes it.

    >>> import math
    >>> as_json((np.int64(1), 0.5)), as_json(math.inf)
    ([1, 0.5], 'inf')
    """
    try:
        text = json.dumps(
            given, default=lambda one: one.item() if isinstance(one, np.generic) else repr(one), allow_nan=False
        )
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return repr(given)


def shortened(given: Any, most: int = 200) -> str:
    """The repr of a value, cut where it is too long to read."""
    text = repr(given)
    return text if len(text) <= most else f"{text[:most]}…"


def shortened_text(text: str, most: int = 200) -> str:
    """A text as it was typed, if it can be read so."""
    return text if text.strip() and text.isprintable() and len(text) <= most else shortened(text, most)


def is_of_kind(kind: Any, given: Any, bounds: Bounds) -> bool:
    """Whether a value is of a type and, if it is a number, within bounds.

    A text is of a type that it can stand for: one with `of_text`, which gives None for any other text.
    """
    check = _CHECKS.get(kind)
    if check is not None:
        return check(given, bounds)
    if isinstance(given, str) and hasattr(kind, "of_text"):
        return kind.of_text(given) is not None
    origin = get_origin(kind)
    if origin is Literal:
        return any(type(one) is type(given) and one == given for one in get_args(kind))
    if origin in (tuple, Sequence):
        part = get_args(kind)[0]
        listed = isinstance(given, Sequence) and not isinstance(given, str | bytes)
        return listed and all(is_of_kind(part, one, bounds) for one in given)
    return kind is Any or isinstance(given, origin or kind) or (origin is Callable and callable(given))


def value_of_text(kind: Any, text: str) -> Any:
    """A text as a value of a type; ValueError where it is not one."""
    origin = get_origin(kind)
    if origin is Literal:
        if text not in get_args(kind):
            raise ValueError(text)
        return text
    if origin in (tuple, Sequence):
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        if "" in parts:
            raise ValueError(text)
        return tuple(value_of_text(get_args(kind)[0], part) for part in parts)
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if kind in (int, float):
        return kind(text)
    if kind is str or (isinstance(origin or kind, type) and issubclass(origin or kind, PathLike)):
        return text
    raise ValueError(text)


def metavar_of(kind: Any) -> str:
    """What stands for a value of a type in a help text."""
    origin = get_origin(kind)
    if origin is Literal:
        return "|".join(map(str, get_args(kind)))
    if origin in (tuple, Sequence):
        return "NAME,…" if get_args(kind)[0] is str else f"{metavar_of(get_args(kind)[0])},…"
    return {float: "NUMBER", int: "INTEGER", str: "TEXT"}.get(kind, "")


def _is_number(given: Any, bounds: Bounds) -> bool:
    if isinstance(given, np.integer | np.floating):
        given = int(given) if isinstance(given, np.integer) else float(given)  # float32 knows no largest float64
    return isinstance(given, int | float) and not isinstance(given, bool) and bounds.hold(given)


def _is_whole(given: Any, bounds: Bounds) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and bounds.hold(int(given))


_CHECKS: dict[Any, Callable[[Any, Bounds], bool]] = {
    float: _is_number,
    int: _is_whole,
    bool: lambda given, _: isinstance(given, bool | np.bool_),
    str: lambda given, _: isinstance(given, str),
}


def _requirement(kind: Any, bounds: Bounds) -> str:
    if kind is float:
        return f"a number{bounds.words}"
    if kind is int:
        return f"a whole number{bounds.words}"
    if kind is bool:
        return "True or False"
    if get_origin(kind) in (tuple, Sequence):
        return f"a list of {_several(get_args(kind)[0], bounds)}"
    if kind is str:
        return "a text"
    return with_article(getattr(kind, "__name__", str(kind)))


def _several(kind: Any, bounds: Bounds) -> str:
    """The parts of a list in words."""
    return "names" if kind is str else f"{'whole numbers' if kind is int else 'numbers'}{bounds.words}"


def requirements_of(kind: Any, bounds: Bounds) -> list[str]:
    """What a value of a type must be in Python, as alternatives."""
    return [repr(word) for word in get_args(kind)] if get_origin(kind) is Literal else [_requirement(kind, bounds)]


def typed_requirements_of(kind: Any, bounds: Bounds) -> list[str]:
    """What can be typed for a value of a type, as alternatives; nothing for what only Python can make.

    >>> typed_requirements_of(tuple[int, ...], Bounds(least=1)), typed_requirements_of(Bounds, Bounds())
    (['whole numbers of at least 1, separated by commas'], [])
    """
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    if get_origin(kind) in (tuple, Sequence):
        return [f"{_several(get_args(kind)[0], bounds)}, separated by commas"]
    return [_requirement(kind, bounds)] if kind in _CHECKS else []
