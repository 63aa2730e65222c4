from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cldrank import segments

KINDS = pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=8)
NUMBERS = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, 2.0, 2.0 + 2**-51, -1.0, -(2.0**-1074)])


@st.composite
def segmented(draw: st.DrawFn, numbers: st.SearchStrategy[float] = NUMBERS) -> tuple[list[list[float]], Any, Any]:
    """Some segments, as lists, and the same as values and offsets."""
    lengths = draw(LENGTHS)
    parts = [draw(st.lists(numbers, min_size=length, max_size=length)) for length in lengths]
    values = np.array([value for part in parts for value in part], dtype=np.float64)
    return parts, values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def listed(array: Any) -> list[Any]:
    result: list[Any] = array.tolist()
    return result


@KINDS
@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS, count=st.integers(1, 6))
def test_offsets_rows_and_places(kind: Any, lengths: list[int], count: int) -> None:
    offsets = segments.from_lengths(kind(np.array(lengths, dtype=np.int64)))
    rows = [list(range(sum(lengths[:i]), sum(lengths[: i + 1]))) for i in range(len(lengths))]
    assert listed(offsets) == [0, *(sum(lengths[: i + 1]) for i in range(len(lengths)))]
    assert listed(segments.segment_of_rows(offsets)) == [i for i, part in enumerate(rows) for _ in part]
    assert listed(segments.places_in_segments(offsets)) == [place + 1 for part in rows for place in range(len(part))]
    chosen = kind(np.arange(len(lengths))[::-1].copy())
    assert listed(segments.rows_of_segments(offsets, chosen)) == [row for part in rows[::-1] for row in part]
    first, shorter = segments.first_rows_of_segments(offsets, count)
    assert listed(first) == [row for part in rows for row in part[:count]]
    assert listed(shorter[1:] - shorter[:-1]) == [min(length, count) for length in lengths]


@KINDS
@settings(max_examples=40, deadline=None)
@given(data=segmented(st.integers(-9, 9).map(float)))
def test_reductions_equal_a_loop(kind: Any, data: Any) -> None:
    parts, values, offsets = data
    values, offsets = kind(values), kind(offsets)
    assert listed(segments.sums_of_segments(values, offsets)) == [sum(part) for part in parts]
    assert listed(segments.maxima_of_segments(values, offsets)) == [max([0.0, *part]) for part in parts]
    running = [sum(part[: i + 1]) for part in parts for i in range(len(part))]
    assert listed(segments.running_sums(values, offsets)) == running


def test_rounding_does_not_build_up_over_many_segments() -> None:
    values = np.log(np.random.default_rng(0).uniform(0.05, 1, size=400_000))
    running = segments.running_sums(values, np.arange(0, 400_001, 100))
    np.testing.assert_allclose(running.reshape(-1, 100), values.reshape(-1, 100).cumsum(axis=1), rtol=0, atol=1e-10)


@KINDS
@settings(max_examples=40, deadline=None)
@given(data=segmented())
@example(data=([[2.0, 2.0 + 2**-51]], np.array([2.0, 2.0 + 2**-51]), np.array([0, 2])))
def test_order_is_by_segment_then_value_whatever_the_values(kind: Any, data: Any) -> None:
    parts, values, offsets = data
    order = segments.descending_order(kind(values), kind(offsets))
    expected = [value for part in parts for value in sorted(part, reverse=True)]
    assert values[np.asarray(order)].tolist() == expected
    assert sorted(listed(order)) == list(range(len(values)))
    assert listed(segments.segment_of_rows(kind(offsets))[order]) == listed(segments.segment_of_rows(offsets))
    assert listed(segments.descending_values(kind(values), kind(offsets))) == expected
    ranks = np.asarray(segments.descending_ranks(kind(values), kind(offsets)))
    assert ranks[np.asarray(order)].tolist() == listed(segments.places_in_segments(offsets))


@settings(max_examples=40, deadline=None)
@given(data=segmented(st.sampled_from([0.0, -0.0, 1.0, 1 / 3])))
def test_numpy_and_torch_break_ties_alike(data: Any) -> None:
    _, values, offsets = data
    order = segments.descending_order(values, offsets)
    assert listed(segments.descending_order(torch.as_tensor(values), torch.as_tensor(offsets))) == order.tolist()


def test_ties_are_broken_by_the_tie_breakers() -> None:
    offsets = np.array([0, 6, 12])
    drawn = segments.tie_breakers(np.arange(12), offsets).reshape(2, 6)
    order = segments.descending_order(np.ones(12), offsets).reshape(2, 6)
    assert (order - [[0], [6]]).tolist() == drawn.argsort(axis=1).tolist()
    assert (order[1] - 6).tolist() != order[0].tolist()  # each query draws its own


def test_tie_breakers_are_splitmix64() -> None:
    """The first numbers of the generator with seed 0, as its reference implementation prints them."""
    drawn = segments.tie_breakers(np.arange(3), np.array([0, 3])).view(np.uint64)
    assert [hex(number) for number in drawn] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_one_segment_and_no_rows() -> None:
    none = np.empty(0)
    assert segments.descending_order(none, np.array([0])).tolist() == []
    assert segments.descending_order(none, np.array([0, 0])).tolist() == []
    assert segments.sums_of_segments(none, np.array([0, 0])).tolist() == [0.0]
    assert segments.running_sums(none, np.array([0])).tolist() == []
    assert segments.descending_order(np.array([1.0, np.inf, -np.inf]), np.array([0, 3])).tolist() == [1, 0, 2]
