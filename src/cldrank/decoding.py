"""Tables of TOML: changed by `key=value`, turned into frozen values; what does not fit is refused."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from cldrank.arguments import one_of, requirements, shortened
from cldrank.errors import UsageError
from cldrank.parameters import Parameter, Value, parameters
from cldrank.reading import reason

Decoded = TypeVar("Decoded", bound=Value)

_DEEPEST = 50
_LARGEST = (1 << 63) - 1
_LONGEST = 80  # letters of a place in a message


# -- changes -----------------------------------------------------------------------------------------------------


def change(text: str) -> dict[str, Any]:
    """The table that `key=value` stands for; a value that is not TOML is a text.

    >>> change("simulation.noise=0.2")
    {'simulation': {'noise': 0.2}}
    >>> change("data=mq2008")
    {'data': 'mq2008'}
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{shortened(text)} is not of the form KEY=VALUE, such as simulation.noise=0.2.")
    for written in (value, json.dumps(value.strip(), ensure_ascii=False)):
        try:
            made = tomllib.loads(f"{key} = {written}")
        except tomllib.TOMLDecodeError:
            continue
        except RecursionError:
            raise UsageError(f"{shortened(key)}: nested too deeply.") from None
        except ValueError as error:  # a number with thousands of digits
            raise UsageError(f"{shortened(key)}: {reason(error)}.") from None
        check_plain(made)
        return made
    raise UsageError(f"{shortened(key)} is not a key of an experiment; write simulation.noise=0.2, say.")


def nested(key: str, value: Any) -> dict[str, Any]:
    """The table in which a dotted key has a value."""
    for part in reversed(key.split(".")):
        value = {part: value}
    made: dict[str, Any] = value
    return made


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table with some of its entries changed, at any depth."""
    changed = dict(table)
    for key, value in changes.items():
        old = changed.get(key)
        changed[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return changed


def dotted(table: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested tables with their dotted keys; a key that is repeated comes twice.

    >>> list(dotted({"simulation": {"eta": [0, 1]}, "production.C": [1]}))
    [('simulation.eta', [0, 1]), ('production.C', [1])]
    """
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


# -- content -----------------------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """JSON that is the same for the same content.

    >>> canonical({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as JSON holds it everywhere: keys are texts, and a number that is not finite is null.

    >>> plain({1: (0.5, math.inf)})
    {'1': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return plain(value.item()) if hasattr(value, "item") else str(value)


# -- decoding ----------------------------------------------------------------------------------------------------


def decode(kind: type[Decoded], table: Any, place: str) -> Decoded:
    """The value that a table describes, every key checked; `check_plain` has seen the table before.

    >>> from cldrank.parameters import parameter, value
    >>> @value
    ... class Noise(Value):
    ...     noise: float = parameter(default=0.1, about="noise", least=0)
    >>> decode(Noise, {"noise": 1}, "simulation").noise
    1.0
    >>> decode(Noise, {"nois": 1}, "simulation")
    Traceback (most recent call last):
    cldrank.errors.UsageError: simulation.nois is unknown. Did you mean noise? Known here: noise.

    A parameter whose key is a word of Python ends in an underscore there: `from_` is `from` in the file.
    """
    if not isinstance(table, Mapping):
        raise UsageError(f"{place} must be a table, not {shortened(table)}.")
    known = keys_of(kind)
    check_keys(table, known, place)
    return kind(**{known[key].name: _decoded(value, known[key], _joined(place, key)) for key, value in table.items()})


def keys_of(kind: type[Value]) -> dict[str, Parameter]:
    """The parameters of a value by the keys that a file has for them."""
    return {name.removesuffix("_"): known for name, known in parameters(kind).items()}


def decode_text(value: Any, place: str) -> str:
    """A text, refused if it is anything else."""
    if not isinstance(value, str):
        raise UsageError(f"{place} must be a text, not {shortened(value)}.")
    return value


def check_plain(table: Any, place: str = "", depth: int = 0) -> None:
    """Refuse what TOML allows and nothing here can use: dates, numbers that are not finite or too large, deep nests.

    >>> check_plain({"simulation": {"eta": float("inf")}})
    Traceback (most recent call last):
    cldrank.errors.UsageError: simulation.eta must be a finite number, not inf.
    """
    if depth > _DEEPEST:
        raise UsageError(f"{place[:_LONGEST]}: nested too deeply.")
    if isinstance(table, Mapping):
        for key, item in table.items():
            check_plain(item, _joined(place, key), depth + 1)
    elif isinstance(table, list | tuple):
        for item in table:
            check_plain(item, place, depth + 1)
    elif not isinstance(table, str | int | float):
        raise UsageError(f"{place} must be a text, a number, true, false or a list of these, not {table}.")
    elif isinstance(table, str) and "\0" in table:
        raise UsageError(f"{place} must be a text without the character NUL, not {shortened(table)}.")
    elif isinstance(table, float) and not math.isfinite(table):
        raise UsageError(f"{place} must be a finite number, not {table}.")
    elif isinstance(table, int):
        _checked_size(table, place)


def _checked_size(number: int, place: str) -> int:
    if abs(number) > _LARGEST:
        raise UsageError(f"{place} is too large: a number must fit into 64 bits.")
    return number


def check_keys(table: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Refuse a key that nothing would read."""
    names = list(known)
    for key in table:
        if key not in names:
            raise UsageError(f"{_joined(place, key)} is unknown.{guess(key, names)} Known here: {', '.join(names)}.")


def _decoded(given: Any, known: Parameter, place: str) -> Any:
    """A value as its parameter takes it: an item stands for a list, and a whole number may be written as 1e5."""
    value, kind = given, known.kinds[0]  # X or X | None: TOML has no null, so a value is always an X
    if get_origin(kind) is tuple:
        value = tuple(given) if isinstance(given, list | tuple) else (given,)
    elif kind is int and isinstance(given, float) and given.is_integer():
        value = _checked_size(int(given), place)
    elif kind is float and type(given) is int:
        value = float(given)
    single = get_args(kind)[0] if get_origin(kind) is tuple else kind
    if get_origin(single) is Literal:
        for word in value if isinstance(value, tuple) else (value,):
            decode_word(word, get_args(single), place)
    if not known.accepts(value):
        words = "true or false" if kind is bool else one_of(requirements(kind, known.bounds))
        raise UsageError(f"{place} must be {words}, not {shortened(given)}.")
    return value


def decode_word(value: Any, words: Sequence[str], place: str) -> str:
    """A word of `words`; anything else is refused, with the nearest of them."""
    if isinstance(value, str) and value in words:
        return value
    raise UsageError(f"{place} must be {one_of([*map(repr, words)])}, not {shortened(value)}.{guess(value, words)}")


def guess(name: Any, known: Iterable[str]) -> str:
    """What was probably meant, as the end of a message; empty where nothing is near.

    >>> guess("gama", ["gamma", "l2"])
    ' Did you mean gamma?'
    """
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""


def _joined(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key
