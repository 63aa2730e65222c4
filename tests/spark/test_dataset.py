"""Candidates in Spark DataFrames, and their scores."""

from typing import Any

import numpy as np
import pytest
from worlds import World

from cldrank import IPS
from cldrank.errors import DataError, UsageError
from cldrank.models import Linear, Trees
from cldrank.spark import SparkDataset


def test_columns_are_found_or_named(session: Any, here: World) -> None:
    frame = session.read.parquet(str(here.path))
    assert SparkDataset(frame).feature_names == ("f1", "f2", "f3", "f4", "f5")
    other = frame.withColumnRenamed("query_id", "search").withColumnRenamed("doc_id", "sku")
    with pytest.raises(UsageError, match=r"no column .* is named query_id or qid or query; .*: query=…"):
        SparkDataset(other)
    named = SparkDataset(other, query="search", document="sku", features=["f2", "f1"], name="shop")
    assert named.feature_names == ("f2", "f1")
    assert repr(named) == "SparkDataset(shop: 2 features)"
    with pytest.raises(UsageError, match="has no column 'f9'; it has"):
        SparkDataset(frame, features=["f9"])
    with pytest.raises(UsageError, match="made of a Spark DataFrame, not of ndarray"):
        SparkDataset(np.eye(2))


@pytest.mark.parametrize("model", [Linear(), Trees(rounds=3, validation=0.0)], ids=["linear", "trees"])
def test_scores_and_ranks_are_those_of_the_ranker(model: Any, session: Any, here: World) -> None:
    if isinstance(model, Trees):
        pytest.importorskip("xgboost")
    ranker = IPS(model=model).fit(here.data, here.clicks, here.propensities).ranker_
    found = SparkDataset.read(session, [str(here.path)]).scored(ranker).toPandas()
    scores = {
        (str(query), str(document)): score
        for query, document, score in zip(
            here.data.row_queries,
            here.data.doc_ids,  # type: ignore[arg-type]
            ranker.predict(here.data),
            strict=True,
        )
    }
    assert len(found) == len(scores)
    for _, row in found.iterrows():
        assert row["score"] == pytest.approx(scores[row["query_id"], row["doc_id"]], rel=1e-6)
    for _, part in found.groupby("query_id"):
        by_rank = part.sort_values("rank")
        assert by_rank["rank"].tolist() == list(range(1, len(part) + 1))
        assert (np.diff(by_rank["score"]) <= 0).all()


def test_only_the_top_is_kept_if_asked(session: Any, here: World) -> None:
    ranker = IPS().fit(here.data, here.clicks, here.propensities).ranker_
    far = SparkDataset.read(session, [str(here.path)])
    assert far.scored(ranker, top=3).count() == 3 * here.data.n_queries
    with pytest.raises(UsageError, match="top"):
        far.scored(ranker, top=0)
    with pytest.raises(DataError, match="4 features instead of the ranker's 5"):
        SparkDataset(far.frame.drop("f5")).scored(ranker)
