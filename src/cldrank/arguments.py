"""Checks of single arguments: whether a value is of a type and within bounds; if not, an error says what it must be."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, get_args, get_origin

import numpy as np

from cldrank.errors import UsageError
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
        """Whether a number lies within the bounds; where there are none, whether float64 can hold it."""
        return (
            -_LARGEST <= value <= _LARGEST
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    @property
    def words(self) -> str:
        """The bounds in words, to follow `a number`."""
        ends = {"of at least": self.least, "above": self.above, "up to": self.most, "below": self.below}
        given = [
            f"{words} {end if isinstance(end, int) else f'{end:g}'}" for words, end in ends.items() if end is not None
        ]
        return f" {' and '.join(given)}" if given else ""


NO_BOUNDS = Bounds()


def check_number(name: str, given: Any, **bounds: float | None) -> float:
    """A finite number within `Bounds`, as a float; refused where it is anything else.

    >>> check_number("held_out", 1.5, above=0, below=1)
    Traceback (most recent call last):
    cldrank.errors.UsageError: `held_out` must be a number above 0 and below 1, not 1.5.
    """
    return float(_checked(float, name, given, Bounds(**bounds)))


def check_whole(name: str, given: Any, **bounds: float | None) -> int:
    """A whole number within `Bounds`; refused where it is anything else, True and False included."""
    return int(_checked(int, name, given, Bounds(**bounds)))


def check_flag(name: str, given: Any) -> None:
    """Refuse what is neither True nor False."""
    _checked(bool, name, given)


def check_choice(name: str, given: Any, choices: Iterable[Any]) -> None:
    """Refuse anything but some words.

    >>> check_choice("engine", "dukdb", ("duckdb", "spark"))
    Traceback (most recent call last):
    cldrank.errors.UsageError: `engine` must be 'duckdb' or 'spark', not 'dukdb'.
    """
    _checked(Literal[tuple(choices)], name, given)


def _checked(kind: Any, name: str, given: Any, bounds: Bounds = NO_BOUNDS) -> Any:
    if not is_of_kind(kind, given, bounds):
        refuse(name, given, one_of(requirements(kind, bounds)))
    return given


def refuse(name: str, given: Any, requirement: str) -> NoReturn:
    """Raise the error that says what a parameter must be."""
    raise UsageError(f"`{name}` must be {requirement}, not {shortened(given)}.")


def is_of_kind(kind: Any, given: Any, bounds: Bounds = NO_BOUNDS) -> bool:
    """Whether a value is of a type and, if it is a number, within bounds.

    A text is of a type whose `of_text` knows it, and does not return None.
    """
    if kind is bool:
        return isinstance(given, bool | np.bool_)
    if kind in (int, float):
        is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
        if is_whole or (kind is float and isinstance(given, float | np.floating)):
            return bounds.hold(int(given) if is_whole else float(given))  # float32 knows no largest float64
        return False
    if isinstance(given, str) and hasattr(kind, "of_text"):
        return kind.of_text(given) is not None
    origin = get_origin(kind)
    if origin is Literal:
        return any(type(word) is type(given) and word == given for word in get_args(kind))  # True is not 1
    if origin in (tuple, Sequence):
        listed = isinstance(given, Sequence) and not isinstance(given, str | bytes)
        return listed and all(is_of_kind(get_args(kind)[0], part, bounds) for part in given)
    return kind is Any or isinstance(given, origin or kind) or (origin is Callable and callable(given))


def requirements(kind: Any, bounds: Bounds) -> list[str]:
    """What a value of a type must be, as alternatives.

    >>> requirements(tuple[int, ...], Bounds(least=1)), requirements(Literal["a", "b"], NO_BOUNDS)
    (['a list of whole numbers of at least 1'], ["'a'", "'b'"])
    """
    if get_origin(kind) is Literal:
        return [repr(word) for word in get_args(kind)]
    if get_origin(kind) in (tuple, Sequence):
        parts = {str: "names", int: "whole numbers"}.get(get_args(kind)[0], "numbers")
        return [f"a list of {parts}{bounds.words}"]
    words = {float: f"a number{bounds.words}", int: f"a whole number{bounds.words}", bool: "True or False"}
    return [{**words, str: "a text"}.get(kind) or with_article(getattr(kind, "__name__", str(kind)))]


def one_of(words: Sequence[str]) -> str:
    """Alternatives in words, such as `a number above 0, or 'profile'`."""
    if len(words) < 2:
        return "".join(words)
    comma = "," if len(words) == 2 and len(words[0].split()) > 2 else ""
    return f"{', '.join(words[:-1])}{comma} or {words[-1]}"


def shortened(given: Any, most: int = 200) -> str:
    """The repr of a value, cut where it is too long to read."""
    text = repr(given)
    return text if len(text) <= most else f"{text[:most]}…"


def shortened_text(text: str, most: int = 200) -> str:
    """A text as it was typed, or its repr where not all of it is legible."""
    return text if text.strip() and text.isprintable() and len(text) <= most else shortened(text, most)


def as_json(given: Any) -> Any:
    """A value as JSON holds it; what JSON has no word for, such as infinity, as Python writes it.

    >>> as_json((np.int64(1), 0.5)), as_json(float("inf"))
    ([1, 0.5], 'inf')
    """
    try:
        plain = json.dumps(
            given, default=lambda value: value.item() if hasattr(value, "item") else repr(value), allow_nan=False
        )
        return json.loads(plain)
    except (ValueError, TypeError, RecursionError):
        return repr(given)
