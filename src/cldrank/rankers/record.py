"""`Record`: plain values that JSON holds and that are checked one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Self, get_args, get_type_hints

from cldrank._version import __version__
from cldrank.arguments import NO_BOUNDS, Bounds, shortened
from cldrank.errors import DataError
from cldrank.parameters import Parameter
from cldrank.reading import reason

_FINGERPRINT = re.compile(r"([0-9a-f]{64})?")
_COUNT = Bounds(least=0)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Record:
    """What all parts of a provenance share: every field has its type, texts can be written, counts are not negative."""

    what = "the provenance"  # in messages

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for entry in fields(kind):
            one, value = _declared(kind)[entry.name], getattr(self, entry.name)
            value = tuple(value) if isinstance(value, list) else value
            if not one.accepts(value):
                raise DataError(f"{entry.name} of {self.what} must be {one.requirement}, not {shortened(value)}.")
            if isinstance(value, Mapping):
                value = self._plain(entry.name, value)
            elif not all(map(can_be_written, _texts(value))):
                raise DataError(f"{entry.name} of {self.what} holds half a character: {shortened(value)}.")
            if entry.name == "fingerprint" and not _FINGERPRINT.fullmatch(value):
                raise DataError(f"fingerprint of {self.what} must be 64 hexadecimal digits, not {shortened(value)}.")
            object.__setattr__(self, entry.name, value)

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """The record that JSON holds; refused unless all of it is what a record has."""
        if not isinstance(content, dict):
            raise DataError(f"{cls.what} must be a dict, not {shortened(content)}.")
        kind: Any = cls
        declared = fields(kind)
        if unknown := content.keys() - {one.name for one in declared}:
            raise DataError(
                f"{cls.what} cannot be read: this cldrank ({__version__}) does not know the entry {min(unknown)!r}; "
                "did a newer one write it? If so, upgrade cldrank."
            )
        for one in declared:
            if one.default is MISSING and one.default_factory is MISSING and one.name not in content:
                raise DataError(f"{cls.what} cannot be read: {one.name!r} is missing.")
        return cls(**content)

    def _plain(self, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """A mapping as JSON gives it back."""
        try:
            text = json.dumps(dict(value), allow_nan=False, ensure_ascii=False)
            text.encode()
            plain: dict[str, Any] = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{name} of {self.what} must be plain JSON values: {reason(error)}.") from None
        return plain


def can_be_written(value: Any) -> bool:
    r"""Whether a value is a text that can be written: half a character (a lone surrogate) cannot.

    >>> can_be_written("länge"), can_be_written("\ud800"), can_be_written(3)
    (True, False, False)
    """
    return isinstance(value, str) and not _SURROGATE.search(value)


@cache
def _declared(kind: Any) -> dict[str, Parameter]:
    """The fields of a record; whole numbers are not negative."""
    hints = get_type_hints(kind)
    return {
        name: Parameter(name, one, None, "", _COUNT if int in _parts_of(one) else NO_BOUNDS)
        for name, one in hints.items()
    }


def _parts_of(kind: Any) -> set[Any]:
    return {kind, *get_args(kind)}


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, str)]
