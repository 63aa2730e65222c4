"""Tables of TOML into frozen dataclasses; what does not fit is refused with its place and what would fit."""

from __future__ import annotations

import difflib
import math
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cldrank.errors import UsageError

Decoded = TypeVar("Decoded")

_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_DEEPEST = 50
_LARGEST = (1 << 63) - 1
_LONGEST = 80  # letters of a value in a message


def bounded(default: Any, least: float, most: float = float("inf"), *, above: bool = False) -> Any:
    """A field of a dataclass with the least and the most that it may be; `above`: the least itself is too little."""
    return field(default=default, metadata={"least": least, "most": most, "above": above})


def decode(kind: type[Decoded], table: Any, place: str) -> Decoded:
    """The dataclass that a table describes, every key checked; `check_plain` has seen the table before.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Noise:
    ...     noise: float = 0.1
    >>> decode(Noise, {"noise": 1}, "simulation")
    Noise(noise=1.0)
    >>> decode(Noise, {"nois": 1}, "simulation")
    Traceback (most recent call last):
    cldrank.errors.UsageError: simulation.nois is unknown. Did you mean noise? Known here: noise.
    """
    if not isinstance(table, Mapping):
        raise UsageError(f"{place} must be a table, not {shown(table)}.")
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    check_keys(table, known, place)
    hints = get_type_hints(kind)
    for name, one in known.items():
        if name not in table and one.default is MISSING and one.default_factory is MISSING:
            raise UsageError(f"{_joined(place, name)} is missing.")
    return kind(**{name: _value(table[name], hints[name], known[name], _joined(place, name)) for name in table})


def check_plain(table: Any, place: str = "") -> None:
    """Refuse what TOML can say and nothing here can use: dates, numbers that are not finite or too large, deep nests.

    >>> check_plain({"simulation": {"eta": float("inf")}})
    Traceback (most recent call last):
    cldrank.errors.UsageError: simulation.eta must be a finite number, not inf.
    """
    for name, value in leaves(table, place):
        if not isinstance(value, str | int | float):
            raise UsageError(f"{name} must be a text, a number, true, false or a list of these, not {value}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name} must be a finite number, not {value}.")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise UsageError(f"{name} is too large a number: it has to fit into 64 bits.")


def leaves(table: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """All that is neither a table nor a list, with where it stands; what is nested too deeply is refused.

    >>> list(leaves({"a": {"b": [1, 2]}}))
    [('a.b', 1), ('a.b', 2)]
    """
    waiting = [(table, place, 0)]
    while waiting:
        value, place, depth = waiting.pop()
        if depth > _DEEPEST:
            raise UsageError(f"{place[:_LONGEST]}: nested too deeply.")
        if isinstance(value, Mapping):
            waiting += [(item, _joined(place, key), depth + 1) for key, item in reversed([*value.items()])]
        elif isinstance(value, list | tuple):
            waiting += [(item, place, depth + 1) for item in reversed(value)]
        else:
            yield place, value


def shown(value: Any) -> str:
    """A value for a message, in not too many letters."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def check_keys(table: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Refuse a key that nobody would read."""
    names = list(known)
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            guess = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"{_joined(place, key)} is unknown.{guess} Known here: {', '.join(names)}.")


def _value(value: Any, hint: Any, one: Field[Any], place: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):  # X | None: TOML has no null, so a value is always an X
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    if get_origin(hint) is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_scalar(item, get_args(hint)[0], place) for item in items)
    found = _scalar(value, hint, place)
    limits = one.metadata
    if limits:
        least, most = limits["least"], limits["most"]
        if not least <= found <= most or (limits["above"] and found == least):
            floor = f"above {least:g}" if limits["above"] else f"at least {least:g}"
            ceiling = "" if most == float("inf") else f" and at most {most:g}"
            raise UsageError(f"{place} must be {floor}{ceiling}, not {shown(value)}.")
    return found


def _scalar(value: Any, kind: Any, place: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int and number and value == int(value):  # so that sessions may be written 1e5
        if abs(value) > _LARGEST:
            raise UsageError(f"{place} is too large a number: it has to fit into 64 bits.")
        return int(value)
    if kind is float and number:
        return float(value)
    if kind in (str, bool) and isinstance(value, kind):
        return value
    raise UsageError(f"{place} must be {_KINDS[kind]}, not {shown(value)}.")


def _joined(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
