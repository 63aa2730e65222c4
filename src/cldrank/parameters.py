"""Parameters that describe themselves: the type, the bounds and one sentence of each stand where it is declared.

A value or a method declares its parameters as keyword-only dataclass fields. Checks, options of the command line,
spaces to tune over and tables of the docs all come from that declaration.
"""

from __future__ import annotations

import json
import math
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from os import PathLike
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

import numpy as np

from cldrank.errors import Spelling, UsageError, setting
from cldrank.wording import with_article

_LARGEST = sys.float_info.max  # a larger whole number has no float
_KEY = "cldrank"
Kind = TypeVar("Kind", bound=type)


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


def _digits(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


@dataclass(frozen=True)
class Parameter:
    """A parameter as it was declared.

    name       as Python spells it
    kind       its type
    default    what it is unless somebody says otherwise
    about      one sentence for help and docs, without a full stop
    bounds     of a number, or of each number in a tuple
    option     whether the command line offers it
    tried      the values that tuning tries, as a text: 0.05..0.3, 1e-3..1e-2:log, or 0.0,0.2,0.5; empty for none
    """

    name: str
    kind: Any
    default: Any
    about: str
    bounds: Bounds = Bounds()
    option: bool = True
    tried: str = ""

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have, without None."""
        union = get_origin(self.kind) in (Union, types.UnionType)
        return tuple(one for one in (get_args(self.kind) if union else (self.kind,)) if one is not type(None))

    @property
    def optional(self) -> bool:
        """Whether None is a value."""
        return type(None) in get_args(self.kind)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The words that it may be, if it may be any."""
        return tuple(word for one in self.kinds if get_origin(one) is Literal for word in get_args(one))

    def accepts(self, value: Any) -> bool:
        """Whether a value is of its type and within its bounds."""
        if value is None:
            return self.optional or self.kind is Any
        return any(_fits(one, value, self.bounds) for one in self.kinds)

    def check(self, value: Any, typed: str | None = None) -> None:
        """Refuse a value that it does not accept; `typed` is how it was written on a command line."""
        if self.accepts(value):
            return
        python = one_of([words for one in self.kinds for words in _requirements(one, self.bounds)])
        shell = [words for one in self.kinds for words in _typed_requirements(one, self.bounds)]
        shell += ["none"] * self._none_is_a_choice
        given = shortened(value)
        raise UsageError(
            "{} must be {}, not {}.",
            setting(self.name),
            Spelling(f"{python}, or None" if self.optional else python, one_of(shell)),
            given if typed is None else Spelling(given, _shortened_text(typed)),
        )

    @property
    def _none_is_a_choice(self) -> bool:
        """Whether `none` says something on a command line that leaving the option out does not."""
        return self.optional and self.default is not None

    def parse(self, text: str) -> Any:
        """The value that a text stands for, as on a command line; commas separate the parts of a list.

        >>> gamma = Parameter("gamma", float | Literal["profile"], 0.1, "correlation", Bounds(above=-1, below=1))
        >>> gamma.parse("0.3"), gamma.parse("profile")
        (0.3, 'profile')
        >>> gamma.parse("2")
        Traceback (most recent call last):
        cldrank.errors.UsageError: gamma must be a number above -1 and below 1, or 'profile', not 2.0.
        """
        if self.optional and str not in self.kinds and text.lower() == "none":
            return None
        value: Any = text
        words_first = sorted(self.kinds, key=lambda kind: str(get_origin(kind)) != str(Literal))
        for one in words_first:
            try:
                value = _parsed(one, text)
                break
            except ValueError:
                continue
        self.check(value, text)
        return value

    @property
    def metavar(self) -> str:
        """What stands for its value in a help text.

        >>> Parameter("gamma", float | Literal["profile"], 0.1, "correlation").metavar
        'NUMBER|profile'
        """
        if any(get_origin(one) is PathLike for one in self.kinds):
            return "PATH"
        return "|".join([*filter(None, map(_metavar, self.kinds)), *["none"] * self._none_is_a_choice])


def parameter(
    *,
    default: Any,
    about: str,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    option: bool = True,
    tried: str = "",
    compare: bool = True,
    kw_only: bool = True,
) -> Any:
    """Declare a parameter of a class made with `described` or `value`.

    option     False keeps it from the command line
    tried      what `cldrank tune` tries unless it is told otherwise
    compare    False for what does not decide the result, such as a function that is called back
    """
    held = (about, Bounds(least, above, most, below), option, tried)
    return field(default=default, metadata={_KEY: held}, compare=compare, kw_only=kw_only)


def learned(*, init: Literal[False] = False) -> Any:
    """Declare what a fit leaves behind: an attribute that ends in an underscore and is no parameter."""
    return field(init=init, repr=False, compare=False)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter, learned))
def described(kind: Kind) -> Kind:
    """A class whose keyword parameters are its fields, such as a method; it keeps the repr of its base."""
    return dataclass(kw_only=True, eq=False, repr=False)(kind)  # type: ignore[return-value]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(parameter,))
def value(kind: Kind) -> Kind:
    """A frozen class of parameters, such as a model: equal if they are, checked when it is made."""
    return dataclass(kw_only=True, frozen=True, repr=False)(kind)  # type: ignore[return-value]


class Value:
    """What frozen values share: checks, scikit-learn's `get_params`, and a repr of what differs from the defaults.

    A value is never copied: scikit-learn's `clone` takes it as it is, and `set_params` of its owner replaces it.
    """

    def __post_init__(self) -> None:
        check_all(self)
        for name in parameters(type(self)):
            if isinstance(getattr(self, name), list):  # a value must not change with the list it was made of
                object.__setattr__(self, name, tuple(getattr(self, name)))

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The parameters by name; none of them has parameters of its own."""
        del deep
        return {one.name: getattr(self, one.name) for one in parameters(type(self)).values()}

    def __sklearn_clone__(self) -> Any:
        return self

    def __repr__(self) -> str:
        changed = (
            f"{entry.name}={getattr(self, entry.name)!r}"
            for entry in fields(self)  # type: ignore[arg-type]
            if entry.compare and not _same(getattr(self, entry.name), entry.default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def parameters(kind: type) -> Mapping[str, Parameter]:
    """The parameters of a class by name, in the order of their declaration."""
    return _declared(kind)


@cache
def _declared(kind: Any) -> Mapping[str, Parameter]:
    hints = get_type_hints(kind)
    found = {}
    for entry in fields(kind):
        if entry.init and _KEY in entry.metadata:
            about, bounds, option, tried = entry.metadata[_KEY]
            default = None if entry.default is MISSING else entry.default
            found[entry.name] = Parameter(entry.name, hints[entry.name], default, about, bounds, option, tried)
    return found


def check_all(owner: Any) -> None:
    """Refuse the first parameter of a value or a method that is not what it was declared to be."""
    for one in parameters(type(owner)).values():
        one.check(getattr(owner, one.name))


# -- checks of single arguments ------------------------------------------------------------------------------------


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
    if not _fits(float, given, bounds):
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
    if not _fits(int, given, bounds):
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


def _shortened_text(text: str, most: int = 200) -> str:
    """A text as it was typed, if it can be read so."""
    return text if text.strip() and text.isprintable() and len(text) <= most else shortened(text, most)


def _fits(kind: Any, given: Any, bounds: Bounds) -> bool:
    check = _CHECKS.get(kind)
    if check is not None:
        return check(given, bounds)
    origin = get_origin(kind)
    if origin is Literal:
        return any(type(one) is type(given) and one == given for one in get_args(kind))
    if origin in (tuple, Sequence):
        part = get_args(kind)[0]
        listed = isinstance(given, Sequence) and not isinstance(given, str | bytes)
        return listed and all(_fits(part, one, bounds) for one in given)
    return kind is Any or isinstance(given, origin or kind) or (origin is Callable and callable(given))


def _parsed(kind: Any, text: str) -> Any:
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
        return tuple(_parsed(get_args(kind)[0], part) for part in parts)
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if kind in (int, float):
        return kind(text)
    if kind is str or (isinstance(origin or kind, type) and issubclass(origin or kind, PathLike)):
        return text
    raise ValueError(text)


def _metavar(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return "|".join(map(str, get_args(kind)))
    if origin in (tuple, Sequence):
        return "NAME,…" if get_args(kind)[0] is str else f"{_metavar(get_args(kind)[0])},…"
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


def _requirements(kind: Any, bounds: Bounds) -> list[str]:
    """What a value of a type must be in Python, as alternatives."""
    return [repr(word) for word in get_args(kind)] if get_origin(kind) is Literal else [_requirement(kind, bounds)]


def _typed_requirements(kind: Any, bounds: Bounds) -> list[str]:
    """What can be typed for a value of a type, as alternatives; nothing for what only Python can make.

    >>> _typed_requirements(tuple[int, ...], Bounds(least=1)), _typed_requirements(Bounds, Bounds())
    (['whole numbers of at least 1, separated by commas'], [])
    """
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    if get_origin(kind) in (tuple, Sequence):
        return [f"{_several(get_args(kind)[0], bounds)}, separated by commas"]
    return [_requirement(kind, bounds)] if kind in _CHECKS else []


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return one is other or (type(one) is type(other) and one == other)
