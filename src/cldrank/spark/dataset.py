"""`SparkDataset`: candidates and their features in a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.wording import count, some

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset
    from cldrank.rankers import Ranker

_QUERIES, _DOCUMENTS = ("query_id", "qid", "query"), ("doc_id", "document_id", "doc")
_OTHERS = ("label",)


class SparkDataset:
    """Candidates in a Spark DataFrame: a row for each, with its query, its document and its features.

    Linear methods learn from it where it is: `CLD().fit(SparkDataset(frame), clicks, propensities)`. Only sums come to
    this machine, and the cells of the clicks, which it holds.

    frame      any DataFrame, of Spark or Spark Connect
    query      the column of the query's id; by default query_id or qid
    document   the column of the document's id; by default doc_id or document_id
    features   the columns of the features; by default all that are numbers, but ids and label
    name       what to call the data in reports
    """

    def __init__(
        self,
        frame: DataFrame,
        *,
        query: str | None = None,
        document: str | None = None,
        features: Sequence[str] | None = None,
        name: str = "",
    ) -> None:
        if not hasattr(frame, "mapInArrow"):
            raise UsageError(f"SparkDataset is made of a Spark DataFrame, not of {type(frame).__name__}.")
        self.frame, self.name = frame, name
        self.query = _column(frame, query, _QUERIES, "query")
        self.document = _column(frame, document, _DOCUMENTS, "document")
        self.feature_names = _features(frame, features, {self.query, self.document, *_OTHERS})

    def __repr__(self) -> str:
        title = f"{self.name}: " if self.name else ""
        return f"SparkDataset({title}{count(len(self.feature_names), 'feature')})"

    @property
    def packed(self) -> DataFrame:
        """Query and document as text, and the features as one array a row."""
        from pyspark.sql.functions import array, col

        from cldrank.spark.packing import DOCUMENT, FEATURES, QUERY

        values = array(*(col(f"`{name}`").cast("float") for name in self.feature_names))
        keys = (col(f"`{self.query}`").cast("string"), col(f"`{self.document}`").cast("string"))
        return self.frame.select(keys[0].alias(QUERY), keys[1].alias(DOCUMENT), values.alias(FEATURES))

    @classmethod
    def read(cls, session: Any, paths: Sequence[str], **columns: Any) -> SparkDataset:
        """The candidates of Parquet files or folders, wherever Spark can read them; `columns` as in `SparkDataset`."""
        from cldrank.spark.folding import explained

        with explained():
            frame = session.read.parquet(*paths)
        return cls(frame, name=", ".join(PurePath(path).name for path in paths), **columns)

    def scored(self, ranker: Ranker, *, top: int | None = None) -> DataFrame:
        """The score of each candidate and its rank within its query, as a DataFrame: query, document, score, rank.

        Ties are broken by the document's id. With `top`, only the first of each query are kept.
        """
        from cldrank.spark.scoring import scored

        return scored(self, ranker, top)

    def shown(self, clicks: ClickTable) -> tuple[RankingDataset, ClickTable]:
        """The candidates that clicks name, as a dataset whose features stay on Spark, and the clicks on them.

        Clicks on candidates that the DataFrame does not have are left out, with a warning.
        """
        from cldrank.data.dataset import RankingDataset
        from cldrank.spark.features import SparkFeatures

        known = self._known(clicks)
        candidates = known.candidates
        features = SparkFeatures(self.packed, self.feature_names, candidates)
        dataset = RankingDataset._trusted(
            features=features,
            offsets=candidates.offsets,
            labels=None,
            query_ids=candidates.query_ids,
            doc_ids=candidates.doc_ids,
            feature_names=self.feature_names,
            name=self.name,
            synthetic=False,
            source_rows=None,
            has_missing=False,
        )
        return dataset, known

    def _known(self, clicks: ClickTable) -> ClickTable:
        """The clicks on candidates that the DataFrame has, and no other candidates."""
        from dataclasses import replace

        candidates = clicks.candidates
        rows = np.flatnonzero(clicks.shown)
        unknown = self._unknown(candidates, rows)
        if len(unknown):
            if len(unknown) == len(rows):
                raise DataError(
                    f"none of the {len(rows):,} candidates that the clicks name is in {self!r}; check that query and "
                    f"document ids are spelled alike: the clicks have query {candidates.query_ids[0]}, document "
                    f"{candidates.doc_ids[0]}."
                )
            named = [
                f"query {candidates.query_ids[candidates.row_queries[row]]}, document {candidates.doc_ids[row]}"
                for row in unknown[:3]
            ]
            warn(
                CldrankWarning(
                    f"{len(unknown):,} of {len(rows):,} candidates that the clicks name are not among the features and "
                    f"are left out: {some(named)}."
                )
            )
        kept = np.setdiff1d(rows, unknown)
        mask = np.isin(clicks.row, kept)
        queries, row_queries = np.unique(candidates.row_queries[kept], return_inverse=True)
        own = replace(
            candidates,
            offsets=segments.from_lengths(np.bincount(row_queries, minlength=len(queries))),
            query_ids=candidates.query_ids[queries],
            doc_ids=candidates.doc_ids[kept],
        )
        return replace(
            clicks,
            candidates=own,
            row=np.searchsorted(kept, clicks.row[mask]),
            position=clicks.position[mask],
            impressions=clicks.impressions[mask],
            clicks=clicks.clicks[mask],
            segment=clicks.segment[mask],
            display=None if clicks.display is None else clicks.display[kept],
        )

    def _unknown(self, candidates: Any, rows: IntArray) -> IntArray:
        """Those of some candidates that the DataFrame does not have."""
        from pyspark.sql.functions import col

        from cldrank.spark.folding import explained

        keys = self.frame.select(
            col(f"`{self.query}`").cast("string").alias("query"), col(f"`{self.document}`").cast("string").alias("doc")
        )
        named = keys.sparkSession.createDataFrame(_named(candidates, rows))
        with explained():
            found = named.join(keys, ["query", "doc"], "left_anti").select("row").collect()
        return np.sort(np.array([row["row"] for row in found], dtype=np.int64))


def _named(candidates: Any, rows: IntArray) -> pa.Table:
    import pyarrow as pa

    queries = candidates.query_ids[candidates.row_queries[rows]].astype(np.str_)
    documents = candidates.doc_ids[rows].astype(np.str_)
    return pa.table({"query": pa.array(queries), "doc": pa.array(documents), "row": pa.array(rows)})


def _column(frame: DataFrame, named: str | None, usual: Sequence[str], what: str) -> str:
    if named is not None:
        if named not in frame.columns:
            raise UsageError(f"the DataFrame has no column {named!r}; it has {some(frame.columns)}.")
        return named
    found = next((name for name in usual if name in frame.columns), None)
    if found is None:
        raise UsageError(
            f"no column of the DataFrame is named {' or '.join(usual)}; say which holds the {what}: {what}=…."
        )
    return found


def _features(frame: DataFrame, named: Sequence[str] | None, others: set[str]) -> tuple[str, ...]:
    kinds = dict(frame.dtypes)
    numbers = ("float", "double", "int", "bigint", "smallint", "tinyint", "boolean")
    if named is None:
        found = tuple(name for name, kind in frame.dtypes if kind in numbers and name not in others)
    else:
        unknown = [name for name in named if name not in kinds]
        if unknown:
            raise UsageError(f"the DataFrame has no column {unknown[0]!r}; it has {some(frame.columns)}.")
        found = tuple(named)
    if not found:
        raise UsageError("no column of the DataFrame is a feature: numbers that are neither ids nor labels.")
    return found
