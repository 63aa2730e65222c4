"""Changes to the tables of an experiment file: `key=value`, dotted keys, tables merged into tables."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from cldrank.errors import UsageError
from cldrank.experiment.decoding import check_plain, shown
from cldrank.reading import reason


def change(text: str) -> dict[str, Any]:
    """What `key=value` says, as a table; a value that is no TOML is a text.

    >>> change("simulation.noise=0.2")
    {'simulation': {'noise': 0.2}}
    >>> change("data=mq2008")
    {'data': 'mq2008'}
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{shown(text)} is not of the form KEY=VALUE, such as simulation.noise=0.2.")
    for written in (value, json.dumps(value.strip(), ensure_ascii=False)):
        try:
            made = tomllib.loads(f"{key} = {written}")
        except tomllib.TOMLDecodeError:
            continue
        except RecursionError:
            raise UsageError(f"{shown(key)}: nested too deeply.") from None
        except ValueError as error:  # of a number with thousands of digits
            raise UsageError(f"{shown(key)}: {reason(error)}.") from None
        check_plain(made)
        return made
    raise UsageError(f"{shown(key)} is not a key of an experiment; write simulation.noise=0.2, say.")


def nested(key: str, value: Any) -> dict[str, Any]:
    """The table in which a dotted key has a value."""
    for part in reversed(key.split(".")):
        value = {part: value}
    made: dict[str, Any] = value
    return made


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table with some of its entries changed, at any depth."""
    found = dict(table)
    for key, value in changes.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return found


def flat(table: Any) -> dict[str, Any]:
    """The entries of a table of tables by their dotted keys.

    >>> flat({"simulation": {"eta": [0, 1]}, "production.C": [1]})
    {'simulation.eta': [0, 1], 'production.C': [1]}
    """
    return dict(flat_pairs(table))


def flat_pairs(table: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """The same one by one, so that a key that is given twice can be seen."""
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if isinstance(value, Mapping):
            yield from flat_pairs(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
