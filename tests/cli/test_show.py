"""`cldrank show`: what a path holds is recognised by its content."""

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
    shown = run("show", "ranker", "-f", "train.parquet", "--out", "all.parquet")
    assert shown.code == 0, shown.err
    assert ("share of gain" in shown.out) == isinstance(model, cr.Trees)
    first = expected.ordered()[0]
    assert first["feature"] in shown.out
    assert f"{first['mean']:.4g}" in shown.out
    told = run("show", "ranker", "-f", "train.parquet", "--json").json
    assert [one["feature"] for one in told["features"]] == [one["feature"] for one in expected.ordered()]
    assert told["rows"] == data.n_rows
    table = pq.read_table("all.parquet")
    assert table.num_rows == data.n_rows
    np.testing.assert_allclose(table["score"], fitted.predict(data), rtol=1e-4, atol=1e-4)
    name = data.feature_names[0]
    np.testing.assert_array_equal(table[f"feature {name}"], expected.values[:, 0])


def test_what_cannot_be_explained_is_refused(run: Run, data: cr.RankingDataset) -> None:
    cr.Oracle(model=cr.MLP(hidden=(4,), epochs=1)).fit(data).ranker_.save("network")
    refused = run("show", "network", "-f", "train.parquet")
    assert refused.code == 2
    assert "a NetworkRanker cannot say what each feature contributes" in refused.err
    wrong = run("show", "network", "-f", "train.parquet", "--out", "all.csv")
    assert wrong.code == 2
    assert "must end in .parquet" in wrong.err
    assert run("show", "nowhere", "-f", "train.parquet").code == 2


def test_features_beyond_the_first_twenty_are_counted(run: Run) -> None:
    random = np.random.default_rng(0)
    features = np.hstack([random.normal(size=(40, 21)), np.zeros((40, 2))])
    wide = cr.RankingDataset.from_arrays(features, np.repeat(np.arange(10), 4), random.integers(0, 2, 40))
    wide.save("wide.parquet")
    cr.Oracle().fit(wide).ranker_.save("ranker")
    shown = run("show", "ranker", "-f", "wide.parquet")
    assert "3 more features contribute less, 2 of them nothing; --json lists them." in shown.err


def test_each_kind_by_its_content(run: Run, data: cr.RankingDataset) -> None:
    cr.Oracle().fit(data).ranker_.save("ranker")
    cr.Propensities.power(1.0, 5).save("rho.json")
    kinds = {"train.parquet": "data", "cells.parquet": "cells", "rho.json": "curves", "ranker": "ranker"}
    for path, kind in kinds.items():
        assert run("show", path, "--json").json["kind"] == kind
        assert run("show", path).out
    assert run("show", "ranker", "--json").json["provenance"]["estimator"] == "Oracle"


def test_what_is_none_of_them_is_refused(run: Run, folder: Path) -> None:
    cases = [
        (2, "absent", ["absent"]),
        (2, "holds data, which --plot is not for", ["train.parquet", "--plot", "x.svg"]),
        (2, "holds cells, which --out is not for", ["cells.parquet", "--out", "x.parquet"]),
        (2, "are shown one at a time", ["cells.parquet", "train.parquet"]),
    ]
    (folder / "empty").mkdir()
    for code, message, call in [*cases, (1, "the folder holds no file", ["empty"])]:
        ran = run("show", *call)
        assert (ran.code, message in ran.err) == (code, True), ran
