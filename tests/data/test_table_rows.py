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
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cldrank import RankingDataset, load
from cldrank.data.table_rows import save_parquet
from cldrank.errors import CldrankError, FormatError


def equal(first: RankingDataset, second: RankingDataset) -> bool:
    pairs = [(getattr(first, key), getattr(second, key)) for key in first.__dataclass_fields__ if key != "name"]
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
    @settings(max_examples=30)
    @given(datasets())
    def test_what_is_written_is_read(self, tmp_path_factory: pytest.TempPathFactory, data: RankingDataset) -> None:
        path = tmp_path_factory.mktemp("round") / "data.parquet"
        assert save_parquet([data], path) == data.n_rows
        assert equal(data, load(path))

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
        with pytest.raises(CldrankError, match="data.parquet"):
            save_parquet([], tmp_path / "data.parquet")
        data = RankingDataset.from_arrays([[1.0]], [1], feature_names=["query_id"])
        with pytest.raises(CldrankError, match="a feature is called 'query_id'"):
            data.save(tmp_path / "data.parquet")
        with pytest.raises(CldrankError, match="does not exist"):
            data.save(tmp_path / "absent" / "data.parquet")


class TestForeignFiles:
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
        rows, width = 50_000, 40
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
        with pytest.raises(CldrankError, match="feature 'x' of row 1 .* is inf"):
            load(infinite, missing="keep")
        with pytest.raises(CldrankError, match="feature 'x' of row 1 .* is nan"):
            load(written(tmp_path / "n.parquet", query_id=[1, 1], x=[1.0, None]))

    def test_files_that_do_not_fit(self, tmp_path: Path) -> None:
        whole = written(tmp_path / "w.parquet", query_id=list(range(9000)), x=np.random.default_rng(0).random(9000))
        content = whole.read_bytes()
        (tmp_path / "b.parquet").write_bytes(content[:200] + b"\x55" * 59_800 + content[60_000:])
        (tmp_path / "cut.parquet").write_bytes(content[:-100])
        cases: list[tuple[Any, Any, str]] = [
            (tmp_path / "cut.parquet", None, "cut.parquet"),
            (tmp_path / "b.parquet", None, "b.parquet"),
            (written(tmp_path / "1.parquet", qid=[1], x=[1.0]), None, "'query_id'; there are qid, x"),
            (whole, {"label": "relevance"}, "'relevance' .for label."),
            (whole, {"label": ["x", "x"]}, "label"),
            (written(tmp_path / "3.parquet", query_id=[1]), None, "no feature column"),
            (written(tmp_path / "4.parquet", query_id=[1, None], x=[1.0, 2.0]), None, "'query_id' is null in row 1"),
            (written(tmp_path / "6.parquet", query_id=[1, 1], label=[1, None], x=[1, 2]), None, "'label' .* row 1"),
            (written(tmp_path / "8.parquet", query_id=pa.array([], pa.int64()), x=pa.array([], pa.int8())), None, "8"),
            ([whole, written(tmp_path / "10.parquet", query_id=[1], y=[1.0])], None, "10.parquet: .*'x'"),
        ]
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
    (table([ID, X, X]), "'x'"),
    (table([("query_id", HUGE), X]), "'query_id' is 9223372036854775808 in row 1"),
    (table([("query_id", [[1], [2]]), X]), "'query_id' holds list<"),
    (table([("query_id", [True, False]), X]), "'query_id' holds bool"),
    (table([("query_id", [None, None]), X]), "'query_id' holds null"),
    (table([ID, ("doc_id", [b"a", b"b"]), X]), "'doc_id' holds binary"),
    (table([ID, ("label", [None, None]), X]), "'label' holds null"),
    (table([ID, ("x", [{"a": 1}, {"a": 2}])]), "'x' holds struct<"),
    (table([("query_id", pa.array([b"\xff", b"\xfe"]).view(pa.string())), X]), "odd.parquet"),
    (table([ID, X], cldrank=[1]), "metadata"),
    (table([ID, X], cldrank={"synthetic": "no"}), "metadata"),
    (table([ID, X]).replace_schema_metadata({"cldrank": "[" * 100_000}), "metadata"),
    (table([ID, X]).replace_schema_metadata({"cldrank": b"\xff\xfe"}), "metadata"),
]


@pytest.mark.parametrize(("odd", "message"), ODD_TABLES, ids=[message for _, message in ODD_TABLES])
def test_odd_columns_and_metadata_are_refused_with_the_file(tmp_path: Path, odd: pa.Table, message: str) -> None:
    path = tmp_path / "odd.parquet"
    pq.write_table(odd, path, store_schema=True)
    with pytest.raises(FormatError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


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
            ({"query_id": [2, 3], "x": [1.0, 2.0], "y": [1.0, 2.0]}, "column 'y' is not in the first part"),
        ],
    )
    def test_what_is_wrong_with_a_later_part_is_not_blamed_on_the_first(
        self, tmp_path: Path, columns: dict[str, Any], message: str
    ) -> None:
        parts = [self.one(tmp_path), written(tmp_path / "two.parquet", **columns)]
        with pytest.raises(FormatError, match=f"^{re.escape(str(parts[1]))}: .*{message}"):
            load(parts)

    def test_one_synthetic_part_makes_the_whole_synthetic(self, tmp_path: Path) -> None:
        for query in (1, 2):
            RankingDataset.from_arrays([[1.0]], [query], synthetic=query == 2).save(tmp_path / f"{query}.parquet")
        assert load([tmp_path / "1.parquet", tmp_path / "2.parquet"]).synthetic


PEAK = """
import resource, sys

import cldrank as cr

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert cr.load(sys.argv[1], cache=False).n_rows == 200
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10
"""


def test_a_long_id_that_repeats_is_held_once(tmp_path: Path) -> None:
    table = pa.table({"query_id": pa.array(["x" * (1 << 20)] * 200), "bm25": np.ones(200)})
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
    command = [sys.executable, "-c", PEAK, str(tmp_path / "x.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
