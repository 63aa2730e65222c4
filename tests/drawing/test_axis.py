from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.drawing.axis import Axis

numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))


@given(st.lists(numbers, min_size=1, max_size=30))
def test_all_values_lie_on_the_axis(values: list[float]) -> None:
    for axis in (Axis.around(values), Axis.across(values)):
        assert all(-1e-9 <= axis.place(value) <= 1 + 1e-9 for value in values)
        assert axis.low < axis.high
        assert list(axis.ticks) == sorted(set(axis.ticks))
        assert all(axis.low - 1e-9 <= tick <= axis.high + 1e-9 for tick in axis.ticks)


@given(st.floats(0, 1), st.floats(1e-4, 1))
def test_values_have_a_few_marks(least: float, width: float) -> None:
    assert 3 <= len(Axis.around([least, least + width]).ticks) <= 9


def test_labels_of_neighbours_leave_room() -> None:
    axis = Axis.across(range(1, 101))
    places = [axis.place(tick) for tick in axis.ticks]
    assert 5 <= len(places) <= 15
    assert min(b - a for a, b in zip(places, places[1:], strict=False)) > 0.04


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [([2, 3, 5, 20], False), ([1e3, 1e4, 1e6], True), ([0, 1e6], False), ([0.0, 0.5], False), ([-5, 500], False)],
)
def test_only_wide_ranges_of_positive_values_are_logarithmic(values: list[float], logarithmic: bool) -> None:
    assert Axis.across(values).logarithmic is logarithmic


def test_one_value_stands_in_the_middle() -> None:
    assert Axis.across([5]).place(5) == pytest.approx(0.5)
    assert Axis.around([0.4]).place(0.4) == pytest.approx(0.5)


def test_marks_are_written_alike() -> None:
    axis = Axis.across([0.0, 0.25, 1.0])
    assert axis.labels == ("0.00", "0.25", "1.00")


def test_numbers_at_the_edge_of_what_there_is() -> None:
    assert Axis.around([5e-324, 5e-324]).low < 0 < Axis.around([5e-324, 5e-324]).high
    wide = Axis.across([1e-307, 1e308])
    assert wide.low <= 1e-307 < 1e308 <= wide.high


@pytest.mark.parametrize("top", [0.0, 1e-6, 0.037, 1.0, 1.3, 7.0, 14.0, 999.0, 1.23e9])
def test_an_axis_from_0_ends_at_a_round_number(top: float) -> None:
    axis = Axis.from_zero(top)
    assert axis.low == axis.ticks[0] == 0
    assert axis.high == axis.ticks[-1] >= top * (1 - 1e-9)
    assert 3 <= len(axis.ticks) <= 8
    assert len(axis.labels) == len(set(axis.labels)) == len(axis.ticks)


@pytest.mark.parametrize("count", [0, 1, 5, 24, 100])
def test_names_have_places_and_not_too_many_are_written(count: int) -> None:
    axis = Axis.of_labels([f"n{place}" for place in range(count)], most=9)
    assert len(axis.labels) <= 9
    assert all(label == f"n{tick}" for tick, label in zip(axis.ticks, axis.labels, strict=True))
    assert all(0 < axis.place(place) < 1 for place in range(count))


def test_rows_begin_at_the_top() -> None:
    axis = Axis.of_rows(["first", "second"])
    assert axis.place(0) > axis.place(1)
