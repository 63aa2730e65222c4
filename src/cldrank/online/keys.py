"""Keys: what a page or an arm is drawn from, such as (person, query, experiment), as bits of a stable hash."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import refuse

Key = str | int | tuple[str | int, ...]
MOST_COINS = 512  # bits of a digest


def digest(key: Key, purpose: bytes) -> bytes:
    """64 bytes that differ by key and by purpose, the same on every machine; 12 and '12' are the same key.

    >>> digest(("ada", 12), b"draft") == digest(("ada", "12"), b"draft")
    True
    >>> digest(("ad", "a12"), b"draft") == digest(("ada", "12"), b"draft")
    False
    """
    parts = key if type(key) is tuple else (key,)
    encoded = "".join([f"{len(text)}:{text}" for text in map(_text, parts)])
    return blake2b(encoded.encode("utf-8", "surrogatepass"), person=purpose).digest()


def _text(part: Any) -> str:
    if type(part) is str:
        return part
    if isinstance(part, bool | np.bool_) or not isinstance(part, str | int | np.integer):
        refuse("key", part, "a text, a whole number or a tuple of these")
    return str(part)


def coins(keys: Iterable[Key], count: int, purpose: bytes) -> NDArray[np.uint8]:
    """(keys, count) bits, the first of each digest."""
    joined = b"".join([digest(key, purpose) for key in keys])
    words = np.frombuffer(joined, dtype=np.uint8).reshape(-1, MOST_COINS // 8)
    return np.unpackbits(words, axis=1, count=count, bitorder="little")


def fractions(key: Key, purpose: bytes) -> list[float]:
    """Eight independent numbers, uniform from 0 to below 1."""
    words = np.frombuffer(digest(key, purpose), dtype="<u8") >> np.uint64(11)  # 53 bits: float64 holds no more
    return [float(word) for word in words / float(1 << 53)]
