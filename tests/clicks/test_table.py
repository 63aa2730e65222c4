from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click_tables import DATA, cells, tables
from hypothesis import given
from hypothesis import strategies as st

from cldrank import ClickTable
from cldrank.errors import CldrankWarning, DataError, UsageError


class TestMaking:
    def test_one_entry_a_row(self) -> None:
        table = ClickTable.from_arrays(
            DATA, position=[1, 2, 0, 1, 0, 0], impressions=[5, 5, 0, 2, 0, 0], clicks=[3, 0, 0, 1, 0, 0]
        )
        assert cells(table) == [(1, "a", 1, 5, 3), (1, "b", 2, 5, 0), (2, "a", 1, 2, 1)]
        assert table.shown.tolist() == [True, True, False, True, False, False]
        assert table.query_impressions.tolist() == [5, 2, 0]
        assert table.depth == 2
        assert repr(table) == (
            "ClickTable(3 queries, 6 candidates, 3 shown at positions 1…2; 3 cells, 12 impressions, 4 clicks)"
        )

    def test_several_positions_and_equal_cells(self) -> None:
        table = ClickTable.from_arrays(
            DATA, row=[1, 0, 1, 1], position=[2, 1, 1, 2], impressions=[3, 4, 1, 2], clicks=[1, 0, 1, 1]
        )
        assert cells(table) == [(1, "a", 1, 4, 0), (1, "b", 1, 1, 1), (1, "b", 2, 5, 2)]
        assert table.row_impressions.tolist() == [4, 6, 0, 0, 0, 0]
        assert table.row_clicks.tolist() == [0, 3, 0, 0, 0, 0]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"position": [1]}, "1 entries for 6 rows"),
            ({"position": [1.5, 0, 0, 0, 0, 0]}, "entry 0 of position is 1.5"),
            ({"impressions": [1]}, "impressions has 1 entries, position 6"),
            ({"clicks": [2, 0, 0, 0, 0, 0]}, "row 0 at position 1 has 2 clicks in 1 impressions"),
            ({"clicks": [0, 1, 0, 0, 0, 0]}, "entry 1 has clicks but position 0"),
            ({"clicks": ["a"] * 6}, "clicks must be whole numbers"),
            ({"row": [9, 0, 0, 0, 0, 0]}, "names row 9, but there are 6 candidates"),
            ({"position": [10_001, 0, 0, 0, 0, 0]}, "from 0 to 10,000"),
            ({"impressions": np.array([2**64 - 1, 0, 0, 0, 0, 0], np.uint64)}, "18446744073709551615"),
        ],
    )
    def test_refusals(self, change: dict[str, Any], message: str) -> None:
        good = {"position": [1, 0, 0, 0, 0, 0], "impressions": [1, 0, 0, 0, 0, 0], "clicks": [0] * 6}
        with pytest.raises(DataError, match=message):
            ClickTable.from_arrays(DATA, **{**good, **change})

    def test_sums_that_do_not_fit(self) -> None:
        impressions = [2**61, 2**60, 0, 0, 0, 0]
        table = ClickTable.from_arrays(DATA, position=[1, 2, 0, 0, 0, 0], impressions=impressions, clicks=[0] * 6)
        assert table.impressions.sum() == 2**61 + 2**60
        with pytest.raises(DataError, match=r"impressions add up to more than 2\^62"):
            table.merge(table)


class TestPartsAndSums:
    @given(tables(), tables())
    def test_merging_adds_and_commutes(self, first: ClickTable, second: ClickTable) -> None:
        both = first.merge(second)
        assert cells(both) == cells(second.merge(first))
        assert both.impressions.sum() == first.impressions.sum() + second.impressions.sum()
        assert both.row_clicks.tolist() == (first.row_clicks + second.row_clicks).tolist()

    @given(tables(), st.integers(0, 50))
    def test_a_split_goes_with_the_datasets(self, table: ClickTable, seed: int) -> None:
        parts, data = table.split([0.4, 0.6], seed=seed), DATA.split([0.4, 0.6], seed=seed)
        for part, dataset in zip(parts, data, strict=True):
            part.check_same(dataset)
        assert sorted(cell for part in parts for cell in cells(part)) == sorted(cells(table))
        for chosen in (0, slice(1, 3), [2, 0], np.array([True, False, True])):
            table[chosen].check_same(DATA[chosen])
            wanted = set(DATA[chosen].query_ids.tolist())
            assert sorted(cells(table[chosen])) == sorted(cell for cell in cells(table) if cell[0] in wanted)
        with pytest.raises(DataError, match="2 queries and 4 candidates"):
            table[[0, 2]].check_same(DATA)

    @given(tables(), st.integers(1, 5))
    def test_the_first_positions(self, table: ClickTable, depth: int) -> None:
        first = table.first(depth)
        first.check_same(DATA)
        assert cells(first) == [cell for cell in cells(table) if cell[2] <= depth]
        assert first.depth <= depth
        assert cells(first.first(depth + 1)) == cells(first)
        assert (first.shown <= table.shown).all()
        with pytest.raises(UsageError, match="`depth`"):
            table.first(0)

    @given(tables())
    def test_some_cells(self, table: ClickTable) -> None:
        clicked = table.clicks > 0
        kept = table.where(clicked)
        kept.check_same(DATA)
        assert sorted([*cells(kept), *cells(table.where(~clicked))]) == sorted(cells(table))
        with pytest.raises(UsageError, match="needs True or False"):
            table.where(np.arange(table.n_cells + 1))  # type: ignore[arg-type]

    def test_tables_without_a_dataset_merge_by_id(self, tmp_path: Path) -> None:
        def table(**columns: list[Any]) -> ClickTable:
            pq.write_table(pa.table(columns), tmp_path / "cells.parquet")
            return ClickTable.read(tmp_path / "cells.parquet")

        one = table(query_id=["q", "q"], doc_id=[1, 2], position=[1, 2], impressions=[5, 5], clicks=[1, 0])
        two = table(query_id=["r", "q"], doc_id=[7, 3], position=[1, 2], impressions=[2, 4], clicks=[0, 4])
        assert cells(one.merge(two)) == [("q", 1, 1, 5, 1), ("q", 2, 2, 5, 0), ("q", 3, 2, 4, 4), ("r", 7, 1, 2, 0)]


class TestDisplay:
    TABLE = ClickTable.from_arrays(
        DATA, position=[1, 2, 0, 1, 0, 1], impressions=[5, 5, 0, 2, 0, 3], clicks=[3, 0, 0, 1, 0, 0]
    )
    KNOWN: ClassVar[list[list[float]]] = [[0.5, 0.25, 0.25], [0.25, 0.5, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]

    def test_it_is_kept_beside_the_cells(self) -> None:
        known = np.array(self.KNOWN)
        known[3, 0] += 5e-7  # rounding is forgiven
        assert self.TABLE.with_display(known).display is not None
        table = self.TABLE.with_display(self.KNOWN)
        assert table.display is not None
        assert table.display.tolist() == self.KNOWN
        assert not table.display.flags.writeable
        assert cells(table) == cells(self.TABLE)
        assert table.with_display(None).display is None
        with pytest.raises(UsageError, match="with_display"):
            table.save(Path("cells.parquet"))  # cells in a file have none

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda known: known[:5], r"\(5, 3\)"),
            (lambda known: known[:, :1], r"\(6, 1\)"),
            (lambda known: np.where(known == 0.25, 0.9, known), r"row 0 of display, \[0.5, 0.9, 0.9\]"),
            (lambda known: np.where(np.arange(6)[:, None] == 2, np.nan, known), r"row 2 of display, \[nan"),
            (lambda known: np.roll(known, 1, axis=1), "row 3 was shown at position 1"),
            (lambda _: [["a"] * 3] * 6, "display must be a table of numbers"),
        ],
    )
    def test_refusals(self, change: Any, message: str) -> None:
        with pytest.raises(DataError, match=message):
            self.TABLE.with_display(change(np.array(self.KNOWN)))

    def test_parts(self) -> None:
        table = self.TABLE.with_display(self.KNOWN)
        for part, expected in (
            (table.first(1), [row[:1] for row in self.KNOWN]),
            (table.first(7), self.KNOWN),
            (table.where(table.clicks > 0), self.KNOWN),
            (table[[2, 0]], [self.KNOWN[5], *self.KNOWN[:3]]),
            (table[1], self.KNOWN[3:5]),
        ):
            assert part.display is not None
            assert part.display.tolist() == expected
        assert all(part.display is not None and part.display.shape[1] == 3 for part in table.split(0.5, seed=1))

    def test_sums(self) -> None:
        table = self.TABLE.with_display(self.KNOWN)
        both = table.merge(table)
        assert both.display is not None
        assert both.display.tolist() == self.KNOWN
        other = self.TABLE.with_display(np.array(self.KNOWN)[:, [0, 1]])
        for first, second in ((table, self.TABLE), (self.TABLE, table), (table, other), (table, table[[2, 1, 0]])):
            with pytest.raises(DataError, match="display probabilities"):
                first.merge(second)


class TestSegments:
    CELLS: ClassVar[dict[str, Any]] = {
        "row": [0, 0, 0, 1, 1],
        "position": [1, 2, 1, 2, 1],
        "impressions": [5, 3, 7, 5, 3],
        "clicks": [1, 0, 2, 3, 1],
    }
    DEVICES: ClassVar[list[str]] = ["phone", "phone", "desktop", "phone", "phone"]

    def table(self) -> ClickTable:
        return ClickTable.from_arrays(DATA, **self.CELLS, segment=self.DEVICES)

    def test_cells_of_two_segments_are_two(self) -> None:
        table = self.table()
        assert table.segment_names == ("desktop", "phone")
        assert table.segment.tolist() == [0, 1, 1, 1, 1]
        assert (table.row.tolist(), table.position.tolist()) == ([0, 0, 0, 1, 1], [1, 1, 2, 1, 2])
        assert table.segment_row.tolist() == [0, 1, 1, 3, 3]
        assert "15 impressions" not in repr(table)
        assert repr(table).endswith("7 clicks; segments desktop, phone)")
        assert table.query_impressions[0] == 8 + 7  # pages on phones, and on desktops
        assert ClickTable.from_arrays(DATA, **self.CELLS).query_impressions[0] == 5 + 7 + 3

    def test_parts_keep_their_segments(self) -> None:
        table = self.table()
        assert table.first(1).segment.tolist() == [0, 1, 1]
        assert table.where(table.segment == 1).segment_names == ("desktop", "phone")
        assert table[[0]].segment.tolist() == table.segment.tolist()
        assert sum(part.n_cells for part in table.split(0.5, seed=0)) == table.n_cells
        assert {name: part.n_cells for name, part in table.by_segment().items()} == {"desktop": 1, "phone": 4}

    def test_files_hold_segments_where_there_are_any(self, tmp_path: Path) -> None:
        table = self.table()
        table.save(tmp_path / "cells.parquet")
        again = ClickTable.read(tmp_path / "cells.parquet", DATA)
        for name in ("row", "segment", "position", "impressions", "clicks", "segment_names"):
            assert list(getattr(again, name)) == list(getattr(table, name))
        ClickTable.from_arrays(DATA, **self.CELLS).save(tmp_path / "plain.parquet")
        assert "segment" not in pq.read_schema(tmp_path / "plain.parquet").names
        assert ClickTable.read(tmp_path / "plain.parquet", DATA).segment_names == ("",)

    @pytest.mark.parametrize(
        ("wrong", "complaint"),
        [
            ({"segment": [0, 0]}, "segment has 2 entries for 5 cells"),
            ({"segment": [0, 1, 2, 0, 0], "segment_names": ("a", "b")}, "names segment 2, but there are 2 names"),
            ({"segment_names": ("a", "a")}, "must be different texts"),
            ({"segment": [0, 1, 0, 0, 0], "segment_names": ("", "b")}, "others have none"),
        ],
    )
    def test_wrong_segments(self, wrong: dict[str, Any], complaint: str) -> None:
        plain = ClickTable.from_arrays(DATA, **self.CELLS)
        cells: dict[str, Any] = {name: np.array(values) for name, values in self.CELLS.items()}
        with pytest.raises(DataError, match=complaint):
            ClickTable(plain.candidates, **cells, **wrong)

    def test_display_probabilities_are_those_of_one_policy(self) -> None:
        with pytest.raises(DataError, match="of several segments"):
            self.table().with_display(np.full((DATA.n_rows, 2), 0.5))

    def test_entries_that_name_no_segment(self) -> None:
        named = ClickTable.from_arrays(DATA, **self.CELLS, segment=np.array(["a", None, "", "a", "a"]))
        assert named.segment_names == ("(missing)", "a")
        with pytest.raises(DataError, match="segment has 1 entries, position 5"):
            ClickTable.from_arrays(DATA, **self.CELLS, segment=["a"])


def test_rows_of_a_log_that_are_set_aside_are_told(tmp_path: Path) -> None:
    rows = [f"{session},q,a,{1 if session else 'first'},0" for session in range(40)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["session_id,query_id,doc_id,position,clicked", *rows]))
    with pytest.warns(CldrankWarning, match=r"40 rows read, 1 set aside(.|\n)*not a number"):
        assert ClickTable.read(path).impressions.sum() == 39


# -- merging ---------------------------------------------------------------------------------------------------------


def one_cell(position: int, segment: str | None = None, clicks: int = 1) -> ClickTable:
    """One cell of the first candidate."""
    table = ClickTable.from_arrays(DATA, row=[0], position=[position], impressions=[5], clicks=[clicks])
    return table if segment is None else table.as_segment(segment)


def test_segments_stay_apart_and_equal_ones_add_up() -> None:
    both = one_cell(1, "phone").merge(one_cell(1, "desktop", clicks=2)).merge(one_cell(1, "phone", clicks=3))
    assert both.segment_names == ("desktop", "phone")
    assert (both.segment.tolist(), both.clicks.tolist()) == ([0, 1], [2, 4])
    assert both.impressions.tolist() == [5, 10]


def test_with_and_without_segments() -> None:
    with pytest.raises(DataError, match="table 1 was counted by segment, table 2 was not"):
        one_cell(1, "phone").merge(one_cell(1))
    nothing = one_cell(1).where(one_cell(1).clicks > 9)
    assert nothing.query_impressions.tolist() == [0, 0, 0]
    assert nothing.merge(one_cell(1, "phone")).segment_names == ("phone",)
    assert one_cell(1, "phone").merge(nothing).segment_names == ("phone",)
