from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cldrank as cr
from cldrank.errors import DataError, FormatError

SMALL = "query_id,doc_id,label,bm25,price\n7,a,1,0.5,2\n7,b,0,1.5,3\n8,a,2,-1e-3,4\n"


def written(folder: Path, text: str, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


class TestReading:
    def test_columns_find_their_roles_as_in_parquet(self, tmp_path: Path) -> None:
        data = cr.load(written(tmp_path, SMALL))
        assert data.name == "x"
        assert data.feature_names == ("bm25", "price")
        assert data.query_ids.tolist() == [7, 8]
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ["a", "b", "a"]
        assert data.labels is not None
        assert data.labels.tolist() == [1, 0, 2]
        np.testing.assert_array_equal(data.features, np.array([[0.5, 2], [1.5, 3], [-1e-3, 4]], dtype=np.float32))

    @settings(max_examples=30)
    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1),
                st.integers(-(2**63), 2**63 - 1),
                st.floats(width=32, allow_nan=False, allow_infinity=False),
            ),
            min_size=1,
            unique_by=lambda row: row[0],
        )
    )
    def test_a_frame_that_pandas_writes_is_read_as_it_is(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, float]]
    ) -> None:
        path = tmp_path_factory.mktemp("csv") / "x.csv"
        frame = pd.DataFrame(rows, columns=["doc_id", "query_id", "bm25"]).sort_values("query_id", kind="stable")
        frame.to_csv(path, index=False)
        ours, theirs = cr.load(path), cr.load(frame)
        np.testing.assert_array_equal(ours.features, theirs.features)
        np.testing.assert_array_equal(ours.query_ids, theirs.query_ids)
        if not all(_is_number(text) for text in frame["doc_id"]):
            np.testing.assert_array_equal(ours.doc_ids, theirs.doc_ids)

    @pytest.mark.parametrize("ids", [("7", "007"), ("7", "8.0"), ("7", "9223372036854775808")])
    def test_ids_that_are_not_written_as_whole_numbers_stay_text(self, tmp_path: Path, ids: tuple[str, str]) -> None:
        data = cr.load(written(tmp_path, f"query_id,bm25\n{ids[0]},1\n{ids[1]},2\n"))
        assert data.query_ids.tolist() == list(ids)

    def test_a_type_that_shows_only_far_below_is_found(self, tmp_path: Path) -> None:
        rows = "".join(f"1,{row},1\n" for row in range(120_000))
        data = cr.load(written(tmp_path, f"query_id,doc_id,bm25\n{rows}1,x,0.25\n"))
        assert data.doc_ids is not None
        assert data.doc_ids[-1] == "x"
        assert data.features[-1, 0] == 0.25

    def test_compressed(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv.gz").write_bytes(gzip.compress(SMALL.encode()))
        assert cr.load(tmp_path / "x.csv.gz").n_rows == 3

    def test_missing_values(self, tmp_path: Path) -> None:
        path = written(tmp_path, "query_id,bm25,price\n1,,2\n1,NA,3\n")
        with pytest.raises(FormatError, match="'bm25' of row 0"):
            cr.load(path)
        assert np.isnan(cr.load(path, missing="keep").features[:, 0]).all()
        assert cr.load(path, missing=0.0).features[:, 0].tolist() == [0, 0]


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the file is empty"),
            ("query_id,bm25\n", "holds no rows"),
            ("qid,bm25\n1,2\n", "query_id"),
            ("query_id,bm25\n1,2\n1\n", "2 columns, got 1"),
            ("query_id,brand\n1,Acme\n", "'brand'"),
            ("query_id,bm25\n,2\n", "'query_id' is null in row 0"),
            ("query_id,label,bm25\n1,0x1,2\n", "'label' is '0x1' in row 0"),
            ("query_id,bm25\n1,0x10\n", "'bm25' is '0x10' in row 0"),
            ("query_id,bm25\n1,0xFFFFFFFFFFFFFFFF\n", "'bm25' is '0xFFFFFFFFFFFFFFFF' in row 0"),
            ("query_id,bm25\n1,true\n1,false\n", "'bm25' is 'true' in row 0"),
            ("query_id,bm25\n1,\n1, 2 \n1,nan\n1,x\n", "'bm25' is 'x' in row 3"),
        ],
    )
    def test_broken_files(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(DataError, match=message) as caught:
            cr.load(written(tmp_path, text))
        assert "x.csv" in str(caught.value)

    def test_a_file_cut_off(self, tmp_path: Path) -> None:
        content = gzip.compress(SMALL.encode() * 100)
        (tmp_path / "x.csv.gz").write_bytes(content[: len(content) // 2])
        with pytest.raises(FormatError, match=r"x\.csv\.gz"):
            cr.load(tmp_path / "x.csv.gz")


def _is_number(text: str) -> bool:
    try:
        return str(int(text)) == text
    except ValueError:
        return False
