from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank import catalogue
from cldrank.catalogue import DataSource

Run = Callable[..., Any]


def test_show(run: Run, letor: Path) -> None:
    summary = run("show", letor, "--json").json
    assert (summary["queries"], summary["rows"], summary["features"]) == (30, 240, 3)
    assert summary["candidates"] == {"least": 8, "median": 8.0, "most": 8}
    assert sum(summary["labels"].values()) == pytest.approx(1)
    assert "RankingDataset(train: 30 queries" in run("show", letor).out


def test_convert(run: Run, letor: Path, folder: Path) -> None:
    assert run("data", "convert", letor, "--out", "a.parquet").code == 0
    np.testing.assert_array_equal(cr.load(folder / "a.parquet").features, cr.load(letor).features)
    shown = run("show", "a.parquet", "--column", "label=f1", "--column", "features=f2,f3", "--json").json
    assert shown["features"] == 2


def test_missing_values_are_filled_or_kept(run: Run, folder: Path) -> None:
    (folder / "holes.txt").write_text("1 qid:1 1:nan 2:3\n0 qid:1 1:2 2:3\n")
    refused = run("show", "holes.txt")
    assert refused.code == 1
    assert "--missing 0.0, keep them for trees with --missing keep" in refused.err
    assert run("show", "holes.txt", "--missing", "-1.5", "--json").json["missing"] == {}
    kept = run("show", "holes.txt", "--missing", "keep")
    assert "missing: f1 0.5" in kept.out
    assert "constant features: f1, f2" in kept.out
    assert run("data", "convert", "holes.txt", "--missing", "keep", "--out", "holes.parquet").code == 0
    assert cr.load(folder / "holes.parquet").has_missing
    wrong = run("show", "holes.txt", "--missing", "drop")
    assert wrong.code == 2
    assert "--missing must be a number to fill in, or 'keep', not 'drop'" in wrong.err
    assert run("show", "holes.txt", "--missing", "inf").code == 2


def test_list_and_info(run: Run) -> None:
    names = [source["key"] for source in run("data", "list", "--json").json]
    assert {"web10k", "web30k", "yahoo", "istella-s", "mq2007", "mq2008", "msrd", "ranklens"} <= set(names)
    assert "mq2008" in run("data", "list").out
    assert "15,211 rows" in run("data", "list", "mq2008").out
    assert run("data", "list", "mq2008", "--json").json["key"] == "mq2008"


def test_fetching_says_where_the_set_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(source: DataSource, **chosen: bool) -> Path:
        assert (source.key, chosen) == ("istella-s", {"accept_licence": True})
        return Path("/cache/istella-s")

    monkeypatch.setattr(catalogue, "fetch", fetch)
    command = ("data", "fetch", "istella-s", "--accept-licence")
    fetched = run(*command)
    assert fetched.out == "istella-s is in /cache/istella-s\n"
    for told in ("Istella LETOR Licence", "Cite: "):
        assert told in fetched.err
    assert run(*command, "--json").json == {"name": "istella-s", "folder": "/cache/istella-s"}


def test_a_role_that_is_named_twice_is_refused(run: Run) -> None:
    ran = run("show", "train.parquet", "--column", "query_id=a", "--column", "query_id=b")
    assert (ran.code, "query_id" in ran.err, "a and b" in ran.err) == (2, True, True), ran.err
