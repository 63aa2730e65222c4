from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.candidates import UNKNOWN_DOCUMENT, UNKNOWN_QUERY, Candidates
from cldrank.errors import CldrankError, CldrankWarning, DataError, FormatError, UsageError

DATA = RankingDataset.from_arrays(np.eye(6), [1, 1, 1, 2, 2, 3], doc_ids=list("abcabx"))


def cells(table: ClickTable) -> list[tuple[Any, ...]]:
    """Query, document, position, impressions and clicks of each cell."""
    queries = table.candidates.query_ids[table.candidates.row_queries[table.row]]
    columns = (queries, table.candidates.doc_ids[table.row], table.position, table.impressions, table.clicks)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@st.composite
def tables(draw: st.DrawFn, dataset: RankingDataset = DATA) -> ClickTable:
    entry = st.tuples(st.integers(0, dataset.n_rows - 1), st.integers(1, 4), st.integers(1, 9))
    entries = draw(st.lists(entry, max_size=12))
    clicks = [draw(st.integers(0, shown)) for _, _, shown in entries]
    row, position, impressions = zip(*entries, strict=True) if entries else ((), (), ())
    return ClickTable.from_arrays(dataset, row=row, position=position, impressions=impressions, clicks=clicks)


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

    def test_floats_that_are_whole_and_booleans_count(self) -> None:
        table = ClickTable.from_arrays(DATA[2], position=[1.0], impressions=[1.0], clicks=[True])
        assert cells(table) == [(3, "x", 1, 1, 1)]

    def test_nothing_shown(self) -> None:
        table = ClickTable.from_arrays(DATA, position=[0] * 6, impressions=[0] * 6, clicks=[0] * 6)
        assert table.n_cells == table.depth == 0
        assert table.query_impressions.tolist() == [0, 0, 0]
        assert "0 cells, 0 impressions, 0 clicks" in repr(table)

    def test_every_click(self) -> None:
        table = ClickTable.from_arrays(DATA[2], position=[1], impressions=[1], clicks=[4], every_click=True)
        assert table.row_clicks.tolist() == [4]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"position": [1]}, "1 entries for 6 rows"),
            ({"position": [-1, 0, 0, 0, 0, 0]}, "entry 0 of position is -1"),
            ({"position": [1.5, 0, 0, 0, 0, 0]}, "entry 0 of position is 1.5"),
            ({"impressions": [np.nan, 0, 0, 0, 0, 0]}, "entry 0 of impressions is nan"),
            ({"impressions": [1]}, "impressions has 1 entries, position 6"),
            ({"clicks": [2, 0, 0, 0, 0, 0]}, "row 0 at position 1 has 2 clicks in 1 impressions"),
            ({"clicks": [0, 1, 0, 0, 0, 0]}, "entry 1 has clicks but position 0"),
            ({"clicks": ["a"] * 6}, "clicks must be whole numbers"),
            ({"clicks": [[0] * 6]}, "clicks must be a flat array"),
            ({"row": [9, 0, 0, 0, 0, 0]}, "names row 9, but there are 6 candidates"),
            ({"position": np.array([2**63, 0, 0, 0, 0, 0], np.uint64)}, "entry 0 of position is 9223372036854775808"),
            ({"position": [10_001, 0, 0, 0, 0, 0]}, "from 0 to 10,000"),
            ({"position": [np.inf, 0, 0, 0, 0, 0]}, "entry 0 of position is inf"),
            ({"position": np.array([np.inf, 0, 0, 0, 0, 0], np.float16)}, "entry 0 of position is inf"),
            ({"impressions": [2.0**63, 0, 0, 0, 0, 0]}, r"entry 0 of impressions is 9\.22.*e\+18"),
            ({"impressions": np.array([2**64 - 1, 0, 0, 0, 0, 0], np.uint64)}, "18446744073709551615"),
            ({"impressions": [2**70, 0, 0, 0, 0, 0]}, "impressions must be whole numbers"),
            ({"impressions": [[1], [1, 2]]}, "impressions must be a flat array"),
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

    def test_cannot_be_changed(self) -> None:
        table = ClickTable.from_arrays(DATA[2], position=[1], impressions=[1], clicks=[0])
        with pytest.raises(ValueError, match="read-only"):
            table.clicks[0] = 1


class TestPartsAndSums:
    @given(tables(), tables())
    def test_merging_adds_and_commutes(self, one: ClickTable, two: ClickTable) -> None:
        both = one.merge(two)
        assert cells(both) == cells(two.merge(one))
        assert both.impressions.sum() == one.impressions.sum() + two.impressions.sum()
        assert both.row_clicks.tolist() == (one.row_clicks + two.row_clicks).tolist()

    @given(tables(), st.integers(0, 50))
    def test_a_split_goes_with_the_datasets(self, table: ClickTable, seed: int) -> None:
        parts, data = table.split([0.4, 0.6], seed=seed), DATA.split([0.4, 0.6], seed=seed)
        for part, dataset in zip(parts, data, strict=True):
            part.check_same(dataset)
        assert sorted(cell for part in parts for cell in cells(part)) == sorted(cells(table))

    @given(tables())
    def test_slicing_as_the_dataset(self, table: ClickTable) -> None:
        for chosen in (0, -1, slice(1, 3), [2, 0], np.array([True, False, True])):
            part = table[chosen]
            part.check_same(DATA[chosen])
            wanted = set(DATA[chosen].query_ids.tolist())
            assert sorted(cells(part)) == sorted(cell for cell in cells(table) if cell[0] in wanted)

    @given(tables(), st.integers(1, 5))
    def test_the_first_positions(self, table: ClickTable, depth: int) -> None:
        first = table.first(depth)
        first.check_same(DATA)
        assert cells(first) == [cell for cell in cells(table) if cell[2] <= depth]
        assert first.depth <= depth
        assert cells(first.first(depth + 1)) == cells(first)
        assert (first.shown <= table.shown).all()

    @given(tables())
    def test_some_cells(self, table: ClickTable) -> None:
        clicked = table.clicks > 0
        kept = table.where(clicked)
        kept.check_same(DATA)
        assert kept.every_click == table.every_click
        assert sorted([*cells(kept), *cells(table.where(~clicked))]) == sorted(cells(table))
        with pytest.raises(UsageError, match="needs True or False"):
            table.where(np.arange(table.n_cells + 1))  # type: ignore[arg-type]

    def test_pages_that_end_earlier(self) -> None:
        shown = {"position": [1, 2, 3, 3, 0, 0], "impressions": [5, 5, 5, 2, 0, 0], "clicks": [3, 0, 4, 5, 0, 0]}
        table = ClickTable.from_arrays(DATA, **shown, every_click=True)
        first = table.first(np.int64(2))  # type: ignore[arg-type]
        assert cells(first) == [(1, "a", 1, 5, 3), (1, "b", 2, 5, 0)]
        assert first.shown.tolist() == [True, True, False, False, False, False]
        assert first.query_impressions.tolist() == [5, 0, 0]  # of the second query no page is left
        assert first.every_click
        for depth in (0, 1.5, True, None):
            with pytest.raises(UsageError, match="depth must be a whole number of at least 1"):
                table.first(depth)  # type: ignore[arg-type]

    def test_tables_without_a_dataset_merge_by_id(self, tmp_path: Path) -> None:
        def table(**columns: list[Any]) -> ClickTable:
            pq.write_table(pa.table(columns), tmp_path / "cells.parquet")
            return ClickTable.read(tmp_path / "cells.parquet")

        one = table(query_id=["q", "q"], doc_id=[1, 2], position=[1, 2], impressions=[5, 5], clicks=[1, 0])
        two = table(query_id=["r", "q"], doc_id=[7, 3], position=[1, 2], impressions=[2, 4], clicks=[0, 4])
        assert cells(one.merge(two)) == [
            ("q", 1, 1, 5, 1),
            ("q", 2, 2, 5, 0),
            ("q", 3, 2, 4, 4),
            ("r", 7, 1, 2, 0),
        ]

    def test_what_does_not_belong_together(self) -> None:
        table = ClickTable.from_arrays(DATA[2], position=[1], impressions=[1], clicks=[0])
        every = ClickTable.from_arrays(DATA[2], position=[1], impressions=[1], clicks=[2], every_click=True)
        with pytest.raises(DataError, match="counts every click"):
            table.merge(every)
        with pytest.raises(DataError, match="1 queries and 1 candidates that are not those of"):
            table.check_same(DATA)


class TestDisplay:
    TABLE = ClickTable.from_arrays(
        DATA, position=[1, 2, 0, 1, 0, 1], impressions=[5, 5, 0, 2, 0, 3], clicks=[3, 0, 0, 1, 0, 0]
    )
    KNOWN: ClassVar[list[list[float]]] = [[0.5, 0.25, 0.25], [0.25, 0.5, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0]]

    def test_it_is_kept_beside_the_cells(self) -> None:
        assert self.TABLE.display is None
        table = self.TABLE.with_display(self.KNOWN)
        assert table.display is not None
        assert table.display.dtype == np.float64
        assert table.display.tolist() == self.KNOWN
        assert not table.display.flags.writeable
        assert cells(table) == cells(self.TABLE)
        assert self.TABLE.display is None
        assert table.with_display(None).display is None

    def test_what_is_given_is_copied(self) -> None:
        given = np.array(self.KNOWN)
        table = self.TABLE.with_display(given)
        given[:] = 0
        assert table.display is not None
        assert table.display.tolist() == self.KNOWN

    def test_rounding_is_forgiven(self) -> None:
        known = [*self.KNOWN[:3], [1 + 5e-7, 0, 0], *self.KNOWN[4:]]
        assert self.TABLE.with_display(known).display is not None

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda known: known[:5], r"display has shape \(5, 3\).* 6 candidates .* at least 2"),
            (lambda known: known[:, 0], r"display has shape \(6,\)"),
            (lambda known: known[:, :1], r"display has shape \(6, 1\)"),
            (lambda known: np.where(known == 0.25, 0.9, known), r"row 0 of display, \[0.5, 0.9, 0.9\].* at most 1"),
            (lambda known: np.where(known == 0.25, -0.1, known), "row 0 of display"),
            (lambda known: np.where(np.arange(6)[:, None] == 2, np.nan, known), r"row 2 of display, \[nan"),
            (lambda known: np.where(np.arange(6)[:, None] == 4, np.inf, known), r"row 4 of display, \[inf"),
            (lambda known: np.roll(known, 1, axis=1), "row 3 was shown at position 1, where display says it cannot be"),
            (lambda _: [["a"] * 3] * 6, "display must be a table of numbers"),
            (lambda _: [[0.5], [0.5, 0.1]], "display must be a table of numbers"),
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
        for one, two in ((table, self.TABLE), (self.TABLE, table), (table, other), (table, table[[2, 1, 0]])):
            with pytest.raises(DataError, match="differ in their display probabilities"):
                one.merge(two)

    def test_a_file_of_cells_does_not_hold_them(self, tmp_path: Path) -> None:
        table = self.TABLE.with_display(self.KNOWN)
        with pytest.raises(UsageError, match="does not hold display probabilities"):
            table.save(tmp_path / "cells.parquet")
        table.with_display(None).save(tmp_path / "cells.parquet")
        assert cells(ClickTable.read(tmp_path / "cells.parquet", DATA)) == cells(table)


def test_rows_of_a_log_that_are_set_aside_are_told(tmp_path: Path) -> None:
    rows = [f"{session},q,a,{1 if session else 'first'},0" for session in range(40)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["session_id,query_id,doc_id,position,clicked", *rows]))
    with pytest.warns(CldrankWarning, match=r"40 rows read, 1 set aside(.|\n)*not a number"):
        assert ClickTable.read(path).impressions.sum() == 39


class TestFiles:
    @given(tables())
    def test_round_trip(self, tmp_path_factory: pytest.TempPathFactory, table: ClickTable) -> None:
        path = tmp_path_factory.mktemp("cells") / "cells.parquet"
        table.save(path)
        again = ClickTable.read(path, DATA)
        assert cells(again) == cells(table)
        again.check_same(DATA)
        assert sorted(cells(ClickTable.read(path))) == sorted(cells(table))

    def test_cells_of_another_dataset(self, tmp_path: Path) -> None:
        path = tmp_path / "cells.parquet"
        ClickTable.from_arrays(DATA, position=[1] * 6, impressions=[1] * 6, clicks=[0] * 6).save(path)
        with pytest.raises(DataError, match=r"1 of 6 cells are of candidates .* first of query 3"):
            ClickTable.read(path, DATA[:2])
        with pytest.raises(CldrankError, match="holds cells already"):
            ClickTable.read(path, DATA, columns={"doc_id": "d"})

    GOOD: ClassVar[dict[str, Any]] = {
        "query_id": pa.array([1, 1]),
        "doc_id": pa.array([1, 2]),
        "position": pa.array([1, 2]),
        "impressions": pa.array([5, 5]),
        "clicks": pa.array([1, 0]),
    }

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"query_id": pa.array([None, 1])}, "'query_id' has null entries"),
            ({"query_id": pa.array([[1], [2]])}, r"'query_id' holds list<.*>; ids are whole numbers or text"),
            ({"doc_id": pa.array([True, False])}, "'doc_id' holds bool"),
            ({"doc_id": pa.array([1.5, 2.0])}, "'doc_id' has an id that is not a whole number"),
            ({"doc_id": pa.array([float("inf"), 2.0])}, "'doc_id' has an id that is not a whole number"),
            ({"doc_id": pa.array(["a", "a\0"])}, "ends in a NUL character"),
            ({"position": pa.array([2**63, 1], pa.uint64())}, "entry 0 of position is 9223372036854775808"),
            ({"position": pa.array(["1", "2"])}, "position must be whole numbers"),
            ({"position": pa.array([[1], [2]])}, "position must be whole numbers"),
            ({"position": pa.array([True, False])}, r"entry 1 of position is 0\.0"),
            ({"position": pa.array([1, 2], pa.duration("s"))}, "position must be whole numbers"),
            ({"clicks": pa.array([9, 0])}, "9 clicks in 5 impressions"),
            ({"impressions": pa.array([2**62, 2**62])}, "add up to more than"),
        ],
    )
    def test_wrong_types_and_values(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        path = tmp_path / "cells.parquet"
        pq.write_table(pa.table({**self.GOOD, **change}), path)
        with pytest.raises(DataError, match=message) as error:
            ClickTable.read(path)
        assert str(path) in str(error.value)

    @pytest.mark.parametrize(
        "metadata",
        [
            b"{",
            b"[]",
            b"\xff",
            b'{"every_click": 1' + b"0" * 5000 + b"}",
            b"[" * 100_000,
            b'{"every_click": "false"}',
            b'{"sources": 5}',
            b'{"sources": [5]}',
            b'{"sources": [{"name": "a"}]}',
            b'{"sources": [{"name": "a", "size": "b", "sha256": 1}]}',
        ],
    )
    def test_damaged_metadata(self, tmp_path: Path, metadata: bytes) -> None:
        path = tmp_path / "cells.parquet"
        pq.write_table(pa.table(self.GOOD).replace_schema_metadata({b"cldrank.cells": metadata}), path)
        with pytest.raises(FormatError, match="metadata"):
            ClickTable.read(path)

    def test_columns_that_are_there_twice(self, tmp_path: Path) -> None:
        path = tmp_path / "cells.parquet"
        table = pa.table(self.GOOD)
        pq.write_table(table.append_column("clicks", table["clicks"]), path)
        with pytest.raises(FormatError, match="there are 2 columns 'clicks'"):
            ClickTable.read(path)

    def test_ids_of_many_types(self, tmp_path: Path) -> None:
        path = tmp_path / "cells.parquet"
        for ids in (
            pa.array([2**63 + 1, 7], pa.uint64()),
            pa.array(["a", "b"]).dictionary_encode(),
            pa.array(["a", "b"], pa.large_string()),
            pa.array([1, 2], pa.int8()),
        ):
            pq.write_table(pa.table({**self.GOOD, "doc_id": ids}), path)
            read = ClickTable.read(path)
            read.save(path)
            documents = {str(document) for _, document, *_ in cells(ClickTable.read(path))}
            assert documents == {str(value) for value in ids.to_pylist()}

    def test_damaged_files(self, tmp_path: Path) -> None:
        path = tmp_path / "cells.parquet"
        path.write_bytes(b"PAR1 nothing more")
        with pytest.raises(DataError, match="not a readable Parquet file"):
            ClickTable.read(path)
        many = ClickTable.from_arrays(DATA, position=[1] * 6, impressions=range(1, 7), clicks=[0] * 6)
        many.save(path)
        whole = path.read_bytes()
        place = whole.index((3).to_bytes(8, "little"))  # an impression count, in plain sight
        path.write_bytes(whole[:place] + (4).to_bytes(8, "little") + whole[place + 8 :])
        with pytest.raises(DataError, match="not a readable Parquet file"):
            ClickTable.read(path)


class TestCandidates:
    @given(st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 5)), min_size=1))
    def test_seen_finds_every_pair(self, pairs: list[tuple[str, int]]) -> None:
        queries, documents = np.array([q for q, _ in pairs]), np.array([d for _, d in pairs])
        found = Candidates.seen(queries, documents)
        assert found.n_rows == len(set(pairs))
        rows = found.find(queries, documents)
        assert found.doc_ids[rows].tolist() == documents.tolist()
        assert found.query_ids[found.row_queries[rows]].tolist() == queries.tolist()

    def test_numbers_as_text_are_found(self) -> None:
        found = Candidates.of(DATA).find(np.array(["1", "9"]), np.array(["c", "a"]))
        assert found.tolist() == [2, UNKNOWN_QUERY]
        assert Candidates.of(DATA).find(np.array([1]), np.array([5])).tolist() == [UNKNOWN_DOCUMENT]
