"""Parameters that describe themselves: the type, the bounds and one sentence of each stand where it is declared.

A value or a method declares its parameters as keyword-only dataclass fields. Checks, options of the command line,
spaces to tune over, the list at the end of the class's docstring and tables of the docs all come from that declaration.
"""

from __future__ import annotations

import math
import textwrap
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from inspect import cleandoc
from os import PathLike
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from cldrank.arguments import (
    NO_BOUNDS,
    Bounds,
    is_of_kind,
    metavar_of,
    one_of,
    requirements_of,
    shortened,
    shortened_text,
    typed_requirements_of,
    value_of_text,
)
from cldrank.errors import Spelling, UsageError, setting

_KEY = "cldrank"
_LEFT = "cldrank, learned"  # the key of what a fit leaves
_WIDTH = 120
Kind = TypeVar("Kind", bound=type)


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
    bounds: Bounds = NO_BOUNDS
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

    @property
    def requirement(self) -> str:
        """What it must be, in words.

        >>> Parameter("clip", float | None, None, "least propensity", Bounds(above=0, most=1)).requirement
        'a number above 0 and up to 1, or None'
        """
        words = one_of([words for one in self.kinds for words in requirements_of(one, self.bounds)])
        return f"{words}, or None" if self.optional else words

    def accepts(self, value: Any) -> bool:
        """Whether a value is of its type and within its bounds."""
        if value is None:
            return self.optional or self.kind is Any
        return any(is_of_kind(one, value, self.bounds) for one in self.kinds)

    def check(self, value: Any, typed: str | None = None) -> None:
        """Refuse a value that it does not accept; `typed` is how it was written on a command line."""
        if self.accepts(value):
            return
        shell = [words for one in self.kinds for words in typed_requirements_of(one, self.bounds)]
        shell += ["none"] * self._none_is_a_choice
        given = shortened(value)
        raise UsageError(
            "{} must be {}, not {}.",
            setting(self.name),
            Spelling(self.requirement, one_of(shell)),
            given if typed is None else Spelling(given, shortened_text(typed)),
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
                value = value_of_text(one, text)
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
        return "|".join([*filter(None, map(metavar_of, self.kinds)), *["none"] * self._none_is_a_choice])


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


def learned(*, about: str, init: Literal[False] = False) -> Any:
    """Declare what a fit leaves behind: an attribute that ends in an underscore and is not a parameter."""
    return field(init=init, repr=False, compare=False, metadata={_LEFT: about})


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter, learned))
def described(kind: Kind) -> Kind:
    """A class whose keyword parameters are its fields, such as a method; it keeps the repr of its base."""
    made: Kind = dataclass(kw_only=True, eq=False, repr=False)(kind)  # type: ignore[assignment]
    return documented(made)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(parameter,))
def value(kind: Kind) -> Kind:
    """A frozen class of parameters, such as a model: equal if they are, checked when it is made."""
    made: Kind = dataclass(kw_only=True, frozen=True, repr=False)(kind)  # type: ignore[assignment]
    return documented(made)


def documented(kind: Kind) -> Kind:
    """Let the docstring say what the parameters of a class are, and what a fit leaves."""
    made: Any = kind
    first: Any = next(base for base in reversed(kind.__mro__) if "__dataclass_fields__" in vars(base))
    told = set() if first is kind else {entry.name for entry in fields(first)}  # the first says what all fits leave
    left = {one.name: one.metadata[_LEFT] for one in fields(made) if _LEFT in one.metadata and one.name not in told}
    given = {
        f"{one.name}={shortened(one.default)}": f"{one.about} ({one.requirement})" for one in parameters(kind).values()
    }
    if kind.__doc__:
        lists = [_list(title, rows) for title, rows in (("Parameters", given), ("After a fit", left)) if rows]
        kind.__doc__ = "\n\n".join([cleandoc(kind.__doc__), *lists])
    return kind


def _list(title: str, rows: Mapping[str, str]) -> str:
    """A titled list for a docstring, in two columns."""
    column = min(24, 3 + max(map(len, rows)))
    lines = (f"{name}   ".ljust(column) + about for name, about in rows.items())
    return f"{title}\n\n" + "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent=" " * column) for line in lines)


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
        return _written(self, [entry for entry in fields(self) if entry.compare])  # type: ignore[arg-type]


class Learner:
    """What methods share: scikit-learn's protocol of an estimator, and a repr of what differs from the defaults.

    `clone`, `GridSearchCV` and the like take a method as one of their own; scikit-learn is imported when it asks.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, in alphabetical order; with those of the model and the run as `model__l2`."""
        found = {name: getattr(self, name) for name in sorted(parameters(type(self)))}
        if not deep:
            return found
        held = {name: value.get_params() for name, value in found.items() if isinstance(value, Value)}
        return found | {f"{owner}__{name}": value for owner, own in held.items() for name, value in own.items()}

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def __repr__(self) -> str:
        declared = [entry for entry in fields(self) if entry.name in parameters(type(self))]  # type: ignore[arg-type]
        return _written(self, sorted(declared, key=lambda entry: entry.name))


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


def _written(owner: Any, entries: Iterable[Field[Any]]) -> str:
    """A call that makes it again, with those of these fields that differ from their defaults."""
    values = ((entry.name, getattr(owner, entry.name), entry.default) for entry in entries)
    changed = (f"{name}={value!r}" for name, value, default in values if not _same(value, default))
    return f"{type(owner).__name__}({', '.join(changed)})"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    return one is other or (type(one) is type(other) and one == other)
