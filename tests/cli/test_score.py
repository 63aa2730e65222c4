from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cldrank as cr

Run = Callable[..., Any]


@pytest.fixture
def ranker(folder: Path) -> str:
    cr.Oracle().fit(cr.load(folder / "train.parquet")).ranker_.save("ranker")
    return "ranker"


@pytest.mark.parametrize("name", ["scores.csv", "scores.parquet"])
def test_what_is_written_can_be_evaluated(run: Run, ranker: str, name: str) -> None:
    run("score", ranker, "-f", "train.parquet", "-o", name)
    said, expected = (run("evaluate", one, "-f", "train.parquet", "-m", "AP", "--json").json for one in (name, ranker))
    assert said["measures"] == expected["measures"]
    run("score", ranker, "-f", "train.parquet", "-o", name, "--top", "3")
    refused = " ".join(run("evaluate", name, "-f", "train.parquet").err.split())
    assert "has 180 scores for 480 rows." in refused


def test_the_top_of_each_query_and_json(run: Run, ranker: str) -> None:
    told = run("score", ranker, "-f", "train.parquet", "-o", "top.csv", "--top", "3", "--json").json
    counts = {"rows": 480, "queries": 60, "written": 180, "scattered": False}
    assert told | {"seconds": 0} == {"ranker": "ranker", "out": "top.csv", **counts, "seconds": 0}
    with Path("top.csv").open(newline="") as file:
        assert {row["rank"] for row in csv.DictReader(file)} == {"1", "2", "3"}
    shown = run("score", ranker, "-f", "train.parquet", "-o", "top.csv", "--top", "3")
    assert "scored 480 rows of 60 queries" in shown.out
    assert "of which 180 are kept" in shown.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-f", "train.parquet", "-o", "scores.txt"], 2, "must end in .parquet or .csv"),
        (["-f", "train.parquet", "-o", "train.parquet"], 2, "is an input and would be overwritten"),
        (["-f", "train.parquet", "-o", "scores.csv", "--top", "0"], 2, "--top must be a whole number of at least 1"),
        (["-f", "cells.parquet", "-o", "scores.csv"], 1, "holds counts of clicks, not features"),
    ],
)
def test_refused_in_one_or_two_lines(run: Run, ranker: str, arguments: list[str], code: int, message: str) -> None:
    ended = run("score", ranker, *arguments)
    assert (ended.code, message in " ".join(ended.err.split())) == (code, True), ended.err
    assert len(ended.err.strip().splitlines()) <= 2
    assert not Path("scores.csv").exists()
