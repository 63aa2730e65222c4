"""What the text of a JSON body shows and its parser hides: keys that are repeated, and true and false among numbers.

orjson keeps the last of two equal keys, and a struct takes True for 1. To look at each key and each type would cost as
much as to parse; to look at a few bytes of the text does not. These looks may raise a false alarm, never miss.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import shortened
from cldrank.service.layout import first_repeated
from cldrank.service.request_error import RequestError

_NUMBER_BEGINS = np.zeros(256, dtype=bool)
_NUMBER_BEGINS[np.frombuffer(b'-0123456789"[{n', dtype=np.uint8)] = True  # as do other values, but true and false


class JsonText:
    """The bytes of a body, and where its colons are.

    >>> text = JsonText(b'{"ids": ["a:b"], "features": [[1, true]]}')
    >>> text.n_colons, text.may_list_booleans(), text.may_name_booleans()
    (3, True, True)
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._bytes: NDArray[np.uint8] = np.frombuffer(body, dtype=np.uint8)
        self._colons = np.flatnonzero(self._bytes == ord(":"))

    @property
    def n_colons(self) -> int:
        """How many there are: one per key, and those inside texts."""
        return len(self._colons)

    def may_list_booleans(self) -> bool:
        """Whether true or false may stand in a list of lists of numbers."""
        start, end = self._body.find(b"[["), self._body.rfind(b"]]")
        return start < 0 or any(self._body.find(letter, start, end) >= 0 for letter in (b"u", b"s"))

    def may_name_booleans(self) -> bool:
        """Whether true or false may stand behind a colon."""
        last = len(self._bytes) - 1
        behind = self._bytes[np.minimum(self._colons + 1, last)]
        spaces = behind == ord(" ")
        if spaces.any():
            behind = np.where(spaces, self._bytes[np.minimum(self._colons + 2, last)], behind)
        return not bool(_NUMBER_BEGINS[behind].all())

    def refuse_repeated_key(self) -> None:
        """Say which key is repeated, by a parser that can tell."""
        try:
            json.loads(self._body, object_pairs_hook=_distinct_keys)
        except (RecursionError, ValueError) as error:
            raise error if isinstance(error, RequestError) else RequestError("a key appears twice.") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = first_repeated(key for key, _ in pairs)
        raise RequestError(f"the key {shortened(repeated)} appears twice in one object.")
    return found
