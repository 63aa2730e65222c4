"""Candidates in Spark DataFrames, and their scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worlds import World

from cldrank import IPS
from cldrank.errors import FormatError, UsageError
from cldrank.models import Trees
from cldrank.spark import SparkDataset
from cldrank.spark.folding import explained


def test_columns_are_found_or_named(session: Any, here: World) -> None:
    frame = session.read.parquet(str(here.path))
    assert SparkDataset(frame).feature_names == ("f1", "f2", "f3", "f4", "f5")
    other = frame.withColumnRenamed("query_id", "search").withColumnRenamed("doc_id", "sku")
    with pytest.raises(FormatError, match="query_id"):
        SparkDataset(other)
    with pytest.raises(UsageError, match="query"):
        SparkDataset(frame, columns={"query": "query_id"})
    columns = {"query_id": "search", "doc_id": "sku", "features": ["f2", "f1"]}
    named = SparkDataset(other, columns=columns, name="shop")
    assert named.feature_names == ("f2", "f1")
    assert repr(named) == "SparkDataset(shop: 2 features)"
    for features, column in ((["f9"], "'f9'"), (["f1", "f1"], "'f1'"), (["query_id", "f1"], "'query_id' holds ids")):
        with pytest.raises(UsageError, match=column):
            SparkDataset(frame, columns={"features": features})
    with pytest.raises(UsageError, match="ndarray"):
        SparkDataset(np.eye(2))


def test_what_is_not_a_number_is_refused_and_decimals_are_numbers(session: Any, here: World) -> None:
    from pyspark.sql.functions import col, lit

    frame = session.read.parquet(str(here.path))
    with pytest.raises(UsageError, match="'brand' holds string"):
        SparkDataset(frame.withColumn("brand", lit("x")))
    exact = SparkDataset(frame.withColumn("f1", col("f1").cast("decimal(10,4)")))
    assert exact.feature_names == ("f1", "f2", "f3", "f4", "f5")
    odd = SparkDataset(frame.withColumnRenamed("f1", "f`1 x"))
    assert odd.packed.count() == here.data.n_rows


def test_a_dataset_on_spark_is_not_an_array(session: Any, here: World) -> None:
    ranker = IPS().fit(here.data, here.clicks, here.propensities).ranker_
    far = SparkDataset.read(session, [str(here.path)])
    with pytest.raises(UsageError, match="scored where it is"):
        ranker.predict(far)
    data, _ = far.shown(here.clicks)
    with pytest.raises(UsageError, match="the features are on Spark"):
        ranker.predict(data)


def test_missing_features_are_named_unless_trees_take_them(session: Any, here: World) -> None:
    from pyspark.sql.functions import col, expr, when

    pytest.importorskip("xgboost")
    gone = when((col("query_id") == 7) & (col("doc_id") == "3"), expr("cast(null as float)")).otherwise(col("f2"))
    far = SparkDataset(session.read.parquet(str(here.path)).withColumn("f2", gone))
    fits = {
        "linear": IPS().fit(here.data, here.clicks, here.propensities),
        "trees": IPS(model=Trees(rounds=3, validation=0.0)).fit(here.data, here.clicks, here.propensities),
    }
    assert far.scored(fits["trees"].ranker_).count() == here.data.n_rows
    with explained(), pytest.raises(Exception, match="feature 'f2' of query 7, document 3 is null"):
        far.scored(fits["linear"].ranker_).collect()


@pytest.mark.parametrize("lake", [False, True])
def test_scores_and_ranks_are_those_of_the_ranker(lake: bool, session: Any, here: World, tmp_path: Path) -> None:
    from pyspark.sql.functions import lit

    ranker = IPS().fit(here.data, here.clicks, here.propensities).ranker_
    far = SparkDataset.read(session, [str(here.path)])
    if lake:  # whose folders are columns, and not features
        far.frame.withColumn("dt", lit(20261116)).write.partitionBy("dt").parquet(str(tmp_path / "lake"))
        far = SparkDataset.read(session, [str(tmp_path / "lake")])
    scored = far.scored(ranker).toPandas()
    ids = zip(map(str, here.data.row_queries), map(str, here.data.doc_ids), strict=True)  # type: ignore[arg-type]
    scores = dict(zip(ids, ranker.predict(here.data), strict=True))
    assert len(scored) == len(scores)
    for _, row in scored.iterrows():
        assert row["score"] == pytest.approx(scores[row["query_id"], row["doc_id"]], rel=1e-6)
    with pytest.raises(UsageError, match="top"):
        far.scored(ranker, top=0)
    for _, part in scored.groupby("query_id"):
        by_rank = part.sort_values("rank")
        assert by_rank["rank"].tolist() == list(range(1, len(part) + 1))
        assert (np.diff(by_rank["score"]) <= 0).all()


def test_generated_data_say_so(session: Any, tmp_path: Any) -> None:
    from cldrank.data import synthetic

    synthetic.make("web10k-like", queries=3, seed=0).save(tmp_path / "made.parquet")
    assert SparkDataset.read(session, [str(tmp_path / "made.parquet")]).synthetic
