from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cldrank.data.formats import parquet_pieces
from cldrank.data.formats.parquet_columns import ParquetPart
from cldrank.data.parquet_features import ParquetFeatures
from cldrank.errors import DataError, FormatError, UsageError

COLUMNS = ("a", "b", "c")


def table_of(rows: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((rows, len(COLUMNS)), dtype=np.float32)


def write(path: Path, values: NDArray[Any], group: int, *, as_list: bool = False) -> Path:
    columns = dict(zip(COLUMNS, values.T, strict=True))
    content: dict[str, Any] = {"features": list(values)} if as_list else columns
    pq.write_table(pa.table(content), path, row_group_size=group)
    return path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], NDArray[np.float32]]:
    """Three files, the second of them empty, with row groups smaller and larger than a piece."""
    folder = tmp_path_factory.mktemp("parts")
    tables = [table_of(100), table_of(0), table_of(331, seed=1)]
    paths = [
        write(folder / f"{at}.parquet", table, group)
        for at, (table, group) in enumerate(zip(tables, (7, 5, 250), strict=True))
    ]
    return paths, np.concatenate(tables)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_pieces, "_PIECE_VALUES", 20 * len(COLUMNS))
    monkeypatch.setattr(parquet_pieces, "_KEPT_BYTES", 3 * 20 * len(COLUMNS) * 4)


def opened(paths: Sequence[Path] | Path, **options: Any) -> ParquetFeatures:
    return ParquetFeatures.open(paths, COLUMNS, **options)


def test_it_looks_like_an_array(parts: tuple[list[Path], NDArray[np.float32]]) -> None:
    features, table = opened(parts[0]), parts[1]
    assert (features.shape, features.ndim, features.dtype, len(features)) == (table.shape, 2, table.dtype, len(table))
    assert (features.size, features.nbytes) == (table.size, table.nbytes)
    assert features.row_group_offsets.tolist() == [*range(0, 100, 7), 100, 350, 431]
    assert features.names == COLUMNS


class TestReading:
    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_rows_are_those_of_the_table(
        self, parts: tuple[list[Path], NDArray[np.float32]], data: st.DataObject
    ) -> None:
        features, table = opened(parts[0]), parts[1]
        row = st.integers(-len(table), len(table) - 1)
        for _ in range(4):
            step = data.draw(st.sampled_from([None, 1, 3, -1, -50]))
            asked = slice(data.draw(row | st.none()), data.draw(row | st.none()), step)
            np.testing.assert_array_equal(features[asked], table[asked])
            rows = np.array(data.draw(st.lists(row, max_size=20)), dtype=np.int64)
            np.testing.assert_array_equal(features[rows], table[rows])

    def test_one_row_a_mask_and_columns(self, parts: tuple[list[Path], NDArray[np.float32]]) -> None:
        features, table = opened(parts[0]), parts[1]
        mask = np.arange(len(table)) % 40 == 3
        np.testing.assert_array_equal(features[-5], table[-5])
        np.testing.assert_array_equal(features[mask], table[mask])
        np.testing.assert_array_equal(features[:, 2], table[:, 2])
        np.testing.assert_array_equal(features[90:120, [2, 0]], table[90:120, [2, 0]])
        np.testing.assert_array_equal(features[7, 1:], table[7, 1:])
        np.testing.assert_array_equal(features.of_columns([2, 0]).of_columns([1])[:], table[:, :1])

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([431], "row 431"),
            ([0.5], "float64"),
            ([True], "431 entries"),
            ([[0, 1], [2, 3]], r"flat list of numbers, not by an array of shape \(2, 2\)"),
            (None, "slices or a mask, not by None"),
            (..., "slices or a mask, not by Ellipsis"),
            ((0, 1, 2), r"\[rows, columns\], not 3 indices"),
            ((0, None), "columns are chosen by .* not by None"),
            (([0, 1], [0, 1]), r"take features\[rows\]\[:, columns\]"),
        ],
    )
    def test_what_cannot_be_asked_for(
        self, parts: tuple[list[Path], NDArray[np.float32]], rows: Any, message: str
    ) -> None:
        with pytest.raises(IndexError, match=message):
            opened(parts[0])[rows]

    def test_the_result_is_the_callers_own(self, parts: tuple[list[Path], NDArray[np.float32]]) -> None:
        features = opened(parts[0])
        features[0:5][:] = 7
        np.testing.assert_array_equal(features[0:5], parts[1][:5])

    def test_blocks_are_all_rows(self, parts: tuple[list[Path], NDArray[np.float32]]) -> None:
        blocks = list(opened(parts[0]).blocks(50))
        assert [start for start, _ in blocks] == list(range(0, 431, 50))
        np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), parts[1])

    def test_threads_read_at_once(self, parts: tuple[list[Path], NDArray[np.float32]]) -> None:
        features, table = opened(parts[0]), parts[1]
        starts = np.random.default_rng(0).permutation(400)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda start: features[start : start + 30], starts))
        for start, block in zip(starts, found, strict=True):
            np.testing.assert_array_equal(block, table[start : start + 30])

    def test_a_list_column(self, tmp_path: Path) -> None:
        table = table_of(30)
        features = ParquetFeatures.open(write(tmp_path / "a.parquet", table, 11, as_list=True), ["features"])
        assert features.names == ("f1", "f2", "f3")
        np.testing.assert_array_equal(features[5:25], table[5:25])
        np.testing.assert_array_equal(features[:, [2, 1]], table[:, [2, 1]])
        np.testing.assert_array_equal(features.of_columns([2, 1]).of_columns([1])[:], table[:, [1]])


class TestWhatIsRead:
    """Row groups, and how often: a pass reads each once, and a place further on is reached without those between."""

    @pytest.fixture
    def groups(self, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
        begun: list[list[int]] = []
        whole = ParquetPart.groups

        def noted(part: ParquetPart, groups: Sequence[int], columns: Sequence[str], rows: int) -> Any:
            begun.append(list(groups))
            return whole(part, groups, columns, rows)

        monkeypatch.setattr(ParquetPart, "groups", noted)
        return begun

    def test_a_pass_opens_each_file_once(self, tmp_path: Path, groups: list[list[int]]) -> None:
        features = opened([write(tmp_path / f"{at}.parquet", table_of(200, at), 50) for at in range(3)])
        for start in range(0, 600, 9):
            features[start : start + 9]
        assert groups == [[0, 1, 2, 3]] * 3

    def test_row_groups_between_are_passed_over(self, tmp_path: Path, groups: list[list[int]]) -> None:
        features = opened(write(tmp_path / "a.parquet", table_of(200), 50))
        features[[0, 199]]
        assert groups == [[0, 1, 2, 3], [3]]

    def test_rows_that_are_kept_are_not_read_again(self, tmp_path: Path, groups: list[list[int]]) -> None:
        features = opened(write(tmp_path / "a.parquet", table_of(200), 200))
        features[20:60], features[20:40], features[40:60]
        assert len(groups) == 1
        features[100:140], features[0:20]
        assert len(groups) == 2

    def test_what_is_kept_is_bounded(self, tmp_path: Path) -> None:
        features = opened(write(tmp_path / "a.parquet", table_of(2000), 2000))
        features[:]
        kept = features._pieces._kept
        assert sum(piece.table.nbytes for piece in kept) <= parquet_pieces._KEPT_BYTES
        assert max(len(piece.table) for piece in kept) == 20

    def test_a_column_is_read_alone(
        self, monkeypatch: pytest.MonkeyPatch, parts: tuple[list[Path], NDArray[np.float32]]
    ) -> None:
        asked: list[Sequence[str]] = []
        whole = ParquetPart.groups

        def noted(part: ParquetPart, groups: Sequence[int], columns: Sequence[str], rows: int) -> Any:
            asked.append(columns)
            return whole(part, groups, columns, rows)

        monkeypatch.setattr(ParquetPart, "groups", noted)
        opened(parts[0])[:, 1]
        assert set(map(tuple, asked)) == {("b",)}


class TestSpans:
    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_they_are_the_rows_in_that_order(
        self, parts: tuple[list[Path], NDArray[np.float32]], data: st.DataObject
    ) -> None:
        features, table = opened(parts[0]), parts[1]
        rows = np.arange(len(table))
        for _ in range(2):  # spans of spans
            cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=12, unique=True).map(sorted))
            spans = data.draw(st.permutations(list(zip(cuts[::2], cuts[1::2], strict=False))))
            features = features.spans([start for start, _ in spans], [stop for _, stop in spans])
            rows = np.concatenate([rows[:0], *(rows[start:stop] for start, stop in spans)])
        assert len(features) == len(rows)
        np.testing.assert_array_equal(features[:], table[rows])
        picked = np.arange(0, len(rows), 3)
        np.testing.assert_array_equal(features[picked], table[rows[picked]])
        self.check_groups(features.row_group_offsets, rows)

    def check_groups(self, found: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Between two offsets, all rows are of one row group, and the next one begins another."""
        group = np.searchsorted([*range(7, 100, 7), 100, 350], rows, side="right")
        expected = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(rows)]
        assert found.tolist() == sorted(set(expected))


class TestRefused:
    def test_an_array_of_all_of_it(self, parts: tuple[list[Path], NDArray[np.float32]]) -> None:
        with pytest.raises(DataError, match=r"on disk \(.*0.parquet and 2 more\).*0\.0 GiB; read them by slices"):
            np.asarray(opened(parts[0]))

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_value_that_is_not_finite_names_its_place(self, tmp_path: Path, value: float) -> None:
        table = table_of(90)
        table[70, 1] = value
        paths = [write(tmp_path / "one.parquet", table_of(40), 40), write(tmp_path / "two.parquet", table, 40)]
        features = opened(paths)
        assert len(features[:40]) == 40
        for _ in range(2):  # and whoever asks again
            with pytest.raises(FormatError, match=rf"two.parquet: feature 'b' of row 70 \(counted from 0\) is {value}"):
                features[:]

    def test_missing_values_can_be_kept_or_filled_in(self, tmp_path: Path) -> None:
        table = table_of(50)
        table[33, 2] = np.nan
        path = write(tmp_path / "a.parquet", table, 20)
        np.testing.assert_array_equal(opened(path, missing="keep")[:], table)
        np.testing.assert_array_equal(opened(path, missing=-1.0)[:], np.nan_to_num(table, nan=-1.0))
        table[0, 0] = np.inf
        with pytest.raises(FormatError, match="'a' of row 0 .*infinity is not a missing value"):
            opened(write(path, table, 20), missing="keep")[:]

    def test_a_file_that_changed(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.parquet", table_of(200), 50)
        features = opened(path)
        features[:20]
        before = path.stat()
        write(path, table_of(200, seed=5), 50)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        with pytest.raises(FormatError, match="a.parquet: changed since it was opened"):
            features[150:]

    def test_a_file_that_is_gone(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.parquet", table_of(200), 50)
        features = opened(path)
        features[:20]
        path.unlink()
        with pytest.raises(FormatError, match="changed since"):
            features[150:]

    def test_a_footer_that_differs_although_size_and_time_do_not(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.parquet", table_of(200), 50)
        features, before = pickle.loads(pickle.dumps(opened(path))), path.stat()  # noqa: S301
        write(path, table_of(200, seed=5), 50)
        assert path.stat().st_size == before.st_size
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(FormatError, match="changed since"):
            features[:]

    def test_lists_of_different_lengths(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"x": [[1.0, 2.0]] * 30 + [[1.0]] * 30}), path, row_group_size=30)
        features = ParquetFeatures.open(path, ["x"])
        with pytest.raises(FormatError, match=r"has 1 entries in row 30 \(counted from 0\), 2 before"):
            features[:]

    def test_columns_that_are_not_there_or_hold_no_numbers(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"x": ["one"]}), path)
        with pytest.raises(FormatError, match="there is no column 'y'"):
            ParquetFeatures.open(path, ["y"])
        with pytest.raises(FormatError, match="'x' holds string, not numbers"):
            ParquetFeatures.open(path, ["x"])
        with pytest.raises(UsageError, match="no Parquet file was named"):
            ParquetFeatures.open([], ["x"])


def test_a_pickle_holds_places_not_values(parts: tuple[list[Path], NDArray[np.float32]]) -> None:
    features = opened(parts[0]).spans([3, 200], [9, 250])
    features[:]
    packed = pickle.dumps(features)
    assert len(packed) < 4000
    np.testing.assert_array_equal(pickle.loads(packed)[:], features[:])  # noqa: S301


def test_a_relative_path_is_one_of_the_folder_it_was_given_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(200)
    (tmp_path / "other").mkdir()
    write(tmp_path / "a.parquet", table, 50)
    monkeypatch.chdir(tmp_path)
    features = opened(Path("a.parquet"))
    features[:20]
    packed = pickle.dumps(features)
    monkeypatch.chdir(tmp_path / "other")
    for one in (features, pickle.loads(packed)):  # noqa: S301
        np.testing.assert_array_equal(one[:], table)
    write(tmp_path / "a.parquet", table_of(100), 50)
    with pytest.raises(FormatError, match=r"^a\.parquet: changed since"):
        features[:]
