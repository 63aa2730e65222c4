from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank import ClickTable, RankingDataset
from cldrank.errors import DataError, UsageError

pd: Any = pytest.importorskip("pandas")


def sample(queries: int = 4) -> RankingDataset:
    """Queries of 1, 2, 3, … rows; each feature tells the row."""
    qid = np.repeat(np.arange(queries), np.arange(1, queries + 1))
    rows = np.arange(len(qid))
    return RankingDataset.from_arrays(
        np.stack([rows, -rows], axis=1), qid + 10, labels=rows % 3, doc_ids=[f"d{row}" for row in rows], name="sample"
    )


class TestMaking:
    def test_from_arrays(self) -> None:
        data = RankingDataset.from_arrays([[1, 2], [3, 4], [5, 6]], ["b", "b", "a"], [0, 1, 0])
        assert data.features.dtype == np.float32
        assert data.features.flags.c_contiguous
        assert data.offsets.tolist() == [0, 2, 3]
        assert data.query_ids.tolist() == ["b", "a"]
        assert data.feature_names == ("f1", "f2")
        assert (data.n_queries, data.n_rows, data.n_features, len(data)) == (2, 3, 2, 2)

    def test_nothing_can_be_changed(self) -> None:
        data = sample()
        for array in (data.features, data.offsets, data.labels, data.query_ids, data.doc_ids):
            assert array is not None
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
        with pytest.raises(AttributeError):
            data.features = np.eye(2)  # type: ignore[misc, assignment]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"features": [1, 2]}, "(2,)"),
    ({"features": [["a", "b"], ["c", "d"]]}, "must be a table of numbers"),
    ({"features": [[1, np.nan], [1, 2]]}, "feature 'f2' of row 0 (query 1) is nan"),
    ({"features": [[1, 1], [1, 1e300]]}, "feature 'f2' of row 1 (query 1) is inf"),
    ({"qid": [1]}, "qid has 1 entries for 2 rows"),
    ({"qid": [[1, 1]]}, "qid must be a flat array"),
    ({"qid": [1.5, 1.5]}, "qid has 1.5 at 0"),
    ({"qid": [1.0, 2.0**53]}, "qid has 9007199254740992.0 at 1"),
    ({"qid": np.array([1, 2**63], np.uint64)}, "qid has 9223372036854775808 at 1"),
    ({"qid": [1, -(2**70)]}, "qid has -1180591620717411303424 at 1"),
    ({"qid": np.array(["a", pd.NA], object)}, "qid has <NA> at 1"),
    ({"qid": np.array(["a", "a\0"], object)}, "at 1"),
    ({"qid": np.array(["2024-01-01", "NaT"], "M8[D]")}, "datetime64[D]"),
    ({"qid": np.array([1, "a"], object)}, "qid has 'a' at 1"),
    ({"labels": [1, 10**400]}, "labels must be numbers"),
    ({"labels": [1, np.nan]}, "the label of row 1 is nan"),
    ({"doc_ids": ["a"]}, "doc_ids has 1 entries for 2 rows"),
    ({"doc_ids": ["a", "a"]}, "document 'a'"),
    ({"feature_names": ["x"]}, "1 feature names for 2 features"),
    ({"feature_names": ["x", "x"]}, "feature name 'x'"),
]


class TestRefusing:
    @pytest.mark.parametrize(("change", "message"), BAD, ids=[message for _, message in BAD])
    def test_bad_arrays(self, change: dict[str, Any], message: str) -> None:
        good: dict[str, Any] = {"features": [[1, 2], [3, 4]], "qid": [1, 1]}
        with pytest.raises(DataError) as error:
            RankingDataset.from_arrays(**{**good, **change})
        assert message in str(error.value)

    def test_only_documents_of_the_same_query_must_differ(self) -> None:
        ids = ["a", "b", "a", "b"]
        data = RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], doc_ids=ids)
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == ids

    def test_scattered_queries(self) -> None:
        with pytest.raises(DataError, match="query 1 "):
            RankingDataset.from_arrays(np.eye(3), [1, 2, 1])

    def test_empty_queries_wrong_offsets_and_repeated_ids(self) -> None:
        features = np.ones((2, 1), dtype=np.float32)
        with pytest.raises(DataError, match="query 1 .* has no rows"):
            RankingDataset(features, np.array([0, 1, 1, 2]))
        with pytest.raises(DataError, match="offsets"):
            RankingDataset(features, np.array([0, 1]))
        with pytest.raises(DataError, match="offsets is 1.5"):
            RankingDataset(features, np.array([0, 1.5, 2]))
        with pytest.raises(DataError, match="query id 3"):
            RankingDataset(features, np.array([0, 1, 2]), query_ids=np.array([3, 3]))
        with pytest.raises(DataError, match="query_ids has 1 entries for 2 queries"):
            RankingDataset(features, np.array([0, 1, 2]), query_ids=np.array([3]))


class TestNamedColumns:
    """Tables that name their columns: pandas, Arrow, and whatever else has `columns` or `column_names`."""

    FRAME = pd.DataFrame({"bm25": [1.0, 3.0], "length": [2, 4]})

    def test_names_are_kept(self) -> None:
        for frame in (self.FRAME, pa.Table.from_pandas(self.FRAME), pa.RecordBatch.from_pandas(self.FRAME)):
            data = RankingDataset.from_arrays(frame, [1, 1])
            assert data.feature_names == ("bm25", "length")
            assert data.features.tolist() == [[1, 2], [3, 4]]
            assert RankingDataset(frame, np.array([0, 2])).feature_names == ("bm25", "length")

    def test_columns_that_are_only_numbered_have_no_names(self) -> None:
        numbered = pd.DataFrame(np.eye(2))
        assert RankingDataset.from_arrays(numbered, [1, 1]).feature_names == ("f1", "f2")
        assert RankingDataset.from_arrays(numbered, [1, 1], feature_names=["a", "b"]).feature_names == ("a", "b")
        assert RankingDataset.from_arrays(numbered[[1, 0]], [1, 1]).feature_names == ("1", "0")

    def test_names_that_contradict_the_table_are_refused(self) -> None:
        assert RankingDataset.from_arrays(self.FRAME, [1, 1], feature_names=["bm25", "length"]).n_features == 2
        with pytest.raises(DataError, match="'length' for column 1, .*'bm25'"):
            RankingDataset.from_arrays(self.FRAME, [1, 1], feature_names=["length", "bm25"])


class TestParts:
    def test_slicing_by_query(self) -> None:
        data = sample()
        assert data[1:3].query_ids.tolist() == [11, 12]
        assert data[1:3].features[:, 0].tolist() == [1, 2, 3, 4, 5]
        assert data[1:3].offsets.tolist() == [0, 2, 5]
        assert np.shares_memory(data[1:3].features, data.features)
        assert data[-1].features[:, 0].tolist() == [6, 7, 8, 9]
        assert data[[2, 0]].features[:, 0].tolist() == [3, 4, 5, 0]
        assert data[np.array([True, False, True, False])].query_ids.tolist() == [10, 12]
        assert data[::2].query_ids.tolist() == [10, 12]
        assert data[::-1].query_ids.tolist() == [13, 12, 11, 10]
        assert len(data[4:]) == len(data[3:1]) == 0
        doc_ids = data[[2, 0]].doc_ids
        assert doc_ids is not None
        assert doc_ids.tolist() == ["d3", "d4", "d5", "d0"]

    @pytest.mark.parametrize("kind", [RankingDataset, ClickTable])
    def test_slices_that_do_not_exist(self, kind: type) -> None:
        ones = np.ones(10, np.int64)
        cells = {"row": np.arange(10), "position": ones, "impressions": ones, "clicks": ones}
        data: Any = sample() if kind is RankingDataset else ClickTable.from_arrays(sample(), **cells)
        with pytest.raises(IndexError, match="query 4 is out of range: there are 4") as caught:
            data[4]
        assert isinstance(caught.value, UsageError)
        with pytest.raises(UsageError, match="True or False for each of 4"):
            data[np.array([True])]
        with pytest.raises(UsageError, match="by whole numbers"):
            data[[0.5]]
        with pytest.raises(UsageError, match="query 1 is chosen twice"):
            data[[1, -3]]

    @given(st.integers(1, 30), st.integers(0, 1000), st.floats(0, 1))
    def test_a_split_is_a_partition_by_query(self, queries: int, seed: int, fraction: float) -> None:
        data = sample(queries)
        parts = data.split(fraction, seed=seed)
        assert sorted(np.concatenate([part.query_ids for part in parts]).tolist()) == data.query_ids.tolist()
        assert sorted(np.concatenate([part.features[:, 0] for part in parts]).tolist()) == data.features[:, 0].tolist()
        assert abs(len(parts[0]) - fraction * queries) <= 0.5
        again = data.split(fraction, seed=seed)
        assert [part.query_ids.tolist() for part in parts] == [part.query_ids.tolist() for part in again]


class TestMissingValues:
    def made(self) -> RankingDataset:
        features = np.array([[1, np.nan], [2, 3], [4, 5], [np.nan, 6]])
        return RankingDataset.from_arrays(features, [1, 1, 2, 3], feature_names=["a", "b"], missing="keep")

    def test_they_travel(self) -> None:
        data = self.made()
        assert data.has_missing
        assert "missing values" in repr(data)
        assert [data[query].has_missing for query in range(3)] == [True, False, True]
        assert [part.has_missing for part in (data[:1], data[1:2], data[[1, 2]], data.renamed("x"))] == [
            True, False, True, True,
        ]  # fmt: skip
        assert data.has_missing == any(part.has_missing for part in data.split(0.5, seed=0))

    def test_only_where_they_are_wanted(self) -> None:
        complete = RankingDataset.from_arrays([[1.0]], [1], missing="keep")
        assert not complete.has_missing
        complete.check_complete("anybody")
        assert RankingDataset.from_arrays([[np.nan, 1]], [1], missing=-1).features.tolist() == [[-1, 1]]
        with pytest.raises(DataError, match="`missing=0.0`"):
            RankingDataset.from_arrays([[np.nan]], [1])
        with pytest.raises(DataError, match="feature 'f2' of row 0 .* is inf"):
            RankingDataset.from_arrays([[np.nan, np.inf]], [1], missing="keep")
        with pytest.raises(UsageError, match="'drop'"):
            RankingDataset.from_arrays([[1]], [1], missing="drop")  # type: ignore[arg-type]

    def test_who_cannot_use_them_says_where_the_first_is(self) -> None:
        with pytest.raises(DataError) as caught:
            self.made().check_complete("IPS", trees=True)
        assert "feature 'b' of row 0 (query 1) is missing, and IPS" in str(caught.value)
        assert "`model=trees`" in str(caught.value)
