from __future__ import annotations

import dataclasses
import errno
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank import RankingDataset, load
from cldrank.data import synthetic
from cldrank.data.formats import parquet_on_disk
from cldrank.data.formats.parquet import save_parquet
from cldrank.data.formats.parquet_on_disk import ScatteredRowsError, decoded_bytes, open_parquet
from cldrank.errors import CldrankWarning, DataError, FormatError, UsageError


def assert_same(one: RankingDataset, other: RankingDataset) -> None:
    for field in dataclasses.fields(one):
        if field.name not in ("features", "has_missing"):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    np.testing.assert_array_equal(one.features[:], other.features[:])


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{at}.parquet" for at in range(3)]
    for seed, path in enumerate(paths):
        block = next(iter(synthetic.generate("web10k-like", 4, seed)))
        save_parquet([dataclasses.replace(block, query_ids=block.query_ids + 100 * seed)], path)
    return paths


@pytest.fixture
def both(files: list[Path]) -> tuple[RankingDataset, RankingDataset]:
    return load(files, cache=False), load(files, stream=True)


class TestLoading:
    def test_it_is_the_dataset_that_loading_gives(self, both: tuple[RankingDataset, RankingDataset]) -> None:
        whole, streamed = both
        assert (whole.on_disk, streamed.on_disk) == (False, True)
        assert repr(streamed) == repr(whole)[:-1] + ", features on disk)"
        assert_same(streamed, whole)

    def test_text_ids_a_list_column_and_a_query_that_goes_on_in_the_next_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(parquet_on_disk, "_BATCH_ROWS", 2)
        monkeypatch.setattr(parquet_on_disk, "_CHECKED_ROWS", 2)
        features = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]
        one = write(
            tmp_path / "1.parquet", query_id=["a"] * 3 + ["b"], doc_id=["x", "ÿü", "xyz", "x"], features=features
        )
        two = write(
            tmp_path / "2.parquet", query_id=["b", "b", "c", "d"], doc_id=["y", "z", "x", "x"], features=features
        )
        streamed = open_parquet([one, two])
        assert_same(streamed.renamed("1 + 2"), load([one, two], cache=False))
        assert streamed.offsets.tolist() == [0, 3, 6, 7, 8]
        assert isinstance(streamed.doc_ids, np.memmap)

    def test_ids_stay_in_memory_where_no_file_can_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write(tmp_path / "1.parquet", query_id=[1, 1], doc_id=["x", "yy"], a=[1.0, 2.0])
        blocked = write(tmp_path / "file", a=[1])
        monkeypatch.setattr(parquet_on_disk, "cache_folder", lambda: blocked)
        assert np.array_equal(np.asarray(open_parquet([path]).doc_ids), ["x", "yy"])

    @pytest.mark.parametrize("allocates", [True, False])
    def test_ids_stay_in_memory_where_the_disk_is_full(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allocates: bool
    ) -> None:
        path = write(tmp_path / "1.parquet", query_id=[1, 1], doc_id=["x", "yy"], a=[1.0, 2.0])

        def full(*_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        if allocates:
            monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
        else:
            monkeypatch.delattr(os, "posix_fallocate", raising=False)
            monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=15))
        found = open_parquet([path]).doc_ids
        assert not isinstance(found, np.memmap)
        assert np.array_equal(np.asarray(found), ["x", "yy"])

    def test_ids_are_mapped_where_room_can_only_be_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
        path = write(tmp_path / "1.parquet", query_id=[1, 1], doc_id=["x", "yy"], a=[1.0, 2.0])
        found = open_parquet([path]).doc_ids
        assert isinstance(found, np.memmap)
        assert found.tolist() == ["x", "yy"]

    def test_columns_are_chosen_and_missing_values_treated_as_ever(self, tmp_path: Path) -> None:
        path = write(tmp_path / "1.parquet", q=[1, 1, 2], a=[1.0, None, 2.0], b=[0, 1, 0], c=[1, 2, 3])
        given: dict[str, Any] = {"query": "q", "label": "b", "features": ["c", "a"], "cache": False}
        for missing in ("keep", 7.0):
            assert_same(load(path, stream=True, missing=missing, **given), load(path, missing=missing, **given))
        with pytest.raises(DataError, match=r"1.parquet: feature 'a' of row 1 .* is nan"):
            load(path, stream=True, **given).features[:]

    def test_few_bytes_a_row(self, tmp_path: Path) -> None:
        rows = 50_000
        document = np.tile(np.arange(50), rows // 50)
        path = tmp_path / "1.parquet"
        columns = {"query_id": np.arange(rows) // 50, "doc_id": document, "label": document % 3, "x": document}
        pq.write_table(pa.table(columns), path)
        data = open_parquet([path])
        held = [data.offsets, data.labels, data.query_ids, data.doc_ids]
        assert sum(one.nbytes for one in held if one is not None) < 13 * rows
        assert len(pickle.dumps(data.features)) < 2000


class TestRefused:
    def test_a_query_scattered_over_files(self, tmp_path: Path) -> None:
        one = write(tmp_path / "1.parquet", query_id=[5, 5, 6], a=[1, 2, 3])
        two = write(tmp_path / "2.parquet", query_id=[7, 5], a=[1, 2])
        places = r"some begin in row 0 of .*1.parquet, some in row 1 of .*2.parquet.*sort these by query.*stream=False"
        with pytest.raises(FormatError, match=f"2.parquet: the rows of query 5 do not lie together: {places}"):
            open_parquet([one, two])

    def test_a_document_twice_in_a_query(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parquet_on_disk, "_CHECKED_ROWS", 2)
        path = write(tmp_path / "1.parquet", query_id=[1, 1, 2, 2, 2], doc_id=[1, 2, 2, 1, 2], a=[1] * 5)
        with pytest.raises(FormatError, match=r"document 2 appears more than once in one query \(rows 2 and 4\)"):
            open_parquet([path])

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"query_id": [1, None], "a": [1, 2]}, "'query_id' is null in row 1"),
            ({"query_id": [1, 1], "label": [0.0, np.inf], "a": [1, 2]}, "label of row 1 is inf"),
            ({"query_id": ["a", "b\0"], "a": [1, 2]}, "1.parquet: an id ends in a NUL"),
            ({"query_id": [1, 1], "a": ["x", "y"]}, "'a' holds string, not numbers"),
            ({"query_id": pa.array([], pa.int64()), "a": pa.array([], pa.float32())}, "holds no rows"),
        ],
    )
    def test_what_loading_refuses(self, tmp_path: Path, columns: dict[str, Any], message: str) -> None:
        with pytest.raises(FormatError, match=message):
            open_parquet([write(tmp_path / "1.parquet", **columns)])

    def test_text_and_frames(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("1 qid:1 1:0.5\n")
        with pytest.raises(UsageError, match=r"stream=True is for Parquet files, and .*a.txt is text; convert it"):
            load(path, stream=True)
        for wrong in ("yes", 1):
            with pytest.raises(UsageError, match=f"stream must be True or False, not {wrong!r}"):
                load(path, stream=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="a frame is in memory already"):
            load(pa.table({"query_id": [1], "a": [1.0]}), stream=True)


class TestDecision:
    """Features stay on disk where they would take more than half of the free memory."""

    def test_the_size_is_that_of_the_array(self, files: list[Path], tmp_path: Path) -> None:
        whole = load(files, cache=False)
        assert decoded_bytes(files, None) == whole.features.nbytes
        assert decoded_bytes(files, {"features": list(whole.feature_names[:2])}) == 8 * whole.n_rows
        save_parquet([whole], tmp_path / "list.parquet", features="list")
        assert decoded_bytes([tmp_path / "list.parquet"], None) == whole.features.nbytes

    def test_names_may_have_dots(self, tmp_path: Path) -> None:
        columns = {"bm25.title": [1.0, 2.0], "bm25.body": [1, 2], "bm25": [0, 1]}
        path = write(tmp_path / "1.parquet", query_id=[1, 1], **columns)
        assert decoded_bytes([path], None) == 4 * 6
        assert decoded_bytes([path], {"features": ["bm25.title"]}) == 4 * 2
        assert decoded_bytes([path], {"features": ["bm25"]}) == 4 * 2
        lists = {"doc.vector": [[1.0, 2.0], [3.0, 4.0]], "doc": [1, 2]}
        path = write(tmp_path / "2.parquet", query_id=[1, 1], **lists)
        assert decoded_bytes([path], {"features": "doc.vector"}) == 4 * 4

    def test_by_what_is_free(self, files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
        size = load(files, cache=False).features.nbytes
        for free, on_disk in ((2 * size, False), (2 * size - 2, True), (None, False)):
            monkeypatch.setattr("cldrank.data.loading.machine_memory", lambda size=free, **_: size)
            assert load(files, cache=False).on_disk is on_disk
            assert load(files, cache=False, stream=not on_disk).on_disk is not on_disk

    def test_scattered_rows_are_loaded_if_they_fit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = 100
        path = write(tmp_path / "1.parquet", query_id=np.arange(rows) % 7, a=np.arange(rows), b=-np.arange(rows))
        expected, size = load(path, cache=False), 8 * rows
        monkeypatch.setattr("cldrank.data.loading.machine_memory", lambda **_: size)
        with pytest.warns(CldrankWarning, match=r"1.parquet .* rows of query 0 do not .* loaded into memory"):
            found = load(path, cache=False)
        assert not found.on_disk
        assert_same(found, expected)
        with pytest.raises(ScatteredRowsError, match="do not lie together"):
            load(path, cache=False, stream=True)
        monkeypatch.setattr("cldrank.data.loading.machine_memory", lambda **_: size - 1)
        with pytest.raises(ScatteredRowsError, match="stream=False"):
            load(path, cache=False)

    def test_what_is_in_the_cache_is_taken_from_there(
        self, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLDRANK_CACHE", str(tmp_path))
        monkeypatch.setattr("cldrank.data.loading._WORTH_CACHING", 0)
        monkeypatch.setattr("cldrank.data.loading.machine_memory", lambda **_: 100)
        assert load(files).on_disk
        whole = load(files, stream=False)
        assert not load(files).on_disk
        assert_same(load(files), whole)
        assert load(files, stream=True).on_disk
        assert load(files, cache=False).on_disk


class TestDataset:
    def test_parts_stay_on_disk(self, both: tuple[RankingDataset, RankingDataset]) -> None:
        whole, streamed = both
        for queries in (slice(2, 7), slice(0, 12, 3), 4, [5, 1, 9], np.arange(12) % 2 == 0, slice(3, 3)):
            assert streamed[queries].on_disk
            assert_same(streamed[queries], whole[queries])
            assert_same(streamed[queries][::2], whole[queries][::2])
        for one, other in zip(streamed.split(0.7, seed=3), whole.split(0.7, seed=3), strict=True):
            assert_same(one, other)

    def test_fingerprints_are_equal(self, both: tuple[RankingDataset, RankingDataset]) -> None:
        whole, streamed = both
        assert streamed.fingerprint == whole.fingerprint
        assert streamed[[3, 1]].fingerprint == whole[[3, 1]].fingerprint

    def test_blocks_are_whole_queries(self, both: tuple[RankingDataset, RankingDataset]) -> None:
        whole, streamed = both
        blocks = list(streamed.blocks(300 * whole.n_features))
        assert len(blocks) > 3
        assert not any(block.on_disk for block in blocks)
        assert all(block.n_rows <= 300 or block.n_queries == 1 for block in blocks)
        assert_same(RankingDataset.concatenate(blocks, name=whole.name), whole)
        assert list(whole.blocks()) == [whole]

    def test_it_can_be_loaded_saved_and_looked_at(
        self, both: tuple[RankingDataset, RankingDataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, streamed = both
        assert not streamed.in_memory().on_disk
        assert_same(streamed.in_memory(), whole)
        streamed.save(tmp_path / "saved.parquet")
        assert_same(load(tmp_path / "saved.parquet"), whole)
        assert streamed._repr_html_() == whole._repr_html_()
        monkeypatch.setattr("cldrank.data.checks.machine_memory", lambda **_: 100)
        with pytest.raises(DataError, match="does not fit into the memory"):
            streamed.in_memory()

    def test_the_first_missing_value_is_found(self, tmp_path: Path) -> None:
        path = write(tmp_path / "1.parquet", query_id=[1, 1, 2, 2], a=[1.0, 2.0, 3.0, None])
        data = load(path, stream=True, missing="keep")
        with pytest.raises(DataError, match=r"'a' of row 3 \(query 2\) is missing, and a scaling cannot"):
            data.check_complete("a scaling")
        data[:1].check_complete("a scaling")

    def test_whether_values_are_missing_is_known_after_a_pass(self, tmp_path: Path) -> None:
        whole = write(tmp_path / "1.parquet", query_id=[1, 1, 2, 2], a=[1.0, 2.0, 3.0, 4.0])
        data = load(whole, stream=True, missing="keep")
        assert not data.in_memory().has_missing
        data.check_complete("a scaling")
        assert not data.has_missing
        assert not data[:1].has_missing
        holed = write(tmp_path / "2.parquet", query_id=[1, 1, 2, 2], a=[1.0, 2.0, 3.0, None])
        data = load(holed, stream=True, missing="keep")
        assert data.in_memory().has_missing
        assert not data[:1].in_memory().has_missing

    def test_a_missing_value_far_on_is_saved(self, tmp_path: Path) -> None:
        path = write(tmp_path / "1.parquet", query_id=[1, 1, 2, 2], a=[1.0, 2.0, 3.0, None])
        data = load(path, stream=True, missing="keep")
        blocks = list(data.blocks(2))
        assert [block.n_rows for block in blocks] == [2, 2]
        save_parquet(blocks, tmp_path / "2.parquet")
        assert_same(load(tmp_path / "2.parquet").renamed("1"), data)

    @pytest.mark.parametrize(("at", "query"), [(0, "a"), (2, "a"), (3, "b"), (6, "c"), (7, "d")])
    def test_an_error_names_the_query(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, query: str
    ) -> None:
        monkeypatch.setattr("cldrank.data.formats.parquet_pieces._PIECE_VALUES", 2)
        values = [float(row) if row != at else None for row in range(8)]
        one = write(tmp_path / "1.parquet", query_id=["a"] * 3 + ["b"], x=values[:4])
        two = write(tmp_path / "2.parquet", query_id=["b", "b", "c", "d"], x=values[4:])
        data = load([one, two], stream=True)
        for features in (data.features, data.features.of_columns([0])):  # type: ignore[attr-defined]
            with pytest.raises(FormatError, match=rf"{1 + at // 4}.parquet: .* row {at % 4} \(query {query}\) is nan"):
                features[:]

    def test_joining_is_refused(self, both: tuple[RankingDataset, RankingDataset]) -> None:
        for one, other, at in ((both[1], both[1], 1), (both[0], both[1], 2)):
            with pytest.raises(DataError, match=rf"features of dataset {at} are on disk.* data\.in_memory\(\)"):
                RankingDataset.concatenate([one[:2], other[2:]])
