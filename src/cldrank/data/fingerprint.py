"""Fingerprints: a SHA-256 of what data hold, the same wherever they were read from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.workers import ahead, available_cores, fair_threads

_BLOCK = 1 << 20  # values, of whose digests a fingerprint is made: what is memory-mapped is never read as a whole


def fingerprint_of(parts: dict[str, NDArray[Any] | Sequence[str] | None]) -> str:
    """The fingerprint of named arrays of numbers or texts; None is a part of its own.

    Equal values have equal fingerprints: the width of texts, the sign of a zero and the bits of a NaN do not count.

    >>> fingerprint_of({"ids": ["a", "b"]})[:8]
    '538e31b5'
    >>> fingerprint_of({"x": np.array([0.0, 1.0])}) == fingerprint_of({"x": np.array([-0.0, 1.0])})
    True
    """
    digest = hashlib.sha256()
    for name, values in parts.items():
        array: Any = None if values is None else np.asarray(values)
        if array is not None and not array.size and array.dtype.kind != "U":
            array = array.astype(np.float32)  # of no values, the type means nothing
        shape = None if array is None else array.shape
        kind = "" if array is None else "text" if array.dtype.kind == "U" else array.dtype.newbyteorder("<").str
        digest.update(f"{name} {kind} {shape}\n".encode())
        if array is not None:
            _add(digest, array)
    return digest.hexdigest()


def _add(digest: Any, array: NDArray[Any]) -> None:
    """Add the digests of all blocks, which threads compute side by side."""
    rows = max(1, _BLOCK // max(1, array[:1].size))
    blocks = (array[start : start + rows] for start in range(0, len(array), rows))
    threads = fair_threads(available_cores())
    for found in ahead(_digest, blocks, threads, 2 * threads) if len(array) > rows else map(_digest, blocks):
        digest.update(found)


def _digest(block: NDArray[Any]) -> bytes:
    if block.dtype.kind == "U":
        lengths = np.char.str_len(block).astype("<i8").tobytes()
        return hashlib.sha256(lengths + "".join(block.ravel().tolist()).encode("utf-8", "surrogatepass")).digest()
    if block.dtype.kind == "f":
        block = block + block.dtype.type(0)  # -0 + 0 = 0
        block[np.isnan(block)] = np.nan
    return hashlib.sha256(np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).data).digest()
