"""DataFrames in place of files: the same dataset and the same scores, whatever library made the frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pytest

import cldrank as cr
from cldrank import scaling
from cldrank.data.scores import load_scores
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.rankers import LinearRanker

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

COLUMNS: dict[str, Any] = {
    "qid": [7, 7, 8, 8, 8],
    "item": ["a", "b", "a", "<script>", "ü"],
    "bm25": [1.5, 2.5, 0.0, -1.0, 3.0],
    "clicks": [3, 0, 2, 1, 9],
    "new": [True, False, True, True, False],
    "y": [0, 1, 2, 0, 1],
}
ROLES: dict[str, Any] = {"columns": {"query_id": "qid", "doc_id": "item", "label": "y"}}
NAMES = ("bm25", "clicks", "new")


def chunked(columns: dict[str, Any]) -> pa.Table:
    return pa.concat_tables([pa.table(columns).slice(0, 2), pa.table(columns).slice(2)])


def relation(columns: dict[str, Any]) -> Any:
    import duckdb

    return duckdb.from_arrow(pa.table(columns))


EAGER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "chunks": chunked,
    "batch": pa.record_batch,
    "narwhals": lambda columns: nw.from_native(pl.DataFrame(columns)),
}
LAZY: dict[str, Callable[[dict[str, Any]], Any]] = {"lazy": pl.LazyFrame, "duckdb": relation}
every_eager = pytest.mark.parametrize("make", EAGER.values(), ids=EAGER)
every_frame = pytest.mark.parametrize("make", [*EAGER.values(), *LAZY.values()], ids=[*EAGER, *LAZY])


def ranker(names: tuple[str, ...] = NAMES) -> LinearRanker:
    scale = scaling.fit(None, np.zeros((1, len(names))))
    return LinearRanker(feature_names=names, scaling=scale, coefficients=np.arange(1.0, len(names) + 1))


class TestLoading:
    @every_frame
    def test_it_is_what_the_parquet_file_gives(self, make: Any, tmp_path: Path) -> None:
        import pyarrow.parquet as pq

        pq.write_table(pa.table(COLUMNS), tmp_path / "a.parquet")
        data, expected = cr.load(make(COLUMNS), **ROLES), cr.load(tmp_path / "a.parquet", **ROLES)
        assert data.fingerprint == expected.fingerprint
        assert data.feature_names == NAMES
        assert data.doc_ids is not None
        assert data.doc_ids.tolist() == COLUMNS["item"]

    def test_features_are_chosen_and_put_in_order(self) -> None:
        data = cr.load(pl.LazyFrame(COLUMNS), columns={"query_id": "qid", "features": ["new", "bm25"]})
        assert data.feature_names == ("new", "bm25")
        assert data.features.tolist()[:2] == [[1, 1.5], [0, 2.5]]
        assert data.labels is None
        assert data.doc_ids is None

    def test_the_rows_of_scattered_queries_are_brought_together(self) -> None:
        scattered = pd.DataFrame({**COLUMNS, "qid": [7, 8, 7, 8, 8], "item": ["a", "b", "c", "d", "e"]})
        data = cr.load(scattered, **ROLES)
        assert data.source_rows is not None
        assert data.source_rows.tolist() == [0, 2, 1, 3, 4]
        assert data.query_ids.tolist() == [7, 8]
        assert data.features[:, 0].tolist() == [1.5, 0.0, 2.5, -1.0, 3.0]
        scores = np.asarray(ranker().predict(scattered))  # which follow the frame, not the dataset
        np.testing.assert_array_equal(scores[data.source_rows], ranker().predict(data))

    def test_a_log_is_not_taken_for_features(self) -> None:
        log = pd.DataFrame({"session_id": [1, 1], "query_id": [7, 8], "position": [1, 2], "clicked": [1, 0]})
        with pytest.raises(FormatError, match="click log"):
            cr.load(log)
        assert cr.load(log, columns={"features": ["position", "clicked"]}).n_features == 2

    @pytest.mark.parametrize(
        ("changes", "roles", "message"),
        [
            ({}, {"columns": {"query_id": "nope"}}, r"the pandas DataFrame: there is no column 'nope' .*qid"),
            ({}, {"columns": {"query_id": "qid", "label": "y"}}, r"'item' holds .*string, not numbers"),
            ({"qid": [7.0, 7, 8, 8, 8]}, ROLES, "column 'qid' holds double; ids are whole numbers or text"),
            ({"item": ["a", "b", None, "c", "d"]}, ROLES, "column 'item' is null in row 2"),
            ({"bm25": [1, 2, "x", 3, 4]}, ROLES, "bm25|not a table that Arrow can hold"),
            ({"bm25": pd.Categorical([1, 2, 1, 2, 1])}, ROLES, "column 'bm25' holds .*, not numbers"),
            ({"bm25": [1, 2, np.inf, 3, 4]}, ROLES, "feature 'bm25' of row 2 .*query 8.* is inf"),
        ],
    )
    def test_what_cannot_be_a_dataset(self, changes: dict[str, Any], roles: dict[str, Any], message: str) -> None:
        with pytest.raises((DataError, UsageError), match=message):
            cr.load(pd.DataFrame({**COLUMNS, **changes}), **roles)

    def test_names_that_no_engine_can_keep_apart(self) -> None:
        for name in ("a", "\0"):
            frame = pa.table([[1], [2], [3]], names=["qid", name, name])
            with pytest.raises(FormatError, match=re.escape(repr(name))):
                cr.load(frame if name == "a" else pl.DataFrame({"qid": [1], name: [1.0]}), columns={"query_id": "qid"})

    @pytest.mark.parametrize("features", [["bm25", "grade"], ["bm25", "qid"]])
    def test_a_feature_has_no_other_role(self, features: list[str]) -> None:
        frame = pd.DataFrame({"qid": [1, 1], "grade": [0, 1], "bm25": [0.5, 1.0]})
        with pytest.raises(UsageError, match=f"column '{features[1]}' cannot be a feature and the"):
            cr.load(frame, columns={"query_id": "qid", "label": "grade", "features": features})

    @pytest.mark.parametrize("what", [{"qid": [1]}, None, np.eye(2), pd.Series([1]), pl.Series([1])])
    def test_what_is_not_a_frame(self, what: Any) -> None:
        with pytest.raises(UsageError, match="source"):
            cr.load(what)


class TestTypes:
    """Types that libraries have for the same values."""

    def test_nullable_types_of_pandas(self) -> None:
        frame = pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="numpy_nullable")
        assert cr.load(frame, **ROLES).fingerprint == cr.load(pa.table(COLUMNS), **ROLES).fingerprint
        frame.loc[2, ["clicks", "new"]] = pd.NA
        with pytest.raises(DataError, match="'clicks' of row 2"):
            cr.load(frame, **ROLES)
        kept = cr.load(frame, **ROLES, missing="keep")
        assert kept.has_missing
        assert np.isnan(kept.features[2]).tolist() == [False, True, True]
        assert cr.load(frame, **ROLES, missing=-1).features[2].tolist() == [0, -1, -1]

    def test_ids_that_are_encoded(self) -> None:
        frame = pd.DataFrame(COLUMNS).astype({"qid": "category", "item": "category"})
        plain = cr.load(pa.table(COLUMNS), **ROLES).fingerprint
        assert cr.load(frame, **ROLES).fingerprint == plain
        encoded = pa.table({name: pa.array(values) for name, values in COLUMNS.items()})
        encoded = encoded.set_column(1, "item", encoded["item"].dictionary_encode())
        assert cr.load(encoded, **ROLES).fingerprint == plain
        assert cr.load(pl.DataFrame(COLUMNS).cast({"item": pl.Categorical}), **ROLES).fingerprint == plain


class TestPredicting:
    EXPECTED = (1.5 + 6 + 3, 2.5, 4 + 3, -1 + 2 + 3, 3 + 18)

    @every_eager
    def test_columns_are_found_by_name_whatever_else_there_is(self, make: Any) -> None:
        scores = ranker().predict(make(COLUMNS))
        np.testing.assert_allclose(np.asarray(scores), self.EXPECTED)
        turned = make({name: COLUMNS[name] for name in sorted(COLUMNS, reverse=True)})
        np.testing.assert_allclose(np.asarray(ranker().predict(turned)), self.EXPECTED)

    def test_the_answer_fits_the_question(self) -> None:
        frame = pd.DataFrame(COLUMNS, index=pd.MultiIndex.from_product([["x"], [5, 4, 3, 2, 1]]))
        scores = ranker().predict(frame)
        pd.testing.assert_series_equal(scores, pd.Series(self.EXPECTED, index=frame.index, name="score"))
        scores = ranker().predict(pl.DataFrame(COLUMNS))
        assert isinstance(scores, pl.Series)
        assert scores.name == "score"
        assert isinstance(ranker().predict(pa.table(COLUMNS)), pa.ChunkedArray)
        assert isinstance(ranker().predict(pa.record_batch(COLUMNS)), pa.Array)
        assert isinstance(ranker().predict(nw.from_native(pl.DataFrame(COLUMNS))), nw.Series)
        data = cr.load(pa.table(COLUMNS), **ROLES)
        assert isinstance(ranker().predict(data), np.ndarray)
        assert isinstance(ranker().predict(data.features), np.ndarray)

    def test_missing_columns_are_named(self) -> None:
        with pytest.raises(DataError, match="'age'"):
            ranker((*NAMES, "age")).predict(pd.DataFrame(COLUMNS))
        with pytest.raises(DataError, match="'item'"):
            ranker(("bm25", "item")).predict(pl.DataFrame(COLUMNS))

    def test_an_empty_frame_has_no_scores(self) -> None:
        assert len(ranker().predict(pl.DataFrame(COLUMNS)[:0])) == 0

    def test_rows_that_are_yet_to_be_computed_have_no_order(self) -> None:
        with pytest.raises(UsageError, match="LazyFrame"):
            ranker().predict(pl.LazyFrame(COLUMNS))


class TestScores:
    SCORES = (0.5, 0.1, 3.0, 2.0, 1.0)

    def test_series_are_scores(self) -> None:
        data = cr.load(pa.table(COLUMNS), **ROLES)
        expected = cr.evaluate(np.array(self.SCORES), data)
        for scores in (
            pd.Series(self.SCORES),
            pd.Series(self.SCORES, dtype="Float64"),
            pl.Series(self.SCORES),
            pa.array(self.SCORES),
            pa.chunked_array([self.SCORES[:2], self.SCORES[2:]]),
            list(self.SCORES),
        ):
            assert dict(cr.evaluate(scores, data)) == dict(expected)

    @pytest.mark.parametrize("make", [pd.DataFrame, pl.LazyFrame, pa.table])
    def test_frames_of_scores_are_matched_by_their_ids(self, make: Any) -> None:
        data = cr.load(pa.table(COLUMNS), **ROLES)
        order = [3, 1, 4, 0, 2]
        columns = {
            "query_id": [COLUMNS["qid"][at] for at in order],
            "doc_id": [COLUMNS["item"][at] for at in order],
            "score": [self.SCORES[at] for at in order],
        }
        assert load_scores(make(columns), data).tolist() == list(self.SCORES)

    def test_what_is_wrong_with_them(self) -> None:
        data = cr.load(pa.table(COLUMNS), **ROLES)
        with pytest.raises(FormatError, match="the pandas DataFrame: there is no column 'score'"):
            cr.evaluate(pd.DataFrame(COLUMNS), data)
        with pytest.raises(UsageError, match="int"):
            load_scores(3, data)
