from __future__ import annotations

import pytest
from click_tables import DATA

from cldrank import ClickTable
from cldrank.errors import DataError


def table(position: int, segment: str | None = None, clicks: int = 1) -> ClickTable:
    """One cell of the first candidate."""
    found = ClickTable.from_arrays(DATA, row=[0], position=[position], impressions=[5], clicks=[clicks])
    return found if segment is None else found.as_segment(segment)


def test_segments_stay_apart_and_equal_ones_add_up() -> None:
    both = table(1, "phone").merge(table(1, "desktop", clicks=2)).merge(table(1, "phone", clicks=3))
    assert both.segment_names == ("desktop", "phone")
    assert (both.segment.tolist(), both.clicks.tolist()) == ([0, 1], [2, 4])
    assert both.impressions.tolist() == [5, 10]


def test_the_order_of_merging_does_not_matter() -> None:
    one, two = table(1, "b").merge(table(2, "a")), table(2, "a").merge(table(1, "b"))
    for name in ("row", "segment", "position", "impressions", "clicks", "segment_names"):
        assert list(getattr(one, name)) == list(getattr(two, name))


def test_with_and_without_segments() -> None:
    with pytest.raises(DataError, match=r"one table has segments \(phone\), the other has none; .* segment"):
        table(1, "phone").merge(table(1))
    nothing = table(1).where(table(1).clicks > 9)
    assert nothing.merge(table(1, "phone")).segment_names == ("phone",)
    assert table(1, "phone").merge(nothing).segment_names == ("phone",)
