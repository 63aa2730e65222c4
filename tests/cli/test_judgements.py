from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import cldrank as cr
from cldrank.judgements import judge_documents

Run = Callable[..., Any]
KNOWN = ("-p", "power:1")


def test_judgements_are_those_of_the_library(run: Run, folder: Path) -> None:
    done = run("judgements", "cells.parquet", "-f", "train.parquet", *KNOWN, "-o", "out.parquet")
    assert done.code == 0, done.err
    data = cr.load(folder / "train.parquet")
    expected = judge_documents(cr.ClickTable.read(folder / "cells.parquet", data), cr.Propensities.power(1, 5))
    found = pq.read_table("out.parquet")
    assert found.to_pylist() == expected.as_table().to_pylist()
    assert "300 judgements by clicks and 180 documents never shown and unknown, of 60 queries" in done.out
    assert "within one grade" in done.out


def test_options_reach_the_library(run: Run, folder: Path) -> None:
    told = run(
        *("judgements", "cells.parquet", "-f", "train.parquet", "-p", "power:0.5", "-o", "out.parquet"),
        *("--grades", "0.3,0.6", "--confidence", "0.5", "--envelope", "off", "--json"),
    ).json
    data = cr.load(folder / "train.parquet")
    expected = judge_documents(
        cr.ClickTable.read(folder / "cells.parquet", data),
        cr.Propensities.power(0.5, 5),
        grades=(0.3, 0.6),
        confidence=0.5,
        envelope="off",
    )
    assert pq.read_table("out.parquet").to_pylist() == expected.as_table().to_pylist()
    assert told["thresholds"] == [0.3, 0.6]
    assert sum(told["grades"].values()) == told["written"] == 300
    assert told["unknown"] == 180


def test_a_raw_log_is_read_as_well(run: Run, folder: Path) -> None:
    rows = ["session_id,query_id,doc_id,position,clicked"]
    rows += [f"{s},red shoes,{d},{d},{int((s + d) % 3 == 0)}" for s in range(30) for d in (1, 2)]
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    done = run("judgements", "log.csv", *KNOWN, "-o", "out.json", "--to", "workbench", "--name", "Test")
    assert done.code == 0, done.err
    content = json.loads(Path("out.json").read_text())
    assert content["name"] == "Test"
    assert [one["query"] for one in content["judgmentRatings"]] == ["red shoes"]
    assert "this tool searches by text; if the ids are not the texts" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "xml"), "--to must be"),
        (("--grades", "0.5,x"), "--grades '0.5,x' are not numbers"),
        (("--grades", "0.5,0.2"), "rise between 0 and 1"),
        (("--query-texts", "none.csv", "--to", "quepid"), "none.csv"),
        (("--out", "cells.parquet"), "is an input"),
        (("--log-column", "segment=device"), "holds cells already"),
    ],
)
def test_wrong_calls_say_what_to_do(run: Run, options: tuple[str, ...], said: str) -> None:
    done = run("judgements", "cells.parquet", *KNOWN, "-o", "out", *options)
    assert done.code in (1, 2)
    assert said in " ".join(done.err.split())
    assert not list(Path().glob("out*"))
