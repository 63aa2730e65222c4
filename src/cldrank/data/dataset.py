"""`RankingDataset`: candidates query by query, the form in which everything else meets ranking data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.new_array import NewArray, chosen_rows
from cldrank.errors import DataError, MissingValueError, UsageError
from cldrank.feature_blocks import RemoteFeatures
from cldrank.fingerprints import fingerprint_of
from cldrank.wording import count, some


@dataclass(frozen=True, eq=False, repr=False)
class RankingDataset:
    """Queries with their candidates: features, and, where known, labels and ids. Nothing in it can be changed.

    features        (rows, features) float32, row-major; the rows of a query lie together. Large ones are memory-mapped
                    from a file: read them by slices
    offsets         (queries + 1,) int64; rows offsets[i] … offsets[i+1]-1 belong to query i
    labels          (rows,) float32, or None
    query_ids       (queries,) int64 or text
    doc_ids         (rows,) int64 or text, or None; unique within a query
    feature_names   a name per feature
    name            what to call the data in reports
    synthetic       True for generated data, whose results must always be labelled as such
    featureset     the engine's features that `cldrank features collect` collected, by name and SHA-256; or ""
    source_rows     (rows,) the place of each row in the file or frame it came from, where reading had to regroup them;
                    or None
    has_missing     whether a feature is missing somewhere, as NaN; False on construction refuses NaN
    query_weights   (queries,) how much each query counts in training, see `weighted`; None where all count alike

    >>> data = RankingDataset.from_arrays([[1, 2], [3, 4], [5, 6]], [7, 7, 8], labels=[0, 1, 2])
    >>> data
    RankingDataset(2 queries, 3 rows, 2 features, labels 0…2)
    >>> data[1].features
    array([[5., 6.]], dtype=float32)
    """

    features: NDArray[np.float32]
    offsets: IntArray
    labels: NDArray[np.float32] | None = None
    query_ids: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    doc_ids: NDArray[Any] | None = None
    feature_names: tuple[str, ...] = ()
    name: str = ""
    synthetic: bool = False
    featureset: str = ""
    source_rows: IntArray | None = None
    has_missing: bool = False
    query_weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        features = checks.matrix(self.features)
        rows, width = features.shape
        offsets = checks.query_offsets(self.offsets, rows)
        query_ids = self.query_ids if len(self.query_ids) else np.arange(1, len(offsets))
        query_ids = checks.unique_query_ids(query_ids, len(offsets) - 1)
        names = checks.unique_names(checks.agreed_names(self.features, self.feature_names), width)
        clean = {
            "features": features,
            "offsets": offsets,
            "labels": None if self.labels is None else checks.row_labels(self.labels, rows),
            "query_ids": query_ids,
            "doc_ids": None if self.doc_ids is None else checks.unique_doc_ids(self.doc_ids, offsets),
            "feature_names": names,
            "has_missing": self.has_missing and checks.has_missing(features),
            "query_weights": None
            if self.query_weights is None
            else checks.weights_by_query(self.query_weights, query_ids),
        }
        bad = checks.first_bad_value(features, keep=self.has_missing)
        if bad is not None:
            query = query_ids[np.searchsorted(offsets, bad[0], side="right") - 1]
            raise DataError(checks.bad_value_message(names[bad[1]], bad[0], f"query {query}", features[bad]))
        for key, value in clean.items():
            object.__setattr__(self, key, _frozen(value))

    # -- construction --------------------------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        features: ArrayLike,
        qid: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        doc_ids: ArrayLike | None = None,
        feature_names: Sequence[str] = (),
        name: str = "",
        synthetic: bool = False,
        missing: Missing = None,
    ) -> Self:
        """A dataset from arrays with an entry per row; `qid` names the query of each row.

        NaN is refused as a missing value, unless `missing` gives a number to fill in, or says "keep": trees can learn
        from rows with missing values, other models refuse them.

        A table that names its columns (pandas, Polars, Arrow) gives the features those names. The rows of a query must
        lie together, so that every other array you hold stays aligned with the dataset.

        >>> RankingDataset.from_arrays(np.eye(3), ["a", "a", "b"]).query_ids
        array(['a', 'b'], dtype='<U1')
        >>> RankingDataset.from_arrays([[1.0], [float("nan")]], [7, 7], missing="keep").has_missing
        True
        """
        names = checks.agreed_names(features, feature_names)
        checks.check_missing(missing)
        matrix, query_of_rows = checks.matrix(features), checks.flat_ids(qid, "qid")
        rows = len(query_of_rows)
        if rows != len(matrix):
            raise DataError(f"qid has {rows:,} entries for {len(matrix):,} rows; it needs one entry per row.")
        starts = np.flatnonzero(np.append(rows > 0, query_of_rows[1:] != query_of_rows[:-1])[:rows])
        unique, counts = np.unique(query_of_rows[starts], return_counts=True)
        if len(unique) < len(starts):
            raise DataError(
                f"the rows of query {unique[counts > 1][0].item()!r} do not lie together; sort all your arrays first, "
                "for instance by order = np.argsort(qid, kind='stable')."
            )
        return cls(
            features=checks.filled(matrix, missing),
            offsets=np.append(starts, rows),
            labels=labels,  # type: ignore[arg-type]  # checked there
            query_ids=query_of_rows[starts],
            doc_ids=doc_ids,  # type: ignore[arg-type]
            feature_names=names,
            name=name,
            synthetic=synthetic,
            has_missing=missing == "keep",
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Save all of it as a Parquet file, which `cldrank.load` reads back equal; weights are refused."""
        from cldrank.data.table_rows import save_parquet

        if self.query_weights is not None:
            raise UsageError("a file of candidates does not hold weights of queries; save the data without them.")
        save_parquet(self.blocks(), path)

    def blocks(self, block_values: int = 1 << 24) -> Iterator[RankingDataset]:
        """Its queries in parts of about `block_values` feature values, which share memory with this dataset."""
        query, rows = 0, max(1, block_values // max(1, self.n_features))
        while query < self.n_queries:
            reached = int(np.searchsorted(self.offsets, self.offsets[query] + rows, side="right")) - 1
            stop = max(query + 1, reached)
            yield self._trusted(**{**self._span(query, stop).__dict__, "has_missing": self.has_missing})
            query = stop

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """The number of candidates."""
        return len(self.features)

    def column(self, name: str) -> NDArray[Any]:
        """The values of a feature by row: a simple ranker to compare with.

        >>> data = RankingDataset.from_arrays([[3, 1], [2, 5]], [7, 7], feature_names=["bm25", "price"])
        >>> data.column("price")
        array([1., 5.], dtype=float32)
        """
        names = self.feature_names
        if name not in names:
            raise UsageError(f"there is no feature {name!r}; the features are {some(names)}.")
        return np.ascontiguousarray(self.features[:, names.index(name)])

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> IntArray:
        """The number of candidates of each query."""
        return np.diff(self.offsets)

    @property
    def row_queries(self) -> IntArray:
        """The index of the query of each row."""
        return segments.segment_of_rows(self.offsets)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of features, queries, labels, ids and feature names: all but the name and the order of a file.

        >>> first, second = (RankingDataset.from_arrays([[1.0], [x]], [7, 7]) for x in (2.0, 3.0))
        >>> first.fingerprint == second.fingerprint, first.fingerprint == first.renamed("other").fingerprint
        (False, True)
        """
        features: Any = self.features
        if isinstance(features, RemoteFeatures):
            return str(features.fingerprint)
        names = ["features", "offsets", "labels", "query_ids", "doc_ids", "feature_names"]
        names += ["query_weights"] * (self.query_weights is not None)
        return fingerprint_of({name: getattr(self, name) for name in names})

    def __len__(self) -> int:
        return self.n_queries

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse to become an array, which numpy would make of its queries."""
        raise UsageError(
            "a RankingDataset is not an array; its `features` are. What transforms features, such as a step of a "
            "scikit-learn Pipeline, comes before it: dataclasses.replace(dataset, features=…, feature_names=…). Models "
            "scale features themselves."
        )

    def __deepcopy__(self, memo: object) -> RankingDataset:
        return self  # nothing in it can be changed

    def __repr__(self) -> str:
        title = " ".join([*filter(None, [self.name]), *["(synthetic)" if self.name else "synthetic"] * self.synthetic])
        sizes = {"query": self.n_queries, "row": self.n_rows, "feature": self.n_features}
        parts = [count(size, what, "queries" if what == "query" else f"{what}s") for what, size in sizes.items()]
        if self.labels is None:
            parts.append("no labels")
        elif self.n_rows:
            parts.append(f"labels {self.labels.min():g}…{self.labels.max():g}")
        parts += ["document ids"] * (self.doc_ids is not None) + ["missing values"] * self.has_missing
        parts += ["weights"] * (self.query_weights is not None)
        return f"RankingDataset({title and f'{title}: '}{', '.join(parts)})"

    def check_complete(self, user: object, *, trees: bool = False) -> None:
        """Refuse missing values, naming the first and the `user` that cannot use them.

        trees   whether to suggest trees, which can use them

        >>> RankingDataset.from_arrays([[1.0], [float("nan")]], [7, 7], missing="keep").check_complete("a scaling")
        Traceback (most recent call last):
        ...
        cldrank.errors.MissingValueError: feature 'f1' of row 1 (query 7) is missing, and a scaling cannot use that; ...
        """
        bad = checks.first_bad_value(self.features) if self.has_missing else None
        if bad is not None:
            instead = ", or fit trees: `model=trees`" if trees else ""
            query = self.query_ids[np.searchsorted(self.offsets, bad[0], side="right") - 1]
            place = self.feature_names[bad[1]], bad[0], f"query {query}"
            raise MissingValueError(checks.bad_value_message(*place, np.nan, str(user), instead))

    def renamed(self, name: str) -> RankingDataset:
        """The same data under another name."""
        return self._trusted(**{**self.__dict__, "name": name})

    def with_features(self, places: Sequence[int]) -> RankingDataset:
        """The same data with only the features at these indices, in this order.

        >>> RankingDataset.from_arrays([[1, 2, 3]], [7]).with_features([2, 0]).feature_names
        ('f3', 'f1')
        """
        features = NewArray("features", np.float32, width=len(places))
        for part in self.blocks():
            features.append(part.features[:, list(places)])
        names = tuple(self.feature_names[place] for place in places)
        return replace(self, features=features.finish(), feature_names=names)

    def weighted(self, weights: Mapping[Any, float]) -> RankingDataset:
        """The same data, in whose training a query with the weight w counts as if all was seen w times as often.

        Queries that `weights` does not name have the weight 1; `load_query_weights` reads a file of them.

        >>> data = RankingDataset.from_arrays(np.eye(3), ["a", "a", "b"])
        >>> data.weighted({"b": 2.5}).query_weights
        array([1. , 2.5])
        """
        places = {str(query): place for place, query in enumerate(self.query_ids.tolist())}
        values: list[Any] = [1.0] * self.n_queries
        for query, weight in weights.items():
            if str(query) not in places:
                raise DataError(f"there is a weight for query {query}, which the data does not have.")
            values[places[str(query)]] = weight
        return self._trusted(**{**self.__dict__, "query_weights": checks.weights_by_query(values, self.query_ids)})

    # -- taking parts of it --------------------------------------------------------------------------------------

    def __getitem__(self, queries: int | slice | ArrayLike) -> RankingDataset:
        """Some of the queries, each at most once: a position, a slice, positions, or a mask over queries."""
        if isinstance(queries, slice) and queries.step in (None, 1):
            start, stop, _ = queries.indices(self.n_queries)
            return self._span(start, max(start, stop))
        return self._gather(checks.chosen_queries(queries, self.n_queries))

    def split(self, fractions: float | Sequence[float], *, seed: int) -> list[RankingDataset]:
        """Split at random, whole queries only; a single fraction splits in two. Query order is kept in each part.

        >>> data = RankingDataset.from_arrays(np.eye(10), np.arange(10))
        >>> [len(part) for part in data.split(0.8, seed=0)]
        [8, 2]
        >>> [len(part) for part in data.split([0.6, 0.2, 0.2], seed=0)]
        [6, 2, 2]
        """
        return [self._gather(part) for part in segments.split_segments(self.n_queries, fractions, seed)]

    def _span(self, start: int, stop: int) -> RankingDataset:
        """Queries start … stop-1, sharing memory with this dataset."""
        return self._take(slice(self.offsets[start], self.offsets[stop]), slice(start, stop))

    def _gather(self, queries: IntArray) -> RankingDataset:
        return self._take(segments.rows_of_segments(self.offsets, queries), queries)

    def _take(self, rows: IntArray | slice, queries: IntArray | slice) -> RankingDataset:
        features: Any = self.features
        if isinstance(features, RemoteFeatures):
            features = features.spans(self.offsets[:-1][queries], self.offsets[1:][queries])
        else:
            features = chosen_rows(features, rows)
        return self._trusted(
            features=features,
            offsets=segments.from_lengths(self.sizes[queries]),
            labels=None if self.labels is None else self.labels[rows],
            query_ids=self.query_ids[queries],
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
            feature_names=self.feature_names,
            name=self.name,
            synthetic=self.synthetic,
            featureset=self.featureset,
            source_rows=None if self.source_rows is None else self.source_rows[rows],
            has_missing=self.has_missing and checks.has_missing(features),
            query_weights=None if self.query_weights is None else self.query_weights[queries],
        )

    @classmethod
    def _trusted(cls, **parts: Any) -> RankingDataset:
        """A dataset of parts that were checked before: all its fields, taken as they are."""
        dataset = object.__new__(cls)
        for key, value in parts.items():
            object.__setattr__(dataset, key, _frozen(value))
        return dataset


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value
