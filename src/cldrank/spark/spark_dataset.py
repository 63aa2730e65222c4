"""`SparkDataset`: candidates and their features in a Spark DataFrame, scored where they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_whole
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.rankers import BordaRanker, Ranker, TreeRanker
from cldrank.rankers.base import check_features
from cldrank.spark.folding import explained
from cldrank.spark.packed_blocks import DOCUMENT, FEATURES, QUERY, packed_features
from cldrank.tables import Role, resolve_columns
from cldrank.wording import count, kind_of, some

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from cldrank.clicks.candidates import Candidates
    from cldrank.clicks.table import ClickTable
    from cldrank.data.dataset import RankingDataset

_IDS = (Role("query_id", required=True), Role("doc_id", required=True))
_NUMBERS = re.compile(r"float|double|(tiny|small|big)?int|boolean|decimal\(.*\)")


class SparkDataset:
    """Candidates in a Spark DataFrame: a row for each, with its query, its document and its features.

    Linear methods learn from it without collecting it: `CLD().fit(SparkDataset(frame), clicks, propensities)`. Only
    sums come to the driver, which also holds the cells of the clicks.

    frame      any DataFrame of Spark 4
    columns    the columns of "query_id" and "doc_id", if they have other names, and of "features", a list; by default
               all columns but ids, label and folders of a lake, such as dt=2026-11-16
    name       what to call the data in reports
    synthetic  True for generated data, whose results must always be labelled as such
    """

    def __init__(
        self,
        frame: DataFrame,
        *,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        name: str = "",
        synthetic: bool = False,
    ) -> None:
        if not hasattr(frame, "toArrow"):
            raise UsageError(f"SparkDataset is made of a DataFrame of Spark 4 or newer, not of {kind_of(frame)}.")
        self.frame, self.name, self.synthetic = frame, name, synthetic
        named: dict[str, Any] = dict(columns or {})
        features = named.pop("features", None)
        ids = resolve_columns(frame.columns, named, _IDS, name or "the Spark DataFrame")
        self._query, self._document = (_column(ids[role]).cast("string") for role in ("query_id", "doc_id"))
        self.feature_names = _feature_names(frame, features, list(ids.values()))

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

        values = array(*(_column(name).cast("float") for name in self.feature_names))
        return self.frame.select(self._query.alias(QUERY), self._document.alias(DOCUMENT), values.alias(FEATURES))

    @classmethod
    def read(
        cls, session: Any, paths: Sequence[str], columns: Mapping[str, str | Sequence[str]] | None = None
    ) -> SparkDataset:
        """The candidates of Parquet files or folders, on any file system that Spark can read."""
        with explained("Parquet files that Spark can read: " + some(paths)):
            frame = session.read.parquet(*paths)
        name = ", ".join(Path(path).name for path in paths)
        return cls(frame, columns=columns, name=name, synthetic=any(map(_says_synthetic, paths)))

    def scored(self, ranker: Ranker, *, top: int | None = None) -> DataFrame:
        """The score of each candidate and its rank within its query, as a DataFrame: query, document, score, rank.

        Ties are broken by the document's id. With `top`, only the first of each query are kept.
        """
        from pyspark.sql import Window
        from pyspark.sql.functions import col, row_number

        if isinstance(ranker, BordaRanker):
            raise UsageError("the votes of this ranker need all candidates of a query at once; use the function score.")
        if top is not None:
            check_whole("top", top, least=1)
        check_features(ranker.feature_names, self.feature_names)
        frame = self.packed.mapInArrow(partial(_scores, ranker), f"{QUERY} string, {DOCUMENT} string, score double")
        order = Window.partitionBy(QUERY).orderBy(col("score").desc(), col(DOCUMENT))
        ranked = frame.withColumn("rank", row_number().over(order))
        kept = ranked if top is None else ranked.where(col("rank") <= top)
        return kept.select(col(QUERY).alias("query_id"), col(DOCUMENT).alias("doc_id"), "score", "rank")

    def shown(self, clicks: ClickTable) -> tuple[RankingDataset, ClickTable]:
        """The candidates that clicks name, as a dataset whose features stay on Spark, and the clicks on them.

        Clicks on candidates that the DataFrame does not have are left out, with a warning.
        """
        from cldrank.data.dataset import RankingDataset
        from cldrank.spark.spark_features import SparkFeatures

        known = self._known(clicks)
        candidates = known.candidates
        dataset = RankingDataset._trusted(
            features=SparkFeatures(self.packed, self.feature_names, candidates),
            offsets=candidates.offsets,
            labels=None,
            query_ids=candidates.query_ids,
            doc_ids=candidates.doc_ids,
            feature_names=self.feature_names,
            name=self.name,
            synthetic=self.synthetic,
            featureset="",
            source_rows=None,
            has_missing=False,
        )
        return dataset, known

    def _known(self, clicks: ClickTable) -> ClickTable:
        """The clicks on candidates that the DataFrame has, and no other candidates."""
        if clicks.display is not None:
            raise UsageError(
                "display probabilities cover candidates that are not on this machine, so they cannot be used on Spark; "
                "pass the clicks without them: clicks.with_display(None)."
            )
        candidates = clicks.candidates
        kept = self._present(candidates, np.flatnonzero(clicks.shown))
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

    def _present(self, candidates: Candidates, rows: IntArray) -> IntArray:
        """The rows whose candidates the DataFrame has; a warning names others."""
        import pyarrow as pa

        queries = candidates.query_ids[candidates.row_queries[rows]].astype(np.str_)
        documents = candidates.doc_ids[rows].astype(np.str_)
        named = pa.table(
            {"query": pa.array(queries), "doc": pa.array(documents), "row": pa.array(np.arange(len(rows)))}
        )
        keys = self.frame.select(self._query.alias("query"), self._document.alias("doc"))
        with explained():
            absent = keys.sparkSession.createDataFrame(named).join(keys, ["query", "doc"], "left_anti").select("row")
            unknown = np.sort(np.array([row["row"] for row in absent.collect()], dtype=np.int64))
        if not len(unknown):
            return rows
        examples = [f"query {queries[place]}, document {documents[place]}" for place in unknown[:3]]
        if len(unknown) == len(rows):
            raise DataError(
                f"none of the {len(rows):,} candidates that the clicks name is in {self!r}; check that query and "
                f"document ids are spelled alike: the clicks have {examples[0]}."
            )
        warn(
            CldrankWarning(
                f"{len(unknown):,} of {len(rows):,} candidates that the clicks name are not among the features and "
                f"are left out: {some(examples)}."
            )
        )
        return np.delete(rows, unknown)


def _column(name: str) -> Column:
    """A column by its name, whatever characters are in it."""
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def _feature_names(frame: DataFrame, chosen: str | Sequence[str] | None, ids: Sequence[str]) -> tuple[str, ...]:
    """The columns of the features, all of which must hold numbers."""
    kinds = dict(frame.dtypes)
    names = [chosen] if isinstance(chosen, str) else chosen
    if names is None:
        # folders of a lake, such as dt=2026-11-16, are columns to Spark
        folders = {part.partition("=")[0] for file in frame.inputFiles()[:1] for part in file.split("/") if "=" in part}
        names = [name for name in frame.columns if name not in {*ids, "label", *folders}]
    problem = "" if names else "there are no features beside ids and labels"
    for name in names:
        if name not in kinds:
            problem = f"there is no column {name!r}"
        elif name in ids:
            problem = f"column {name!r} holds ids, so it cannot be a feature too"
        elif list(names).count(name) > 1:
            problem = f"the feature {name!r} is named more than once"
        elif not _NUMBERS.fullmatch(kinds[name]):
            problem = f"column {name!r} holds {kinds[name]}, not numbers"
    if problem:
        there = some(frame.columns)
        raise UsageError(
            f'{problem}; choose the feature columns with `columns={{"features": ...}}`; there are {there}.'
        )
    return tuple(names)


def _scores(ranker: Ranker, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    names = [QUERY, DOCUMENT, "score"]
    for batch in batches:
        if batch.num_rows:
            features = packed_features(batch, ranker.feature_names, missing=isinstance(ranker, TreeRanker))
            scores = np.asarray(ranker.predict(features), dtype=np.float64)
            yield pa.RecordBatch.from_arrays([batch[QUERY], batch[DOCUMENT], pa.array(scores)], names)


def _says_synthetic(path: str) -> bool:
    """Whether a file that is on this machine, or the first of a folder, says that its data are generated."""
    import pyarrow.parquet as pq

    from cldrank.data.table_rows import file_notes

    place = Path(path)
    files = sorted(place.rglob("*.parquet")) if place.is_dir() else [place] if place.is_file() else []
    return any(file_notes(pq.read_schema(file), file).get("synthetic", False) for file in files[:1])
