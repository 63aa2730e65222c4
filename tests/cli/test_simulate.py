from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cldrank import ClickTable, load
from cldrank.clicks.simulate import load_truth
from cldrank.clicks.simulate.click_models import MODELS
from cldrank.clicks.simulate.policies import POLICIES
from cldrank.parameters import parameters

Simulate = Callable[..., str]


@pytest.fixture
def simulate(run: Callable[..., Any], folder: Path) -> Simulate:
    """`cldrank simulate` beside 40 labelled queries: what it printed or, where it should fail, the complaint."""
    random = np.random.default_rng(0)
    rows = [f"{int(4 * x)} qid:{query} 1:{x:.4f} 2:{y:.4f}" for query in range(40) for x, y in random.random((8, 2))]
    (folder / "train.txt").write_text("\n".join(rows) + "\n")

    def call(*arguments: str, fails: int = 0) -> str:
        ran = run("simulate", *arguments)
        assert ran.code == fails, ran.err
        return str(ran.err if fails else ran.out)

    return call


def test_cells_and_the_truth_beside_them(simulate: Simulate) -> None:
    result = json.loads(
        simulate(
            "train.txt", "--sessions", "1e5", "--eta", "0.5", "--depth", "3", "--noise", "0.2", "--out", "c.parquet",
            "--fraction", "0.1", "--seed", "4", "--json",
        )
    )  # fmt: skip
    table = ClickTable.read("c.parquet", load("train.txt"))
    assert table.impressions.sum() == 300_000
    assert [entry["impressions"] for entry in result["by_position"]] == [100_000] * 3
    assert sum(entry["clicks"] for entry in result["by_position"]) == table.clicks.sum()
    truth = load_truth("c.parquet")
    assert truth == result["truth"]
    assert truth["model"] == {"name": "pbm", "eta": 0.5, "noise": 0.2}
    assert (truth["sessions"], truth["seed"], truth["drawn"]) == (100_000, 4, "counted")
    expected = {
        "kind": "svm", "rows": 32, "fraction": 0.1, "C": 0.01, "max_pairs": 20_000,
        "model": "Linear", "model__scaling": "standard", "run__seed": 4,
    }  # fmt: skip
    assert {name: truth["production"][name] for name in expected} == expected
    assert truth["production"]["pairs"] > 0


def test_a_log_and_its_cells(simulate: Simulate) -> None:
    printed = simulate(
        "train.txt", "--sessions", "2000", "--out", "cells.parquet", "--log", "log.parquet", "--policy", "first-swaps",
        "--probability", "0.3", "--positions", "2,4", "--production", "column:f2",
    )  # fmt: skip
    assert "2,000 sessions on train, 40 queries; relevant: label 3 or more" in printed
    assert "wrote log.parquet, and the truth about it in log.parquet.json" in printed
    data = load("train.txt")
    cells, aggregated = ClickTable.read("cells.parquet", data), ClickTable.read("log.parquet", data)
    np.testing.assert_array_equal(cells.clicks, aggregated.clicks)
    np.testing.assert_array_equal(cells.impressions, aggregated.impressions)
    assert set(pq.read_table("log.parquet")["ranker_id"].to_pylist()) == {"production", "swap-1-2", "swap-1-4"}
    assert load_truth("log.parquet") == load_truth("cells.parquet")
    assert load_truth("log.parquet")["policy"] == {"name": "first-swaps", "probability": 0.3, "positions": [2, 4]}


def test_logs_of_two_devices_are_read_together(simulate: Simulate) -> None:
    for seed, device in enumerate(("phone", "desktop")):
        given = ("--add-column", f"device={device}", "--seed", str(seed), "--policy", "neighbour-swaps")
        simulate("train.txt", "--sessions", "2000", "-k", "3", "--log", f"{device}.parquet", *given)
    logs = [pq.read_table(f"{device}.parquet") for device in ("phone", "desktop")]
    assert logs[0]["session_id"][0].as_py() == "phone-0"
    assert set(logs[0]["device"].to_pylist()) == {"phone"}
    assert not set(logs[0]["session_id"].to_pylist()) & set(logs[1]["session_id"].to_pylist())
    table = ClickTable.read(["phone.parquet", "desktop.parquet"], load("train.txt"), columns={"segment": "device"})
    assert {name: part.impressions.sum() for name, part in table.by_segment().items()} == {
        "phone": 6000,
        "desktop": 6000,
    }
    for named in ("device", "device=phone"):  # not of the form COLUMN=VALUE; cells have no such column
        assert named in simulate("train.txt", "--out", "c.parquet", "--add-column", named, fails=2)


def test_production_rankers(simulate: Simulate, tmp_path: Path) -> None:
    simulate("train.txt", "--out", "a.parquet", "--fraction", "0.5", "--save-production", "ranker")
    simulate("train.txt", "--out", "b.parquet", "--production", "ranker")
    one, two = ClickTable.read("a.parquet"), ClickTable.read("b.parquet")
    np.testing.assert_array_equal(one.clicks, two.clicks)
    assert load_truth("b.parquet")["production"]["kind"] == "ranker"
    assert load_truth("b.parquet")["production"]["estimator"] == "SVMRank"
    np.savetxt(tmp_path / "scores.txt", load("train.txt").features[:, 1])
    simulate("train.txt", "--out", "c.parquet", "--production", "scores.txt")
    simulate("train.txt", "--out", "d.parquet", "--production", "column:f2")
    np.testing.assert_array_equal(ClickTable.read("c.parquet").row, ClickTable.read("d.parquet").row)


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ([], 2, "--out FILE"),
        (["--out", "."], 2, "is a folder; name a file"),
        (["--out", "c", "--depth", "0"], 2, "--depth"),
        (["--out", "c", "--click-model", "cascade", "--eta", "1"], 2, "--click-model cascade has no option --eta"),
        (["--out", "c", "--share", "1"], 2, "--policy top has no option --share"),
        (["--out", "c", "--production", "column:f9"], 2, "'f9'"),
        (["--out", "c", "--relevant-from", "9"], 1, "no label reaches 9"),
    ],
)
def test_mistakes_are_explained(simulate: Simulate, options: list[str], code: int, complaint: str) -> None:
    assert complaint in simulate("train.txt", *options, fails=code)
    assert not Path("c").exists()


def test_candidates_without_labels_are_named_with_the_remedy(simulate: Simulate, folder: Path) -> None:
    (folder / "features.csv").write_text("query_id,doc_id,price,grade\n7,a,0.5,1\n7,b,0.25,0\n")
    said = " ".join(simulate("features.csv", "--out", "c.parquet", fails=1).split())
    assert "features.csv has no labels; name their column with --column label=…." in said
    with_labels = ("--column", "label=grade", "--production", "column:price", "--depth", "2")
    assert "wrote c.parquet" in simulate("features.csv", "--out", "c.parquet", *with_labels)


def test_options_come_from_models_and_policies(simulate: Simulate) -> None:
    shown = simulate("--help")
    for kind in (*MODELS, *POLICIES):
        assert kind.name in shown
        for name in parameters(kind):
            assert f"--{name.replace('_', '-')}" in shown
    for panel in ("Who clicks", "What is shown", "The production ranker"):
        assert panel in shown
