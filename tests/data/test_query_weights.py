"""Weights of queries: how much each counts in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.data.query_weights import load_query_weights
from cldrank.errors import CldrankError, DataError, FormatError, UsageError
from cldrank.methods import Method

DATA = cr.RankingDataset.from_arrays(np.tile(np.eye(2), (40, 1)), np.arange(80) // 2, [1, 0] * 40)
CLICKS = cr.ClickTable.from_arrays(  # odd queries prefer the first candidate, even ones the second
    DATA, position=[1, 2] * 40, impressions=[50] * 80, clicks=[10, 10, 20, 5] * 20
)
RHO = cr.Propensities.power(1, 2)
TREES = cr.Trees(rounds=20, min_weight=0, validation=0)


def weighted(odd: float) -> cr.RankingDataset:
    return DATA.weighted({query: odd if query % 2 else 1.0 for query in DATA.query_ids.tolist()})


@pytest.mark.parametrize(
    "method",
    [
        cr.CLDPair(model=cr.MLP(hidden=(4,), epochs=60, dropout=0.0)),
        cr.CLDPair(model=cr.Linear()),
        cr.CLDPair(model=TREES),
        cr.IPS(model=cr.Linear()),
        cr.InterventionAware(),
    ],
    ids=repr,
)
def test_the_heavier_queries_decide(method: Method) -> None:
    first, second = method.fit(weighted(10.0), CLICKS, RHO).predict(DATA)[:2]
    assert first > second
    first, second = method.fit(weighted(0.1), CLICKS, RHO).predict(DATA)[:2]
    assert first < second


def test_labels_heed_them() -> None:
    data = cr.RankingDataset.from_arrays([[1.0], [0.0]] * 2, [1, 1, 2, 2], [1, 0, 0, 1])
    fitted = cr.Oracle(model=cr.Linear(l2=0)).fit(data.weighted({2: 3.0}))
    first, second = fitted.predict(data)[:2]
    assert first - second == pytest.approx((1 - 3) / 4)


def test_they_go_with_the_queries() -> None:
    data = DATA.weighted({3: 7.0})
    assert data[[5, 3]].query_weights is not None
    np.testing.assert_array_equal(data[[5, 3]].query_weights, [1, 7])
    assert data.fingerprint != DATA.fingerprint
    assert [np.asarray(part.query_weights).sum() for part in data.blocks(80)] == [46 / 2 + 3, 20]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({0: -1.0}, "query 0 is -1; "),
        ({0: 0.0}, "above 0"),
        ({0: np.nan}, "finite"),
        ({99: 1.0}, "query 99, which"),
        ({0: "x"}, "numbers"),
    ],
)
def test_others_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        DATA.weighted(weights)


def test_what_would_lose_them_refuses_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="save the data without"):
        weighted(2.0).save(tmp_path / "data.parquet")
    with pytest.raises(UsageError, match="takes no `query_weights`"):
        cr.SVMRank(fraction=1).fit(weighted(2.0))


@pytest.mark.parametrize(
    ("name", "text", "kind", "message"),
    [
        ("a.csv", "query_id,wait\n1,2\n", FormatError, "'weight'"),
        ("a.csv", "query_id,weight\n1,2\n1,3\n", FormatError, "query 1 has two weights"),
        ("a.csv", "query_id,weight\n1,much\n", CldrankError, "much"),
        ("a.txt", "1 2\n", FormatError, "it has none"),
    ],
)
def test_files_that_do_not_say_weights_are_refused(
    tmp_path: Path, name: str, text: str, kind: type[Exception], message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(kind, match=message):
        load_query_weights(tmp_path / name)
