from __future__ import annotations

from dataclasses import replace

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
    with pytest.raises(DataError, match="table 2 .*`segment=False`, table 1 .*`segment=True`"):
        table(1, "phone").merge(table(1))
    nothing = table(1).where(table(1).clicks > 9)
    assert nothing.merge(table(1, "phone")).segment_names == ("phone",)
    assert table(1, "phone").merge(nothing).segment_names == ("phone",)


def test_tables_that_were_counted_in_another_way_are_refused() -> None:
    with pytest.raises(DataError, match="table 2 .*`every_click=True`, table 1 .*`every_click=False`"):
        table(1).merge(replace(table(1), every_click=True))
    wide, narrow, unknown = (replace(table(1), layout=one) for one in ({"grid_columns": 4}, {"grid_columns": 3}, {}))
    with pytest.raises(DataError, match="table 3 .*`grid_columns=3`, table 2 .*`grid_columns=4`"):
        ClickTable.merged([unknown, wide, narrow])
    assert ClickTable.merged([unknown, wide]).layout == {"grid_columns": 4}


def test_nothing_with_and_without_segments() -> None:
    nothing = table(1).where(table(1).clicks > 9)
    assert nothing.merge(nothing.as_segment("phone")).n_cells == 0
