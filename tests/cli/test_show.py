"""`cldrank show`: what a path holds is recognised by its content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.export import export_ranker

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
        (2, "train.parquet holds candidates; --plot draws propensities", ["train.parquet", "--plot", "x.svg"]),
        (2, "holds cells; --out writes", ["cells.parquet", "--out", "x.parquet"]),
        (2, "are shown one at a time", ["cells.parquet", "train.parquet"]),
    ]
    (folder / "empty").mkdir()
    for code, message, call in [*cases, (1, "the folder holds no file", ["empty"])]:
        ran = run("show", *call)
        assert (ran.code, message in ran.err) == (code, True), ran


def test_what_other_commands_show_is_named(run: Run, data: cr.RankingDataset, folder: Path) -> None:
    ranker = cr.Oracle().fit(data).ranker_
    ranker.save("shipped/ranker")
    (folder / "shipped" / "shipped.json").write_text("{}")
    export_ranker(ranker, "json", folder / "plain.json")
    export_ranker(ranker, "opensearch", folder / "engine")
    (folder / "runs" / "one").mkdir(parents=True)
    (folder / "runs" / "steps").mkdir()
    (folder / "runs" / "one" / "record.json").write_text("{}")
    (folder / "pipeline.toml").touch()
    (folder / "audit.html").touch()
    (folder / "log.csv").write_text("session_id,query_id,doc_id,position,clicked\n1,a,b,1,0\n")
    exported = "as `cldrank export` wrote it"
    for path, words in {
        "runs": "see `cldrank pipeline show`",
        "runs/one": "see `cldrank pipeline show runs/one`",
        "shipped": "see `cldrank show shipped/ranker`",
        "plain.json": exported,
        "engine": exported,
        "engine/model.json": exported,
        "pipeline.toml": "see `cldrank pipeline show pipeline.toml`",
        "audit.html": "open it in a browser",
        "log.csv": "log.csv looks like a click log; see `cldrank clicks audit log.csv`",
    }.items():
        ran = run("show", path)
        assert (ran.code, words in ran.err) == (2, True), ran
    assert "shipped/ranker is a ranker; --plot draws" in run("show", "shipped/ranker", "--plot", "z.svg").err


def test_a_feature_that_is_text_names_the_way_out(run: Run, folder: Path) -> None:
    (folder / "shop.csv").write_text("query_id,price,brand\n1,2,acme\n")
    assert "choose the feature columns with --column features=a,b,c" in run("show", "shop.csv").err
