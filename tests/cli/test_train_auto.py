"""`cldrank train auto`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.cli.train import TrainAutoCommand

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet")


def test_says_why_trains_and_remembers(run: Run, data: cr.RankingDataset, clicks: cr.ClickTable) -> None:
    done = run("train", "auto", *FROM, "--export-to", "solr", "--hold-out", "0.2", "--seed", "3", "-o", "ranker")
    assert done.code == 0, done.err
    choice = cr.auto(data, clicks, export_to="solr", run=cr.Run(seed=3))
    assert done.out.startswith(f"{choice.reason}\n")
    held = cr.held_out(data.query_ids, 0.2)
    expected = choice.method.fit(data[~held], clicks[~held], choice.propensities)
    ranker = cr.load_ranker("ranker")
    np.testing.assert_array_equal(ranker.predict(data), expected.predict(data))
    assert ranker.provenance.chosen == choice.reason
    assert ranker.provenance.command.startswith("cldrank train auto --features train.parquet")
    assert "--export-to solr" in ranker.provenance.command
    assert choice.reason in Path("ranker/README.md").read_text()


def test_the_reason_is_in_json(run: Run) -> None:
    facts = run("train", "auto", *FROM, "-p", "power:1.0", "-o", "ranker", "--json").json
    assert (facts["method"], facts["chosen"][:15]) == ("cld-pair", "CLD-pair, since")
    assert run("train", "naive", *FROM, "-o", "other", "--json").json["chosen"] is None
    assert "Chosen by" not in Path("other/README.md").read_text()


def test_naive_gets_propensities_only_for_a_safe_blend(
    data: cr.RankingDataset, clicks: cr.ClickTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cldrank.method_choice._SHOWN", 0.5)
    none, kind = cr.Propensities.power(0, 5), TrainAutoCommand
    for safe, expected in ((True, none), (False, None)):
        named: Any = {"features": ["train.parquet"], "out": Path("ranker"), "safe": safe, "as_json": True}
        choice = kind(**named).choose(data, clicks, none)
        assert (choice.method.name, choice.propensities) == ("naive", expected)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("auto learns from clicks; name them with --clicks", FROM[:2]),
        ("--export-to takes elasticsearch, onnx, opensearch, solr or vespa, not 'x'", (*FROM, "--export-to", "x")),
        ("--safe-margin is for --safe", (*FROM, "--safe-margin", "0.1")),
        ("No such option '--engine'", (*FROM, "--engine", "spark")),
        ("--seed must be", (*FROM, "--seed", "one")),
    ],
)
def test_what_does_not_fit_is_refused(run: Run, message: str, call: tuple[str, ...]) -> None:
    ran = run("train", "auto", *call, "-o", "ranker")
    assert (ran.code, message in " ".join(ran.err.split())) == (2, True), ran
    assert not Path("ranker").exists()
