"""`SparkDataset`: candidates and their features in a Spark DataFrame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import CldrankWarning, DataError, FormatError, UsageError, warn
from cldrank.spark.columns import column_named, feature_columns, id_column, partition_columns
from cldrank.wording import count, kind_of, some

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

    frame      any DataFrame of Spark 4
    query      the column of the query's id; by default query_id, qid or query
    document   the column of the document's id; by default doc_id, document_id or doc
    features   the columns of the features; by default all but ids, label and folders of a lake, such as dt=2026-11-16
    name       what to call the data in reports
    synthetic  True for generated data, whose results must always be labelled as such
    """

    def __init__(
        self,
        frame: DataFrame,
        *,
        query: str | None = None,
        document: str | None = None,
        features: Sequence[str] | None = None,
        name: str = "",
        synthetic: bool = False,
    ) -> None:
        if not hasattr(frame, "toArrow"):
            raise UsageError(f"SparkDataset is made of a DataFrame of Spark 4 or newer, not of {kind_of(frame)}.")
        self.frame, self.name, self.synthetic = frame, name, synthetic
        self.query = id_column(frame, query, _QUERIES, "query_id")
        self.document = id_column(frame, document, _DOCUMENTS, "doc_id")
        ids, others = (self.query, self.document), (*_OTHERS, *partition_columns(frame))
        self.feature_names = feature_columns(frame, features, ids, others)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refuse to become an array."""
        del dtype, copy
        raise UsageError("a SparkDataset is scored where it is: SparkDataset.scored(ranker).")

    def __repr__(self) -> str:
        title = f"{self.name}: " if self.name else ""
        return f"SparkDataset({title}{count(len(self.feature_names), 'feature')})"

    @property
    def packed(self) -> DataFrame:
        """Query and document of each row as text, and its features as an array."""
        from pyspark.sql.functions import array

        from cldrank.spark.packing import DOCUMENT, FEATURES, QUERY

        values = array(*(column_named(name).cast("float") for name in self.feature_names))
        query, document = (column_named(name).cast("string") for name in (self.query, self.document))
        return self.frame.select(query.alias(QUERY), document.alias(DOCUMENT), values.alias(FEATURES))

    @classmethod
    def read(cls, session: Any, paths: Sequence[str], **columns: Any) -> SparkDataset:
        """The candidates of Parquet files or folders, wherever Spark can read them; `columns` as in `SparkDataset`."""
        from cldrank.spark.folding import explained

        with explained("Parquet files that Spark can read: " + some(paths)):
            frame = session.read.parquet(*paths)
        name = ", ".join(Path(path).name for path in paths)
        return cls(frame, name=name, synthetic=any(map(_says_synthetic, paths)), **columns)

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
            synthetic=self.synthetic,
            source_rows=None,
            has_missing=False,
        )
        return dataset, known

    def _known(self, clicks: ClickTable) -> ClickTable:
        """The clicks on candidates that the DataFrame has, and no other candidates."""
        from dataclasses import replace

        if clicks.display is not None:
            raise UsageError(
                "display probabilities are those of candidates that are not all here, so they cannot be used on Spark; "
                "give the clicks without them: clicks.with_display(None)."
            )
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
        )

    def _unknown(self, candidates: Any, rows: IntArray) -> IntArray:
        """Those of some candidates that the DataFrame does not have."""
        from cldrank.spark.folding import explained

        query, document = (column_named(name).cast("string") for name in (self.query, self.document))
        keys = self.frame.select(query.alias("query"), document.alias("doc"))
        named = keys.sparkSession.createDataFrame(_named(candidates, rows))
        with explained():
            found = named.join(keys, ["query", "doc"], "left_anti").select("row").collect()
        return np.sort(np.array([row["row"] for row in found], dtype=np.int64))


def _says_synthetic(path: str) -> bool:
    """Whether a file that is on this machine, or the first of a folder, says that its data are generated."""
    import pyarrow.parquet as pq

    place = Path(path)
    files = sorted(place.rglob("*.parquet")) if place.is_dir() else [place] if place.is_file() else []
    if not files:
        return False
    described = (pq.read_schema(files[0]).metadata or {}).get(b"cldrank", b"{}")
    try:
        return bool(json.loads(described)["synthetic"]) if described != b"{}" else False
    except (ValueError, KeyError, TypeError):
        raise FormatError("the metadata 'cldrank' is damaged; write the file again.", path=files[0]) from None


def _named(candidates: Any, rows: IntArray) -> pa.Table:
    import pyarrow as pa

    queries = candidates.query_ids[candidates.row_queries[rows]].astype(np.str_)
    documents = candidates.doc_ids[rows].astype(np.str_)
    return pa.table({"query": pa.array(queries), "doc": pa.array(documents), "row": pa.array(rows)})
