from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cldrank import RankingDataset, load
from cldrank.data.table_rows import save_parquet
from cldrank.errors import CldrankError, FormatError, UsageError


def equal(one: RankingDataset, other: RankingDataset) -> bool:
    pairs = [(getattr(one, key), getattr(other, key)) for key in one.__dataclass_fields__ if key != "name"]
    return all(a is b or np.array_equal(a, b) for a, b in pairs)


def written(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@st.composite
def datasets(draw: st.DrawFn) -> RankingDataset:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    rows = sum(sizes)
    width = draw(st.integers(1, 4))
    texts = draw(st.booleans())
    ids = draw(st.lists(st.integers(-(2**62), 2**62), min_size=len(sizes), max_size=len(sizes), unique=True))
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    return RankingDataset.from_arrays(
        draw(arrays(np.float32, (rows, width), elements=finite)),
        np.repeat([f"q{i}" for i in ids] if texts else ids, sizes),
        labels=draw(st.none() | arrays(np.float32, rows, elements=finite)),
        doc_ids=draw(st.none() | st.just([f"é{row}" for row in range(rows)]) | st.just(range(rows))),
        feature_names=draw(st.just([]) | st.just([f"feature {i}" for i in range(width)])),
        name=draw(st.sampled_from(["", "a name"])),
        synthetic=draw(st.booleans()),
    )


class TestRoundTrip:
    @given(datasets())
    def test_what_is_written_is_read(self, tmp_path_factory: pytest.TempPathFactory, data: RankingDataset) -> None:
        path = tmp_path_factory.mktemp("round") / "data.parquet"
        assert save_parquet([data], path) == data.n_rows
        assert equal(data, load(path))

    def test_blocks_become_one_file(self, tmp_path: Path) -> None:
        data = RankingDataset.from_arrays(np.eye(6), np.repeat([3, 1, 2], 2), labels=np.arange(6))
        save_parquet((data[i] for i in range(3)), tmp_path / "data.parquet")
        assert equal(data, load(tmp_path / "data.parquet"))

    def test_a_failed_write_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "data.parquet"
        data = RankingDataset.from_arrays(np.eye(2), [1, 2])
        data.save(path)
        before = path.read_bytes()

        def broken() -> Any:
            yield data
            raise RuntimeError("power cut")

        with pytest.raises(RuntimeError, match="power cut"):
            save_parquet(broken(), path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["data.parquet"]

    def test_nothing_to_write_no_folder_and_clashing_names(self, tmp_path: Path) -> None:
        with pytest.raises(CldrankError, match="nothing to save"):
            save_parquet([], tmp_path / "data.parquet")
        data = RankingDataset.from_arrays([[1.0]], [1], feature_names=["query_id"])
        with pytest.raises(CldrankError, match="a feature is called 'query_id'"):
            data.save(tmp_path / "data.parquet")
        with pytest.raises(CldrankError, match="does not exist"):
            data.save(tmp_path / "absent" / "data.parquet")


class TestForeignFiles:
    def test_columns_can_be_mapped(self, tmp_path: Path) -> None:
        path = written(
            tmp_path / "a.parquet", q=["x", "x"], rel=[1, 0], d=[5, 6], one=[0.5, 1.5], two=[2, 3], note=["a", "b"]
        )
        columns = {"query_id": "q", "label": "rel", "doc_id": "d", "features": ["two", "one"]}
        data = load(path, columns=columns)
        assert data.features.tolist() == [[2, 0.5], [3, 1.5]]
        assert data.feature_names == ("two", "one")
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == [5, 6]

    def test_dictionary_encoded_ids_small_integers_booleans(self, tmp_path: Path) -> None:
        path = written(
            tmp_path / "a.parquet",
            query_id=pa.array(["x", "y"]).dictionary_encode(),
            label=pa.array([1, 0], pa.int8()),
            flag=[True, False],
        )
        data = load(path)
        assert data.query_ids.tolist() == ["x", "y"]
        assert data.features.tolist() == [[1], [0]]

    def test_scattered_rows_are_brought_together_without_a_second_table(self, tmp_path: Path) -> None:
        rows, width = 100_000, 50
        table = np.random.default_rng(0).random((rows, width), dtype=np.float32)
        columns = {f"f{index}": column for index, column in enumerate(table.T)}
        pq.write_table(pa.table({"query_id": np.arange(rows) % 300, **columns}), tmp_path / "a.parquet")
        load(tmp_path / "a.parquet")
        tracemalloc.start()
        try:
            data = load(tmp_path / "a.parquet")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        np.testing.assert_array_equal(data.features, table[np.argsort(np.arange(rows) % 300, kind="stable")])
        assert peak < 1.5 * table.nbytes

    def test_scattered_queries_and_parts(self, tmp_path: Path) -> None:
        parts = [
            written(tmp_path / "a.parquet", query_id=[2, 1], x=[1.0, 2.0]),
            written(tmp_path / "b.parquet", query_id=[2], x=[3.0]),
        ]
        data = load(parts)
        assert data.query_ids.tolist() == [2, 1]
        assert data.features[:, 0].tolist() == [1, 3, 2]
        assert data.source_rows is not None
        assert data.source_rows.tolist() == [0, 2, 1]

    def test_missing_values_can_be_filled(self, tmp_path: Path) -> None:
        path = written(tmp_path / "a.parquet", query_id=[1, 1, 1], x=[1.0, None, float("nan")])
        assert load(path, missing=0).features[:, 0].tolist() == [1, 0, 0]
        with pytest.raises(CldrankError, match="feature 'x' of row 1 .* is nan"):
            load(path)

    def test_missing_values_can_be_kept_and_saved(self, tmp_path: Path) -> None:
        path = written(tmp_path / "a.parquet", query_id=[1, 1, 2], x=[1.0, None, float("nan")], y=[1.0, 2.0, 3.0])
        data = load(path, missing="keep")
        np.testing.assert_array_equal(data.features, np.array([[1, 1], [np.nan, 2], [np.nan, 3]], np.float32))
        assert data.has_missing
        save_parquet([data], tmp_path / "b.parquet")
        again = load(tmp_path / "b.parquet")  # it knows what it holds
        assert again.has_missing
        np.testing.assert_array_equal(again.features, data.features)
        filled = load(tmp_path / "b.parquet", missing=7)
        assert (filled.has_missing, filled.features[:, 0].tolist()) == (False, [1, 7, 7])
        infinite = written(tmp_path / "i.parquet", query_id=[1, 1], x=[None, float("inf")])
        with pytest.raises(
            CldrankError, match="feature 'x' of row 1 .* is inf; features must be finite, and infinity is not a miss"
        ):
            load(infinite, missing="keep")

    def test_files_that_do_not_fit(self, tmp_path: Path) -> None:
        garbage = tmp_path / "g.parquet"
        garbage.write_bytes(b"PAR1 and then nothing of the kind")
        whole = written(tmp_path / "w.parquet", query_id=list(range(9000)), x=np.random.default_rng(0).random(9000))
        broken = tmp_path / "b.parquet"
        content = bytearray(whole.read_bytes())
        content[200:60_000] = b"\x55" * (60_000 - 200)
        broken.write_bytes(content)
        cut = tmp_path / "cut.parquet"
        cut.write_bytes(whole.read_bytes()[:-100])
        cases: list[tuple[Any, Any, str]] = [
            (garbage, None, "not a readable Parquet file"),
            (cut, None, "not a readable Parquet file"),
            (broken, None, "damaged Parquet file|not a readable"),
            (written(tmp_path / "1.parquet", qid=[1], x=[1.0]), None, "no column 'query_id'; there are qid, x"),
            (whole, {"label": "relevance"}, "no column 'relevance' .for label."),
            (whole, {"rating": "x"}, "`columns` names the role 'rating'; the roles are"),
            (whole, {"label": ["x", "x"]}, "takes the name of one column"),
            (written(tmp_path / "2.parquet", query_id=[1], x=["a"]), None, "column 'x' holds string, not numbers"),
            (written(tmp_path / "3.parquet", query_id=[1]), None, "there is no feature column"),
            (written(tmp_path / "4.parquet", query_id=[1, None], x=[1.0, 2.0]), None, "'query_id' is null in row 1"),
            (written(tmp_path / "5.parquet", query_id=[1.5], x=[1.0]), None, "ids are whole numbers or text"),
            (
                written(tmp_path / "6.parquet", query_id=[1, 1], label=[1, None], x=[1, 2]),
                None,
                "'label' is null in row 1",
            ),
            (written(tmp_path / "7.parquet", query_id=[1], features=[[1.0]]), None, "'features' holds list<"),
            (
                written(tmp_path / "8.parquet", query_id=pa.array([], pa.int64()), x=pa.array([], pa.float32())),
                None,
                "no rows",
            ),
            (written(tmp_path / "9.parquet", query_id=[1], label=["good"], x=[1.0]), None, "'label' holds string"),
            ([whole, written(tmp_path / "10.parquet", query_id=[1], y=[1.0])], None, "no column 'x', which the first"),
        ]
        with pytest.raises(UsageError, match="absent.parquet: no such"):
            load(tmp_path / "absent.parquet")
        for path, columns, message in cases:
            with pytest.raises(CldrankError, match=message):
                load(path, columns=columns)


def table(columns: list[tuple[str, Any]], **metadata: Any) -> pa.Table:
    """A table whose columns may repeat, with a note of ours as its metadata."""
    made = pa.Table.from_arrays([pa.array(values) for _, values in columns], names=[name for name, _ in columns])
    return made.replace_schema_metadata({key: json.dumps(value) for key, value in metadata.items()} or None)


ID, X = ("query_id", [1, 1]), ("x", [1.0, 2.0])
HUGE = pa.array([1, 2**63], pa.uint64())
ODD_TABLES: list[tuple[pa.Table, str]] = [
    (table([ID, X, X]), "column 'x' appears more than once"),
    (table([ID, ID, X]), "column 'query_id' appears more than once"),
    (table([ID, ("label", [1, 0]), ("label", [0, 1]), X]), "column 'label' appears more than once"),
    (table([ID, ("features", [[1.0], [2.0]]), ("features", [[1.0], [2.0]])]), "'features' appears more than once"),
    (table([("query_id", HUGE), X]), "'query_id' is 9223372036854775808 in row 1 .*too large for a 64-bit number"),
    (table([ID, ("doc_id", HUGE), X]), "column 'doc_id' is 9223372036854775808 in row 1"),
    (table([("query_id", [[1], [2]]), X]), "column 'query_id' holds list<.*; ids are whole numbers or text"),
    (table([("query_id", [{"a": 1}, {"a": 2}]), X]), "column 'query_id' holds struct<"),
    (table([("query_id", [True, False]), X]), "column 'query_id' holds bool; ids are"),
    (table([("query_id", [None, None]), X]), "column 'query_id' holds null; ids are"),
    (table([ID, ("doc_id", [b"a", b"b"]), X]), "column 'doc_id' holds binary; ids are"),
    (table([ID, ("x", [[[1.0]], [[2.0]]])]), "column 'x' holds list<"),
    (table([ID, ("label", [[1], [2]]), X]), "column 'label' holds list<"),
    (table([ID, ("label", [None, None]), X]), "column 'label' holds null"),
    (table([ID, ("x", [{"a": 1}, {"a": 2}])]), "column 'x' holds struct<"),
    (table([ID, ("x", [None, None])]), "column 'x' holds null"),
    (
        table([("query_id", pa.array([b"\xff", b"\xfe"]).cast(pa.binary()).view(pa.string())), X]),
        "not a readable",
    ),
    (table([ID, X], cldrank=[1]), "metadata .*damaged"),
    (table([ID, X], cldrank={"name": 7}), "metadata .*damaged"),
    (table([ID, X], cldrank={"synthetic": "no"}), "metadata .*damaged"),
    (table([ID, X]).replace_schema_metadata({"cldrank": "{"}), "metadata .*damaged"),
    (table([ID, X]).replace_schema_metadata({"cldrank": "[" * 100_000}), "metadata .*damaged"),
    (table([ID, X]).replace_schema_metadata({"cldrank": b"\xff\xfe"}), "metadata .*damaged"),
]


@pytest.mark.parametrize(("odd", "message"), ODD_TABLES, ids=[message for _, message in ODD_TABLES])
def test_odd_columns_and_metadata_are_refused_with_the_file(tmp_path: Path, odd: pa.Table, message: str) -> None:
    path = tmp_path / "odd.parquet"
    pq.write_table(odd, path, store_schema=True)
    with pytest.raises(FormatError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_columns_that_are_not_used_may_repeat(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table([ID, X, ("note", ["a", "b"]), ("note", ["c", "d"])]), path)
    assert load(path, columns={"features": "x"}).features[:, 0].tolist() == [1, 2]


def test_a_column_whose_name_begins_like_another(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", **{"query_id": [1, 1], "x": [1.0, 2.0], "x.y": [3.0, 4.0]})
    assert load(path).features.tolist() == [[1, 3], [2, 4]]
    assert load(path, columns={"features": ["x"]}).features.tolist() == [[1], [2]]


def test_a_file_that_promises_more_rows_than_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", query_id=[1, 1], x=[1.0, 2.0])
    whole = pq.ParquetFile.iter_batches

    def cut(file: Any, *given: Any, **options: Any) -> Any:
        return (batch.slice(0, 1) for batch in whole(file, *given, **options))

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", cut)
    with pytest.raises(FormatError, match="ends after 1 of 2 rows"):
        load(path)


class TestParts:
    def one(self, tmp_path: Path, **columns: Any) -> Path:
        return written(tmp_path / "one.parquet", **{"query_id": [1, 1], "x": [1.0, 2.0], **columns})

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"query_id": [2, None], "x": [1.0, 2.0]}, "'query_id' is null in row 1"),
            ({"query_id": ["2", "3"], "x": [1.0, 2.0]}, r"'query_id' holds text here, whole numbers in .*one.parquet"),
            ({"query_id": [2, 3], "x": ["a", "b"]}, "column 'x' holds string, not numbers"),
            ({"query_id": [2, 3], "x": [[1.0], [2.0]]}, "column 'x' holds list<"),
            ({"query_id": [2, 3], "x": [1.0, 2.0], "y": [1.0, 2.0]}, "column 'y' is not in the first part"),
            ({"query_id": [2, 3], "y": [1.0, 2.0]}, "no column 'x', which the first part has"),
        ],
    )
    def test_what_is_wrong_with_a_later_part_is_not_blamed_on_the_first(
        self, tmp_path: Path, columns: dict[str, Any], message: str
    ) -> None:
        parts = [self.one(tmp_path), written(tmp_path / "two.parquet", **columns)]
        with pytest.raises(FormatError, match=f"^{re.escape(str(parts[1]))}: .*{message}"):
            load(parts)

    def test_the_label_that_is_null(self, tmp_path: Path) -> None:
        parts = [
            self.one(tmp_path, label=[1, 0]),
            written(tmp_path / "two.parquet", query_id=[2, 3], label=[0, None], x=[1, 2]),
        ]
        with pytest.raises(FormatError, match=r"two.parquet: column 'label' is null in row 1 \(counted from 0\)"):
            load(parts)

    def test_numbers_of_other_widths_are_one_column(self, tmp_path: Path) -> None:
        two = written(
            tmp_path / "two.parquet", query_id=pa.array([2, 3], pa.int32()), x=pa.array([1.5, 2.5], pa.float32())
        )
        data = load([self.one(tmp_path), two])
        assert data.query_ids.tolist() == [1, 2, 3]
        assert data.features[:, 0].tolist() == [1, 2, 1.5, 2.5]

    def test_one_synthetic_part_makes_the_whole_synthetic(self, tmp_path: Path) -> None:
        for query in (1, 2):
            RankingDataset.from_arrays([[1.0]], [query], synthetic=query == 2).save(tmp_path / f"{query}.parquet")
        assert load([tmp_path / "1.parquet", tmp_path / "2.parquet"]).synthetic


@pytest.mark.data
def test_msrd(real_data: Path) -> None:
    for part, shape in {"train": (9_767, 230_503), "vali": (3_256, 76_965), "test": (3_256, 76_913)}.items():
        data = load(real_data / f"msrd/{part}.parquet")
        assert (data.n_queries, data.n_rows, data.n_features) == (*shape, 140)
        assert data.sizes.max() == 24
        assert data.labels is not None
        assert set(np.unique(data.labels)) == {0, 1}


LOAD_EACH = """
import sys
from pathlib import Path

import cldrank as cr
from cldrank.errors import CldrankError

content, path = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
for place in range(max(4, len(content) - 700), len(content) - 8):
    for byte in (0x00, 0x19, 0xFF):
        path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
        try:
            cr.load(path, cache=False)
        except CldrankError:
            pass
"""


def test_no_changed_byte_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    columns = {"query_id": [1, 1], "doc_id": ["a", "b"], "x": [1.0, 2.0]}
    pq.write_table(pa.table(columns), tmp_path / "whole.parquet")
    command = [sys.executable, "-c", LOAD_EACH, str(tmp_path / "whole.parquet"), str(tmp_path / "changed.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


PEAK = """
import resource, sys

import cldrank as cr
from cldrank.errors import DataError

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(cr.load(sys.argv[1], cache=False).n_rows)
except DataError as error:
    print("1,048,576" in str(error))
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10
"""


@pytest.mark.parametrize(("column", "answer"), [("query_id", "200"), ("doc_id", "True")])
def test_a_long_id_that_repeats_is_held_once(tmp_path: Path, column: str, answer: str) -> None:
    ids = {"query_id": pa.array(range(200)), "doc_id": pa.array(range(200)), column: pa.array(["x" * (1 << 20)] * 200)}
    pq.write_table(pa.table({**ids, "bm25": np.ones(200)}), tmp_path / "x.parquet", compression="zstd")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path / "x.parquet")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, answer), done.stderr[-2000:]
