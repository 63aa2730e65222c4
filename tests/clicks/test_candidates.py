from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from click_tables import DATA
from hypothesis import given
from hypothesis import strategies as st

from cldrank.clicks.candidates import UNKNOWN_DOCUMENT, UNKNOWN_QUERY, Candidates, ids_of
from cldrank.errors import DataError


class TestFinding:
    @given(st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 5)), min_size=1))
    def test_seen_finds_every_pair(self, pairs: list[tuple[str, int]]) -> None:
        queries, documents = np.array([q for q, _ in pairs]), np.array([d for _, d in pairs])
        seen = Candidates.seen(queries, documents)
        assert seen.n_rows == len(set(pairs))
        rows = seen.find(queries, documents)
        assert seen.doc_ids[rows].tolist() == documents.tolist()
        assert seen.query_ids[seen.row_queries[rows]].tolist() == queries.tolist()

    def test_numbers_as_text_are_found(self) -> None:
        found = Candidates.of(DATA).find(np.array(["1", "9"]), np.array(["c", "a"]))
        assert found.tolist() == [2, UNKNOWN_QUERY]
        assert Candidates.of(DATA).find(np.array([1]), np.array([5])).tolist() == [UNKNOWN_DOCUMENT]

    def test_nothing_is_found_among_nothing(self) -> None:
        none = Candidates.seen(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        assert none.n_rows == none.n_queries == 0
        assert none.find(np.array([1]), np.array([1])).tolist() == [UNKNOWN_QUERY]
        assert Candidates.of(DATA).find_queries(np.array([3, 4, 1])).tolist() == [2, UNKNOWN_QUERY, 0]


class TestParts:
    def test_some_queries_with_the_rows_they_had(self) -> None:
        part, rows = Candidates.of(DATA).select(np.array([2, 0]))
        assert part.query_ids.tolist() == [3, 1]
        assert part.doc_ids.tolist() == ["x", "a", "b", "c"]
        assert part.offsets.tolist() == [0, 1, 4]
        assert rows.tolist() == [5, 0, 1, 2]

    def test_both_together_keep_the_order_of_the_first(self) -> None:
        first = Candidates.seen(np.array(["q", "q"]), np.array(["a", "b"]))
        second = Candidates.seen(np.array(["r", "q", "q"]), np.array(["a", "b", "c"]))
        both = Candidates.joined([first, second])
        assert both.query_ids.tolist() == ["q", "r"]
        assert both.doc_ids.tolist() == ["a", "b", "c", "a"]
        assert both.sizes.tolist() == [3, 1]
        numbers = Candidates.seen(np.array([1]), np.array([7]))  # which join text as text
        assert Candidates.joined([numbers, first]).doc_ids.tolist() == ["7", "a", "b"]


class TestIds:
    def test_numbers_stay_numbers_where_they_fit(self) -> None:
        assert ids_of(pa.chunked_array([pa.array([7, 2**62], pa.uint64())]), "id").dtype == np.int64
        assert ids_of(pa.chunked_array([pa.array([7.0, 9.0])]), "id").tolist() == [7, 9]
        assert ids_of(pa.chunked_array([pa.array([7, 2**63], pa.uint64())]), "id").tolist() == ["7", str(2**63)]
        assert ids_of(pa.chunked_array([], pa.string()), "id").tolist() == []
        assert ids_of(pa.chunked_array([pa.array(["a", "b"]).dictionary_encode()]), "id").tolist() == ["a", "b"]

    def test_refusals(self) -> None:
        with pytest.raises(DataError, match="the id of the log has an id that ends in a NUL"):
            ids_of(pa.chunked_array([pa.array(["a\0"])]), "the id of the log")
        with pytest.raises(DataError, match="ids are whole numbers or text"):
            ids_of(pa.chunked_array([pa.array([[1]])]), "id")
