from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import cldrank as cr

Run = Callable[..., Any]


@pytest.fixture
def data(folder: Path) -> cr.RankingDataset:
    return cr.load(folder / "train.parquet")


@pytest.mark.parametrize("model", [cr.Trees(rounds=5, min_weight=0.5), cr.Linear()])
def test_features_by_what_they_contribute(run: Run, data: cr.RankingDataset, model: Any) -> None:
    fitted = cr.Oracle(model=model).fit(data)
    fitted.ranker_.save("ranker")
    expected = fitted.ranker_.explain(data)
    shown = run("explain", "ranker", "-f", "train.parquet", "--out", "all.parquet", "--top", "2")
    assert shown.code == 0, shown.err
    assert ("share of gain" in shown.out) == isinstance(model, cr.Trees)
    assert f"{data.n_features - 2} more features contribute less" in shown.err
    first = expected.ordered()[0]
    assert first["feature"] in shown.out
    assert f"{first['mean']:.4g}" in shown.out
    told = run("explain", "ranker", "-f", "train.parquet", "--json").json
    assert [one["feature"] for one in told["features"]] == [one["feature"] for one in expected.ordered()]
    assert told["rows"] == data.n_rows
    assert (
        run("explain", "ranker", "-f", "train.parquet", "--json", "--top", "2").json["features"] == told["features"][:2]
    )
    table = pq.read_table("all.parquet")
    assert table.num_rows == data.n_rows
    np.testing.assert_allclose(table["score"], fitted.predict(data), rtol=1e-4, atol=1e-4)
    name = data.feature_names[0]
    np.testing.assert_array_equal(table[f"feature {name}"], expected.values[:, 0])


def test_what_cannot_be_explained_is_refused(run: Run, data: cr.RankingDataset) -> None:
    cr.Oracle(model=cr.MLP(hidden=(4,), epochs=1)).fit(data).ranker_.save("network")
    refused = run("explain", "network", "-f", "train.parquet")
    assert refused.code == 2
    assert "a NetworkRanker cannot say what each feature contributes" in refused.err
    wrong = run("explain", "network", "-f", "train.parquet", "--out", "all.csv")
    assert wrong.code == 2
    assert "must end in .parquet" in wrong.err
    assert run("explain", "nowhere", "-f", "train.parquet").code == 2
