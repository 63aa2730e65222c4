from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cldrank import RankingDataset
from cldrank.data import read_parquet, write_parquet
from cldrank.errors import CldrankError


def equal(one: RankingDataset, other: RankingDataset) -> bool:
    pairs = [(getattr(one, key), getattr(other, key)) for key in one.__dataclass_fields__]
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
    @given(datasets(), st.sampled_from(["columns", "list"]))
    def test_what_is_written_is_read(
        self, tmp_path_factory: pytest.TempPathFactory, data: RankingDataset, features: Literal["columns", "list"]
    ) -> None:
        path = tmp_path_factory.mktemp("round") / "data.parquet"
        assert write_parquet([data], path, features=features) == data.n_rows
        assert equal(data, read_parquet(path))

    def test_blocks_become_one_file(self, tmp_path: Path) -> None:
        data = RankingDataset.from_arrays(np.eye(6), np.repeat([3, 1, 2], 2), labels=np.arange(6))
        write_parquet((data[i] for i in range(3)), tmp_path / "data.parquet")
        assert equal(data, RankingDataset.from_parquet(tmp_path / "data.parquet"))

    def test_a_failed_write_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "data.parquet"
        data = RankingDataset.from_arrays(np.eye(2), [1, 2])
        data.to_parquet(path)
        before = path.read_bytes()

        def broken() -> Any:
            yield data
            raise RuntimeError("power cut")

        with pytest.raises(RuntimeError, match="power cut"):
            write_parquet(broken(), path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["data.parquet"]

    def test_nothing_to_write_no_folder_and_clashing_names(self, tmp_path: Path) -> None:
        with pytest.raises(CldrankError, match="nothing to write"):
            write_parquet([], tmp_path / "data.parquet")
        data = RankingDataset.from_arrays([[1.0]], [1], feature_names=["query_id"])
        with pytest.raises(CldrankError, match="a feature is called 'query_id'"):
            data.to_parquet(tmp_path / "data.parquet")
        with pytest.raises(CldrankError, match="does not exist"):
            data.to_parquet(tmp_path / "absent" / "data.parquet")


class TestForeignFiles:
    def test_columns_can_be_mapped(self, tmp_path: Path) -> None:
        path = written(
            tmp_path / "a.parquet", q=["x", "x"], rel=[1, 0], d=[5, 6], one=[0.5, 1.5], two=[2, 3], note=["a", "b"]
        )
        columns = {"query_id": "q", "label": "rel", "doc_id": "d", "features": ["two", "one"]}
        data = read_parquet(path, columns=columns)
        assert data.features.tolist() == [[2, 0.5], [3, 1.5]]
        assert data.feature_names == ("two", "one")
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == [5, 6]

    @pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
    def test_list_columns_of_any_kind(self, tmp_path: Path, kind: pa.DataType) -> None:
        vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], type=kind)
        data = read_parquet(
            written(tmp_path / "a.parquet", query_id=[1, 1], embedding=vectors), columns={"features": "embedding"}
        )
        assert data.features.tolist() == [[1, 2], [3, 4]]

    def test_dictionary_encoded_ids_small_integers_booleans(self, tmp_path: Path) -> None:
        path = written(
            tmp_path / "a.parquet",
            query_id=pa.array(["x", "y"]).dictionary_encode(),
            label=pa.array([1, 0], pa.int8()),
            flag=[True, False],
        )
        data = read_parquet(path)
        assert data.query_ids.tolist() == ["x", "y"]
        assert data.features.tolist() == [[1], [0]]

    def test_scattered_queries_and_parts(self, tmp_path: Path) -> None:
        parts = [
            written(tmp_path / "a.parquet", query_id=[2, 1], x=[1.0, 2.0]),
            written(tmp_path / "b.parquet", query_id=[2], x=[3.0]),
        ]
        data = read_parquet(parts)
        assert data.query_ids.tolist() == [2, 1]
        assert data.features[:, 0].tolist() == [1, 3, 2]
        assert data.source_rows is not None
        assert data.source_rows.tolist() == [0, 2, 1]

    def test_missing_values_can_be_filled(self, tmp_path: Path) -> None:
        path = written(tmp_path / "a.parquet", query_id=[1, 1, 1], x=[1.0, None, float("nan")])
        assert read_parquet(path, missing=0).features[:, 0].tolist() == [1, 0, 0]
        with pytest.raises(CldrankError, match="feature 'x' of row 1 .* is nan"):
            read_parquet(path)

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
            (tmp_path / "absent.parquet", None, "no such file"),
            (garbage, None, "not a readable Parquet file"),
            (cut, None, "not a readable Parquet file"),
            (broken, None, "damaged Parquet file|not a readable"),
            (written(tmp_path / "1.parquet", qid=[1], x=[1.0]), None, "no column 'query_id'; it has 'qid', 'x'"),
            (whole, {"label": "relevance"}, "no column 'relevance' .asked for as label."),
            (whole, {"rating": "x"}, "maps 'rating', which is none of"),
            (whole, {"label": ["x", "x"]}, "takes the name of one column"),
            (written(tmp_path / "2.parquet", query_id=[1], x=["a"]), None, "column 'x' holds string, not numbers"),
            (written(tmp_path / "3.parquet", query_id=[1]), None, "there is no feature column"),
            (written(tmp_path / "4.parquet", query_id=[1, None], x=[1.0, 2.0]), None, "'query_id' is null in row 1"),
            (written(tmp_path / "5.parquet", query_id=[1.5], x=[1.0]), None, "ids are whole numbers or text"),
            (
                written(tmp_path / "6.parquet", query_id=[1, 1], label=[1, None], x=[1, 2]),
                None,
                "label is null in row 1",
            ),
            (
                written(tmp_path / "7.parquet", query_id=[1, 1], features=[[1.0], [1.0, 2.0]]),
                None,
                "differ in length .row 1",
            ),
            (
                written(tmp_path / "8.parquet", query_id=pa.array([], pa.int64()), x=pa.array([], pa.float32())),
                None,
                "no rows",
            ),
            (written(tmp_path / "9.parquet", query_id=[1], label=["good"], x=[1.0]), None, "'label' holds string"),
            ([whole, written(tmp_path / "10.parquet", query_id=[1], y=[1.0])], None, "no column 'x', which the first"),
        ]
        for path, columns, message in cases:
            with pytest.raises(CldrankError, match=message):
                read_parquet(path, columns=columns)


@pytest.mark.data
def test_msrd(real_data: Path) -> None:
    for part, shape in {"train": (9_767, 230_503), "vali": (3_256, 76_965), "test": (3_256, 76_913)}.items():
        data = read_parquet(real_data / f"msrd/{part}.parquet")
        assert (data.n_queries, data.n_rows, data.n_features) == (*shape, 140)
        assert data.sizes.max() == 24
        assert data.labels is not None
        assert set(np.unique(data.labels)) == {0, 1}
