"""Parameters that describe themselves: keyword-only dataclass fields with a type, bounds and a sentence.

Checks, options of the command line, spaces to tune over and the list in the class's docstring all come from there.
"""

from __future__ import annotations

import textwrap
import types
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from inspect import cleandoc
from os import PathLike
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from cldrank.arguments import NO_BOUNDS, Bounds, is_of_kind, one_of, requirements, shortened, shortened_text
from cldrank.errors import UsageError

_KEY = "cldrank"
_LEFT = "cldrank, learned"  # the key of what a fit leaves
_WIDTH = 120
Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True)
class Parameter:
    """A parameter as it was declared.

    about     a sentence for help and docs, without a full stop
    bounds    of a number, or of each number in a tuple
    option    whether the command line offers it
    tried     the values that tuning tries, as a text: 0.05:0.3, 1e-3:1e-2:log, or 0.0,0.2,0.5; empty for none
    role      what it serves, which says who heeds and who offers it; empty for what decides every result
    models    of a method: the families of models that heed it; empty for all
    """

    name: str
    kind: Any
    default: Any
    about: str
    bounds: Bounds = NO_BOUNDS
    option: bool = True
    tried: str = ""
    role: str = ""
    models: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that it may have, without None."""
        union = get_origin(self.kind) in (Union, types.UnionType)
        return tuple(kind for kind in (get_args(self.kind) if union else (self.kind,)) if kind is not type(None))

    @property
    def optional(self) -> bool:
        """Whether None is a value."""
        return type(None) in get_args(self.kind)

    @property
    def requirement(self) -> str:
        """What it must be, in words, such as `a number above 0 and up to 1, or None`."""
        words = one_of([words for kind in self.kinds for words in requirements(kind, self.bounds)])
        return f"{words}, or None" if self.optional else words

    def accepts(self, value: Any) -> bool:
        """Whether a value is of its type and within its bounds."""
        if value is None:
            return self.optional or self.kind is Any
        return any(is_of_kind(kind, value, self.bounds) for kind in self.kinds)

    def check(self, value: Any, typed: str | None = None) -> None:
        """Refuse a value that it does not accept; `typed` is how it was written on a command line."""
        if not self.accepts(value):
            given = shortened(value) if typed is None else shortened_text(typed)
            share = given.removesuffix("%")
            advice = f"; write {float(share) / 100:g}" if share != given and share.isdecimal() else ""
            raise UsageError(f"`{self.name}` must be {self.requirement}, not {given}{advice}.")

    def parse(self, text: str) -> Any:
        """The value that a text stands for, as on a command line; commas separate the parts of a list.

        >>> gamma = Parameter("gamma", float | Literal["profile"], 0.1, "correlation", Bounds(above=-1, below=1))
        >>> gamma.parse("0.3"), gamma.parse("profile")
        (0.3, 'profile')
        """
        if self.optional and str not in self.kinds and text.lower() == "none":
            return None
        value: Any = text
        words_first = sorted(self.kinds, key=lambda kind: get_origin(kind) is Literal, reverse=True)  # type: ignore[comparison-overlap]
        for kind in words_first:
            with suppress(ValueError):
                value = _parsed(kind, text)
                break
        self.check(value, text)
        return value

    @property
    def metavar(self) -> str:
        """What stands for its value in a help text, such as `NUMBER|profile`."""
        if any(get_origin(kind) is PathLike for kind in self.kinds):
            return "PATH"
        none = ["none"] if self.optional and self.default is not None else []  # where it is not the same as no option
        return "|".join([*filter(None, map(_metavar, self.kinds)), *none])


def _parsed(kind: Any, text: str) -> Any:
    """A text as a value of a type; ValueError where it cannot be."""
    origin = get_origin(kind)
    if origin is Literal and text in get_args(kind):
        return text
    if origin in (tuple, Sequence):
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        if "" not in parts:
            return tuple(_parsed(get_args(kind)[0], part) for part in parts)
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in (int, float):
        return kind(text)
    if kind is str or (isinstance(origin or kind, type) and issubclass(origin or kind, PathLike)):
        return text
    raise ValueError(text)


def _metavar(kind: Any) -> str:
    """What stands for a value of a type in a help text; nothing for a value that only Python can make."""
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if get_origin(kind) in (tuple, Sequence):
        return "NAME,…" if get_args(kind)[0] is str else f"{_metavar(get_args(kind)[0])},…"
    return {float: "NUMBER", int: "INTEGER", str: "TEXT"}.get(kind, "")


def parameter(
    *,
    default: Any,
    about: str,
    option: bool = True,
    tried: str = "",
    role: str = "",
    models: tuple[str, ...] = (),
    compare: bool = True,
    kw_only: bool = True,
    **bounds: float | None,
) -> Any:
    """Declare a parameter of a class made with `described` or `value`; `bounds` are those of `Bounds`.

    option     False keeps it from the command line
    tried      what `cldrank tune` tries unless it is told otherwise
    role       what it serves, such as "resume" or "log"; see `with_role`
    models     of a method: the families of models that heed it, where not all do
    compare    False for what does not decide the result, such as a function that is called back
    """
    metadata = {_KEY: (about, Bounds(**bounds), option, tried, role, models)}
    return field(default=default, metadata=metadata, compare=compare, kw_only=kw_only)


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
    after = (entry for entry in fields(made) if _LEFT in entry.metadata and entry.name not in told)
    left = {entry.name: entry.metadata[_LEFT] for entry in after}
    declared = parameters(kind).items()
    given = {f"{name}={shortened(known.default)}": f"{known.about} ({known.requirement})" for name, known in declared}
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
    """What frozen values share: checks, scikit-learn's habits, and a repr of what differs from the defaults."""

    def __post_init__(self) -> None:
        check_all(self)
        for name in parameters(type(self)):
            if isinstance(getattr(self, name), list):  # a value must not change with the list it was made of
                object.__setattr__(self, name, tuple(getattr(self, name)))

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The parameters by name; none of them has parameters of its own."""
        del deep
        return {name: getattr(self, name) for name in parameters(type(self))}

    def __sklearn_clone__(self) -> Any:
        return self  # frozen

    def __repr__(self) -> str:
        return _written(self, [entry for entry in fields(self) if entry.compare])  # type: ignore[arg-type]


class Learner:
    """What methods share: scikit-learn's protocol of an estimator, and a repr of what differs from the defaults."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, in alphabetical order; with those of the model and the run as `model__l2`."""
        own = {name: getattr(self, name) for name in sorted(parameters(type(self)))}
        if not deep:
            return own
        held = {name: value.get_params() for name, value in own.items() if isinstance(value, Value)}
        return own | {f"{owner}__{name}": value for owner, held_by in held.items() for name, value in held_by.items()}

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
    declared = {}
    for entry in fields(kind):
        if entry.init and _KEY in entry.metadata:
            default = None if entry.default is MISSING else entry.default
            about, *rest = entry.metadata[_KEY]
            declared[entry.name] = Parameter(entry.name, hints[entry.name], default, about, *rest)
    return declared


def with_role(kind: type, *roles: str) -> tuple[str, ...]:
    """The names of the parameters of a class that have any of these roles."""
    return tuple(name for name, own in parameters(kind).items() if own.role in roles)


def check_all(owner: Any) -> None:
    """Refuse the first parameter of a value or a method that is not what it was declared to be."""
    for name, known in parameters(type(owner)).items():
        known.check(getattr(owner, name))


def _written(owner: Any, entries: Iterable[Field[Any]]) -> str:
    """A call that makes it again, with those of these fields that differ from their defaults."""
    values = ((entry.name, repr(getattr(owner, entry.name)), repr(entry.default)) for entry in entries)
    changed = (f"{name}={value}" for name, value, default in values if value != default)
    return f"{type(owner).__name__}({', '.join(changed)})"
