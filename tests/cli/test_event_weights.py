"""--event-weight, from a simulated log to a verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cldrank.pipeline import read_pipeline

WEIGHTS = ("--event-weight", "click=1", "--event-weight", "purchase=10")


@pytest.fixture
def log(run: Callable[..., Any]) -> str:
    made = run(
        "simulate", "train.parquet", "--sessions", "4000", "--log", "log.parquet", "--production", "column:f1",
        "--event", "purchase=0.3", "--json",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert made.json["truth"]["events"] == {"purchase": 0.3}, made.err
    return "log.parquet"


@pytest.mark.filterwarnings("ignore:good.txt does not say")
def test_from_a_log_to_a_verdict(run: Callable[..., Any], log: str) -> None:
    made = run("clicks", "aggregate", log, "-f", "train.parquet", "-o", "events.parquet", *WEIGHTS, "--json").json
    assert 0 < made["purchase"] < made["clicks"]
    assert run("show", "events.parquet", "--json").json["purchase"] == made["purchase"]
    audited = run("clicks", "audit", log, "-f", "train.parquet", *WEIGHTS, "--json").json
    assert audited["events"] == {"purchase": made["purchase"]}
    np.savetxt("good.txt", -np.arange(480) % 8)
    judging = ("compare", "good.txt", "production", "-f", "train.parquet", "-p", "power:1", "--json")
    for clicks, more, worth in (
        ("events.parquet", (), f"click ({made['clicks']:,}, weight 1), purchase ({made['purchase']:,}, weight 10)"),
        ("events.parquet", ("--event-weight", "purchase=2"), f"purchase ({made['purchase']:,}, weight 2)"),
        (log, WEIGHTS[2:], f"purchase ({made['purchase']:,}, weight 10)"),
        (log, (), ""),
    ):
        ran = run(*judging, "-c", clicks, *more)
        assert ran.json["support"]["events"] == worth, ran.err
    trained = run("train", "ips", "-f", "train.parquet", "-c", "events.parquet", "-p", "power:1", "-o", "ranker")
    assert trained.code == 0, trained.err
    assert "purchase (" in Path("ranker/README.md").read_text()


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (("purchase",), "NAME=NUMBER"),
        (("purchase=many",), "NAME=NUMBER"),
        (("purchase=1", "purchase=2"), "two numbers"),
        (("purchase=-1",), "--event-weight must be a number of at least 0"),
        (("refund=1",), "--log-column refund="),
    ],
)
def test_senseless_weights_are_refused(run: Callable[..., Any], log: str, weights: Any, words: str) -> None:
    options = [part for weight in weights for part in ("--event-weight", weight)]
    ran = run("clicks", "aggregate", log, "-o", "events.parquet", *options)
    assert ran.code != 0
    assert words in " ".join(ran.err.split())


def test_a_pipeline_takes_them(tmp_path: Path) -> None:
    text = 'log.files = "log.csv"\nfeatures.files = "train.csv"\n[log.event_weights]\nclick = 1\npurchase = 10\n'
    (tmp_path / "pipeline.toml").write_text(text)
    assert read_pipeline(tmp_path / "pipeline.toml").options["log"]["event_weights"] == {"click": 1, "purchase": 10}
