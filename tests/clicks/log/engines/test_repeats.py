"""Numbers that occur twice, against a plain count."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cldrank.clicks.log.engines.repeats import Repeats

# Few upper bits and few lower ones: numbers of one piece, of one place in its table, and of one last bit
NUMBERS = st.builds(lambda upper, middle, lower: upper << 53 | middle << 9 | lower, *[st.integers(0, 3)] * 3)


@given(
    blocks=st.lists(st.lists(NUMBERS, max_size=30), max_size=4), expected=st.integers(0, 100), threads=st.integers(1, 3)
)
def test_as_counted_one_by_one(blocks: list[list[int]], expected: int, threads: int) -> None:
    numbers = Repeats(expected)
    for block in blocks:
        numbers.add(np.array(block, dtype=np.uint64))
    counts = Counter(number for block in blocks for number in block)
    found = set(numbers.found(threads).tolist())
    assert len(numbers) == counts.total()
    assert found >= {number for number, count in counts.items() if count > 1}  # none is missed
    assert all(counts[number] > 1 or counts[number ^ 1] for number in found)  # others only beside one like it
    assert len(found) == len(numbers.found())


def test_many_numbers_and_one_twice() -> None:
    drawn = np.unique(np.random.default_rng(1).integers(0, 1 << 64, 100_000, dtype=np.uint64) | np.uint64(1))
    np.random.default_rng(2).shuffle(drawn)
    numbers = Repeats(len(drawn))
    for block in np.array_split(drawn, 7):
        numbers.add(block)
    assert numbers.found().tolist() == []
    numbers.add(drawn[:1])
    assert numbers.found().tolist() == [drawn[0]]
