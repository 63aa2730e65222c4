"""What the text of a JSON body shows and its parser hides: keys that are repeated, and true and false among numbers.

orjson keeps the last of two equal keys, and a struct takes True for 1. To look at each key and each type would cost as
much as to parse; to look at a few bytes of the text does not. These looks may raise a false alarm, never miss.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.service.layout import repeated_value
from cldrank.service.request_error import RequestError

_SMALL = 1 << 20  # bytes
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NUMBER_BEGINS = np.zeros(256, dtype=bool)
_NUMBER_BEGINS[np.frombuffer(b'-0123456789"[{n', dtype=np.uint8)] = True  # as do other values, but true and false


class JsonText:
    """The bytes of a body.

    >>> text = JsonText(b'{"ids": ["a:b"], "features": [[1, true]]}')
    >>> text.n_colons, text.may_list_booleans(), text.may_name_booleans()
    (3, True, True)
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._bytes: NDArray[np.uint8] = np.frombuffer(body, dtype=np.uint8)

    @property
    def n_colons(self) -> int:
        """How many there are: one per key, and those inside texts."""
        return int(np.count_nonzero(self._bytes == ord(":")))

    def may_escape_colons(self) -> bool:
        """Whether a text may hold a colon that is written as an escape."""
        return b"\\" in self._body and b"\\u003" in self._body

    def may_list_booleans(self) -> bool:
        """Whether true or false may stand anywhere."""
        return self._has(b"rue") or self._has(b"lse")

    def may_name_booleans(self) -> bool:
        """Whether true or false may stand behind a colon."""
        if self.n_colons > len(self._body) // 4:  # most are inside texts; a list of their places would take much memory
            return True
        colons, last = np.flatnonzero(self._bytes == ord(":")), len(self._bytes) - 1
        behind = self._bytes[np.minimum(colons + 1, last)]
        spaces = behind == ord(" ")
        if spaces.any():
            behind = np.where(spaces, self._bytes[np.minimum(colons + 2, last)], behind)
        return not bool(_NUMBER_BEGINS[behind].all())

    def refuse_excess(self, most: int, width: int) -> None:
        """Refuse, before it is parsed, what would take much more memory than `most` candidates of this width.

        A list of two bytes takes 60 in memory. Small bodies are let pass: they can do little harm.
        """
        if len(self._body) <= _SMALL or _is_within(self._body, most, width):
            return
        if not _is_within(_TEXT.sub(b"", self._body), most, width):  # signs inside texts do not count
            raise RequestError(
                f"the body holds more than {most:,} candidates of {width} features can have (--max-candidates)."
            )

    def _has(self, three: bytes) -> bool:
        """Whether three letters stand together; where the second is rare, ten times as fast as `in`."""
        middle = self._bytes[1:-1] == three[1]
        if np.count_nonzero(middle) > len(middle) // 100:
            return three in self._body
        return any(self._body[place : place + 3] == three for place in np.flatnonzero(middle).tolist())

    def refuse_repeated_key(self) -> None:
        """Say which key is repeated, by a parser that can tell."""
        try:
            json.loads(self._body, object_pairs_hook=_distinct_keys)
        except (RecursionError, ValueError) as error:
            raise error if isinstance(error, RequestError) else RequestError("a key appears twice.") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = repeated_value(key for key, _ in pairs)
        raise RequestError(f"the key {shortened(repeated)} appears twice in one object.")
    return found


def _is_within(text: bytes, most: int, width: int) -> bool:
    """Whether there are no more lists, objects and values than in a request with the most candidates."""
    signs = np.frombuffer(text, dtype=np.uint8)
    opened, commas = (sum(int(np.count_nonzero(signs == one)) for one in some) for some in (b"[{", b","))
    return opened <= 2 * most + 4 and commas <= (most + 1) * (width + 2) + 8
