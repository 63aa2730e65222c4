from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import cldrank as cr
from cldrank.errors import DataError, UsageError


@pytest.fixture
def data() -> cr.RankingDataset:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((600, 3))
    labels = np.clip(np.rint(features[:, 0] + rng.standard_normal(600) * 0.5 + 1), 0, 4)
    return cr.RankingDataset.from_arrays(features, np.repeat(np.arange(60), 10), labels, name="toy", synthetic=True)


def test_any_kind_of_model_gives_the_same(data: cr.RankingDataset) -> None:
    oracle = cr.Oracle(model=cr.Linear(l2=0, scaling=None)).fit(data)
    foreign = LinearRegression().fit(data.features, data.labels)
    means = [
        cr.evaluate(model, data, "nDCG@3")["nDCG@3"]
        for model in (oracle, oracle.ranker_, oracle.predict(data), foreign, list(oracle.predict(data)))
    ]
    assert means == pytest.approx([means[0]] * 5, abs=1e-12)
    assert means[0] > 0.8


def test_an_evaluation_is_a_mapping_that_prints(data: cr.RankingDataset) -> None:
    result = cr.evaluate(data.features[:, 0], data, ["ndcg@3", "MAP(rel=2)"])
    assert list(result) == ["nDCG@3", "AP(rel=2)"]
    assert result["NDCG@3"] == result["nDCG@3"]
    assert "toy (synthetic), 60 queries" in str(result)
    for measure, interval in result.intervals.items():
        assert interval.low < result[str(measure)] < interval.high
    with pytest.raises(KeyError, match="there are nDCG@3, AP"):
        result["AP"]


def test_queries_without_relevant_documents() -> None:
    data = cr.RankingDataset.from_arrays(np.ones((4, 1)), [1, 1, 2, 2], labels=[1, 1, 0, 0])
    assert cr.evaluate([1, 0, 1, 0], data, "AP")["AP"] == 0.5
    assert cr.evaluate([1, 0, 1, 0], data, "AP", empty="skip")["AP"] == 1


def test_one_query_has_a_mean_but_no_interval() -> None:
    data = cr.RankingDataset.from_arrays(np.ones((2, 1)), [1, 1], labels=[1, 0])
    result = cr.evaluate([1, 0], data, "RR")
    assert result["RR"] == 1
    assert result.as_dict()["measures"]["RR"] == {"mean": 1}


def test_compare_is_antisymmetric_and_finds_the_better(data: cr.RankingDataset) -> None:
    good, bad = data.features[:, 0], data.features[:, 1]
    forth, back = cr.compare(good, bad, data, "nDCG@5"), cr.compare(bad, good, data, "nDCG@5")
    assert forth["nDCG@5"].difference == -back["nDCG@5"].difference > 0.2
    assert forth["nDCG@5"].p_value < 0.001
    assert forth["nDCG@5"].difference == pytest.approx(forth.evaluations[0]["nDCG@5"] - forth.evaluations[1]["nDCG@5"])
    assert cr.compare(good, good, data, "AP")["AP"].p_value == 1
    assert "new against old on toy (synthetic), 60 queries" in str(forth)


def test_a_comparison_as_plain_values_is_that_of_clicks(data: cr.RankingDataset) -> None:
    good, bad = data.features[:, 0], data.features[:, 1]
    values = cr.compare(good, bad, data, "nDCG@5", names=("trees", "before")).as_dict()
    assert (values["new"], values["old"], values["data"], values["synthetic"]) == ("trees", "before", "toy", True)
    first = values["measures"]["nDCG@5"]
    assert first["difference"] == pytest.approx(first["new"] - first["old"])
    assert first["low"] <= first["difference"] <= first["high"]
    assert first["confidence"] == 0.9


def test_refusals(data: cr.RankingDataset) -> None:
    unlabelled = cr.RankingDataset.from_arrays(np.ones((2, 1)), [1, 1])
    cases: list[tuple[Any, cr.RankingDataset, Any, type[Exception], str]] = [
        ([1, 2], unlabelled, "AP", DataError, "has no labels"),
        ([1, 2], data, "AP", DataError, "600"),
        (np.full(600, np.nan), data, "AP", DataError, "NaN|nan"),
        (object(), data, "AP", UsageError, "object cannot score"),
        (data.features[:, 0], data, "nDGC@3", UsageError, "no measure"),
        (data.features[:, 0], data[:0], "AP", DataError, "no queries"),
    ]
    for model, dataset, measure, kind, message in cases:
        with pytest.raises(kind, match=message):
            cr.evaluate(model, dataset, measure)
