"""`Candidates`: what could have been shown, by query and document id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN_QUERY = -1
UNKNOWN_DOCUMENT = -2
_ROWS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of each query, as in `RankingDataset`: offsets, query ids, and a document id per row.

    >>> candidates = Candidates.of(RankingDataset.from_arrays([[0], [1], [2]], ["a", "a", "b"]))
    >>> candidates.doc_ids                        # documents without an id are numbered within their query
    array([1, 2, 1])
    >>> candidates.find(np.array(["b", "a", "a", "c"]), np.array([1, 2, 7, 1]))
    array([ 2,  1, -2, -1])
    """

    offsets: IntArray
    query_ids: NDArray[Any]
    doc_ids: NDArray[Any]

    @classmethod
    def of(cls, dataset: RankingDataset) -> Candidates:
        """The candidates of a dataset."""
        if dataset.doc_ids is not None:
            return cls(dataset.offsets, dataset.query_ids, dataset.doc_ids)
        places = segments.places_in_segments(dataset.offsets)
        return cls(dataset.offsets, dataset.query_ids, places)

    @classmethod
    def seen(cls, query_ids: NDArray[Any], doc_ids: NDArray[Any]) -> Candidates:
        """The candidates that pairs of ids name, each once; queries and documents in order of their ids."""
        queries, documents = checks.flat_ids(query_ids, "query_id"), checks.flat_ids(doc_ids, "doc_id")
        query_codes, unique_queries = _codes(queries)
        document_codes, unique_documents = _codes(documents)
        keys = np.unique(query_codes * max(len(unique_documents), 1) + document_codes)
        query, document = np.divmod(keys, max(len(unique_documents), 1))
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        from cldrank.data.rows import gather_queries

        ids, offsets, _ = gather_queries(starts, unique_queries[query[starts]], len(keys))
        return cls(offsets, ids, unique_documents[document])

    @property
    def n_rows(self) -> int:
        """The number of candidates."""
        return len(self.doc_ids)

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.query_ids)

    @property
    def sizes(self) -> IntArray:
        """The number of candidates of each query."""
        return np.diff(self.offsets)

    @property
    def row_queries(self) -> IntArray:
        """The index of the query of each row."""
        rows: IntArray = segments.segment_of_rows(self.offsets)
        return rows

    def equals(self, other: Candidates) -> bool:
        """Whether both name the same candidates in the same order."""
        pairs = [(self.offsets, other.offsets), (self.query_ids, other.query_ids), (self.doc_ids, other.doc_ids)]
        return all(own is theirs or np.array_equal(own, theirs) for own, theirs in pairs)

    def ids_at(self, rows: IntArray) -> tuple[NDArray[Any], NDArray[Any]]:
        """The query and document id of some rows."""
        return self.query_ids[self.row_queries[rows]], self.doc_ids[rows]

    def find(self, query_ids: NDArray[Any], doc_ids: NDArray[Any]) -> IntArray:
        """The row of each (query, document); UNKNOWN_QUERY or UNKNOWN_DOCUMENT where it is not a candidate."""
        queries = self.find_queries(query_ids)
        rows = np.where(queries < 0, UNKNOWN_QUERY, UNKNOWN_DOCUMENT)
        by_query = np.argsort(queries, kind="stable")
        rising, first = queries[by_query], 0
        while first < self.n_queries:  # some queries at a time: memory does not grow with all of them
            last = int(np.searchsorted(self.offsets, self.offsets[first] + _ROWS_AT_A_TIME))
            last = min(max(last, first + 1), self.n_queries)
            asked = by_query[np.searchsorted(rising, first) : np.searchsorted(rising, last)]
            if len(asked):
                rows[asked] = self._find_among(first, last, queries[asked], doc_ids[asked])
            first = last
        return rows

    def _find_among(self, first: int, last: int, queries: IntArray, doc_ids: NDArray[Any]) -> IntArray:
        """The same for pairs of the queries first … last-1, whose places are known."""
        start, stop = int(self.offsets[first]), int(self.offsets[last])
        known, mine = _alike(doc_ids, self.doc_ids[start:stop])
        codes, unique = _codes(np.concatenate([mine, known]))
        span = len(unique) + 1
        own = segments.segment_of_rows(self.offsets[first : last + 1] - start) * span + codes[: len(mine)]
        order = np.argsort(own, kind="stable")
        wanted = (queries - first) * span + codes[len(mine) :]
        rows = order[np.minimum(np.searchsorted(own[order], wanted), len(own) - 1)]
        return np.where(own[rows] == wanted, start + rows, UNKNOWN_DOCUMENT)

    def find_queries(self, query_ids: NDArray[Any]) -> IntArray:
        """The index of each query; UNKNOWN_QUERY where it is not known."""
        wanted, ids = _alike(query_ids, self.query_ids)
        if not len(ids):
            return np.full(len(wanted), UNKNOWN_QUERY, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        place = np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)
        return np.where(ids[order[place]] == wanted, order[place], UNKNOWN_QUERY)

    def mismatch(self, query_ids: NDArray[Any], doc_ids: NDArray[Any], rows: IntArray) -> str:
        """Why `find` knows none of the rows, with an id from either side; empty if it knows some.

        >>> mine = Candidates.seen(np.array(["term 0"]), np.array([1]))
        >>> query, document = np.array(["TERM 81"]), np.array([1])
        >>> mine.mismatch(query, document, mine.find(query, document))
        "no query of the log is in the features: the log has 'TERM 81', the features have 'term 0'"
        """
        if not len(rows) or not self.n_rows or (rows >= 0).any():
            return ""
        of_known = np.flatnonzero(rows == UNKNOWN_DOCUMENT)
        which = of_known if len(of_known) else np.arange(len(rows))
        first = which[np.lexsort((doc_ids[which], query_ids[which]))[0]]  # engines count cells in any order
        what, theirs, own = "no query of the log is in the features:", query_ids[first], self.query_ids[0]
        if len(of_known):
            query = int(self.find_queries(query_ids[[first]])[0])
            what = (
                "no document of the log is among the candidates of its query in the features; of query "
                f"{query_ids[first].item()!r},"
            )
            theirs, own = doc_ids[first], self.doc_ids[self.offsets[query]]
        kinds = ["(text)" if isinstance(value, str) else "(a number)" for value in (theirs, own)]
        kinds = ["", ""] if kinds[0] == kinds[1] else [f" {kind}" for kind in kinds]
        return f"{what} the log has {theirs.item()!r}{kinds[0]}, the features have {own.item()!r}{kinds[1]}"

    def select(self, queries: IntArray) -> tuple[Candidates, IntArray]:
        """The candidates of some queries, and the rows that they had."""
        rows: IntArray = segments.rows_of_segments(self.offsets, queries)
        part = Candidates(segments.from_lengths(self.sizes[queries]), self.query_ids[queries], self.doc_ids[rows])
        return part, rows

    @classmethod
    def joined(cls, many: Iterable[Candidates]) -> Candidates:
        """The union of sets of candidates: in order of appearance within each query, new queries last."""
        every = list(many)
        queries = np.concatenate(_alike(*(part.query_ids[part.row_queries] for part in every)))
        documents = np.concatenate(_alike(*(part.doc_ids for part in every)))
        codes, unique = _codes(documents)
        first = np.sort(np.unique(_codes(queries)[0] * max(len(unique), 1) + codes, return_index=True)[1])
        from cldrank.data.rows import gather_queries

        ids, offsets, order = gather_queries(np.arange(len(first)), queries[first], len(first))
        return cls(offsets, ids, documents[first] if order is None else documents[first[order]])


def ids_of(column: pa.ChunkedArray, what: str) -> NDArray[Any]:
    """The ids that a column of an Arrow table holds, without nulls: int64 where all fit, else text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(column):
        return np.empty(0, dtype=np.int64)
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            values = column.cast(pa.float64()).to_numpy()
            if ((np.abs(values) < 1 << 62) & (values == np.rint(values))).all():
                return np.array(values, dtype=np.int64)
        if pa.types.is_decimal(column.type) and column.type.scale == 0:
            low, high = (pc.min(column).as_py(), pc.max(column).as_py())
            column = column.cast(pa.int64() if low >= -(1 << 63) and high < 1 << 63 else pa.string())
        if pa.types.is_integer(column.type) and (pc.max(column).as_py() or 0) < 1 << 63:
            return np.array(column.cast(pa.int64()).to_numpy())
        text = column.cast(pa.string())
        if pc.any(pc.ends_with(text, "\0")).as_py():
            raise DataError(f"{what} has an id that ends in a NUL character, which cannot be kept; remove it.")
        return np.array(text.to_numpy(zero_copy_only=False), dtype=np.str_)
    except pa.ArrowException:
        raise DataError(f"{what} holds {column.type}; ids are whole numbers or text.") from None


def _codes(values: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    unique, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.int64), unique


def _alike(*many: NDArray[Any]) -> list[NDArray[Any]]:
    """Ids of the same kind: all numbers, or else all text, since a log may write 12 as '12'."""
    flat = [checks.flat_ids(ids, "ids") for ids in many]
    kinds = {ids.dtype.kind for ids in flat if len(ids)}
    return flat if len(kinds) < 2 else [ids.astype(np.str_) for ids in flat]
