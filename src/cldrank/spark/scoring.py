"""Scores of a ranker for candidates on Spark, computed where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cldrank.arguments import check_whole
from cldrank.errors import UsageError
from cldrank.rankers import BordaRanker, Ranker, TreeRanker
from cldrank.rankers.base import check_features
from cldrank.spark.packing import DOCUMENT, QUERY, packed_features

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from cldrank.spark.dataset import SparkDataset


def scored(dataset: SparkDataset, ranker: Ranker, top: int | None = None) -> DataFrame:
    """The score and the rank of each candidate, or of the first of each query."""
    from pyspark.sql import Window
    from pyspark.sql.functions import col, row_number

    if isinstance(ranker, BordaRanker):
        raise UsageError("the votes of this ranker need all candidates of a query at once; score them with `score`.")
    if top is not None:
        check_whole("top", top, least=1)
    check_features(ranker.feature_names, dataset.feature_names)
    frame = dataset.packed.mapInArrow(partial(_scores, ranker), f"{QUERY} string, {DOCUMENT} string, score double")
    order = Window.partitionBy(QUERY).orderBy(col("score").desc(), col(DOCUMENT))
    ranked = frame.withColumn("rank", row_number().over(order))
    kept = ranked if top is None else ranked.where(col("rank") <= top)
    return kept.select(col(QUERY).alias("query_id"), col(DOCUMENT).alias("doc_id"), "score", "rank")


def _scores(ranker: Ranker, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    names = [QUERY, DOCUMENT, "score"]
    for batch in batches:
        if batch.num_rows:
            features = packed_features(batch, ranker.feature_names, missing=isinstance(ranker, TreeRanker))
            found = np.asarray(ranker.predict(features), dtype=np.float64)
            yield pa.RecordBatch.from_arrays([batch[QUERY], batch[DOCUMENT], pa.array(found)], names)
