"""Which of many numbers occur more than once: `Repeats` keeps them by their upper bits, in pieces that fit a cache.

A table of 10^8 numbers lies in main memory, and every look into it waits for that. So each block of numbers is first
ordered by its upper bits (`order`), and what has the same upper bits then goes through a small table (`repeated`).
Compiled by Numba, free of the interpreter lock.
"""

from __future__ import annotations

import mmap
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from cldrank.workers import ahead

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 10  # of 10^8 numbers, a piece takes 2 MiB in its table, and a block of DuckDB's has 120 numbers for each
_PIECES = 1 << _BITS
_SHIFT = np.uint64(64 - _BITS)
_ONE = np.uint64(1)


class Repeats:
    """Numbers below 2^64, in blocks, and those of them that may occur twice.

    n   the room for them; where more come, they move to a larger array, and for a moment lie in both

    >>> numbers = Repeats(n=5)
    >>> numbers.add(np.array([8, 6, 4], dtype=np.uint64))
    >>> numbers.add(np.array([2, 6], dtype=np.uint64))
    >>> len(numbers), numbers.found()
    (5, array([6], dtype=uint64))
    """

    def __init__(self, n: int) -> None:
        self._kept = _room_for(n)
        self._starts = [np.zeros(_PIECES + 1, dtype=np.int64)]

    def __len__(self) -> int:
        return int(self._starts[-1][-1])

    def add(self, numbers: NDArray[np.uint64]) -> None:
        """Keep one more block of numbers; some 10^5 at a time are best."""
        begin, end = len(self), len(self) + len(numbers)
        if end > len(self._kept):
            kept, self._kept = self._kept, _room_for(end + end // 4)
            self._kept[:begin] = kept[:begin]
        self._starts.append(begin + order(numbers, self._kept[begin:end]))

    def found(self, threads: int = 1) -> NDArray[np.uint64]:
        """Every number that occurs twice, once, and hardly ever one that does not (see `repeated`)."""
        starts = np.stack(self._starts)
        bounds = np.linspace(0, _PIECES, 4 * threads + 1).astype(np.int64)

        def among(pieces: tuple[np.int64, np.int64]) -> NDArray[np.uint64]:
            found = np.empty(repeated(self._kept, starts, *pieces, np.empty(0, dtype=np.uint64)), dtype=np.uint64)
            if len(found):
                repeated(self._kept, starts, *pieces, found)
            return np.unique(found)

        return np.concatenate(list(ahead(among, pairwise(bounds), threads, 2 * threads)))


def _room_for(n: int) -> NDArray[np.uint64]:
    """An array in pages of the usual size. NumPy asks for huge ones, and to make room for these takes Linux seconds."""
    own = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return np.frombuffer(mmap.mmap(-1, max(8 * n, 8), **own), dtype=np.uint64)


@njit(nogil=True, cache=True)
def order(numbers, into):
    """Write numbers in the order of their upper bits; where each piece, of the same upper bits, begins and ends."""
    starts = np.zeros(_PIECES + 1, np.int64)
    for i in range(numbers.size):
        starts[np.int64(numbers[i] >> _SHIFT) + 1] += 1
    for piece in range(_PIECES):
        starts[piece + 1] += starts[piece]
    ends = starts.copy()
    for i in range(numbers.size):
        piece = np.int64(numbers[i] >> _SHIFT)
        into[ends[piece]] = numbers[i]
        ends[piece] += 1
    return starts


@njit(nogil=True, cache=True)
def repeated(kept, starts, first, end, found):
    """How often a number came, in some pieces, that may have come before; `found` takes these, as far as it has room.

    A number goes to the first place of the table, from its own on, that is free or holds it already. Nothing is ever
    taken out, so when it comes again, each place before that one is still taken by another number, and it is met
    there: no repeated number is missed. 0 stands for a free place, and numbers are kept with their last bit set; so of
    two that differ in it alone, the second is found too, which does not occur twice.
    """
    sizes = np.zeros(_PIECES, np.int64)
    for b in range(len(starts)):
        for piece in range(first, end):
            sizes[piece] += starts[b, piece + 1] - starts[b, piece]
    table = np.empty(_room(sizes.max()), np.uint64)
    n = 0
    for piece in range(first, end):
        room = _room(sizes[piece])
        last = np.uint64(room - 1)
        table[:room] = 0
        for b in range(len(starts)):
            for i in range(starts[b, piece], starts[b, piece + 1]):
                number = kept[i] | _ONE
                place = (number >> _ONE) & last
                while table[place] != 0 and table[place] != number:
                    place = (place + _ONE) & last
                if table[place] == number:
                    if n < found.size:
                        found[n] = kept[i]
                    n += 1
                table[place] = number
    return n


@njit(nogil=True, cache=True)
def _room(n):
    """A power of two, at least twice as many."""
    room = 2
    while room < 2 * n:
        room *= 2
    return room
