"""`compare` and `evaluate` by clicks alone: what is printed and written, exit codes, refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr

pytestmark = pytest.mark.filterwarnings("always:.* does not say which queries its ranker was trained on")
Run = Callable[..., Any]
LOG = ["--features", "train.parquet", "--clicks", "cells.parquet", "--propensity", "power:1"]


@pytest.fixture
def scores(folder: Path) -> cr.RankingDataset:
    """Files of scores: good.txt and same.txt, bad.txt (the reverse), noise.txt and another.txt (both random)."""
    data = cr.load(folder / "train.parquet")
    good = data.features[:, 0] + 0.5 * data.features[:, 1]
    files = {"good": good, "same": good, "bad": -good, "noise": data.features[:, 2], "another": data.features[:, 3]}
    for name, values in files.items():
        np.savetxt(folder / f"{name}.txt", values)
    return data


def test_a_verdict_is_printed_and_written(run: Run, scores: cr.RankingDataset, folder: Path) -> None:
    ran = run("compare", "good.txt", "production", *LOG, "--html", "out.html")
    assert ran.code == 0
    for words in (
        "good.txt against production on train, by clicks alone",
        "60 queries, 2,400 pages, 12,000 impressions",
        "power law, eta 1 (without intervals",
        "90% interval",
        "What the log can see",
        "Never-shown results",
        "would be better even if none of them were relevant",
        "η + 0.5",
        "passed: it must not gain anything there, and a loss is harmless",
        "Verdict: better",
    ):
        assert words in ran.out
    assert "wrote out.html" in ran.err
    assert "good.txt is better than production" in (folder / "out.html").read_text(encoding="utf-8")

    written = run("compare", "good.txt", "production", *LOG, "--json").json
    clicks = cr.ClickTable.read(folder / "cells.parquet", scores)
    assert written["verdict"] == "better"
    assert list(written["measures"]) == ["DCG@5", "Clicks@5"]
    # production's expected clicks per page are those that it had
    assert written["measures"]["Clicks@5"]["old"] == pytest.approx(clicks.clicks.sum() / 2400)
    good = np.loadtxt(folder / "good.txt")
    rho = cr.Propensities.power(1, 5)
    expected = cr.compare(good, "production", scores, clicks=clicks, propensities=rho)
    for name, pair in expected.measures.items():
        found = written["measures"][name]
        interval = pair.interval
        assert found["difference"] == pytest.approx(found["new"] - found["old"])
        assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(
    ("new", "old", "code", "verdict"),
    [
        ("good.txt", "production", 0, "better"),
        ("production", "good.txt", 3, "worse"),
        ("good.txt", "same.txt", 4, "no difference larger than 0.1"),
        ("noise.txt", "another.txt", 5, "cannot tell"),
    ],
)
def test_the_exit_code_is_the_verdict(
    run: Run, scores: cr.RankingDataset, new: str, old: str, code: int, verdict: str
) -> None:
    ran = run("compare", new, old, *LOG, "--margin", "0.1", "--json")
    assert (ran.code, ran.json["verdict"]) == (code, verdict)
    assert ran.json["margin"] == 0.1


def test_options_reach_the_judge(run: Run, scores: cr.RankingDataset) -> None:
    common = ["compare", "good.txt", "production", *LOG, "--json", "-m", "Clicks,DCG@3"]
    found = run(*common, "--confidence", "0.5", "--estimator", "affine").json
    assert list(found["measures"]) == ["Clicks@5", "DCG@3"]
    assert found["measures"]["Clicks@5"]["confidence"] == 0.5
    assert found["estimator"] == "affine IPS"
    assert [check["name"] for check in found["checks"]] == ["η + 0.5", "η − 0.5"]
    assert run(*common, "--trust-propensity").json["checks"] == []


@pytest.mark.filterwarnings("always")
def test_queries_trained_on_are_left_out_and_said_to_be(run: Run, folder: Path) -> None:
    run("train", "cld", *LOG, "--out", "held", "--hold-out", "0.5")
    ran = run("compare", "held", "production", *LOG)
    assert re.search(r"clicks; \d+ queries left out, since a ranker was trained on them", ran.out)
    run("train", "cld", *LOG, "--out", "all")
    refused = run("evaluate", "all", *LOG)
    assert refused.code == 1
    assert "train --hold-out 0.2" in refused.err


@pytest.mark.filterwarnings("always")
def test_scores_do_not_say_what_they_were_trained_on(run: Run, scores: cr.RankingDataset) -> None:
    said = "warning: good.txt does not say which queries its ranker was trained on"
    for arguments in (["compare", "production", "good.txt"], ["evaluate", "good.txt"]):
        assert run(*arguments, *LOG).err.count(said) == 1
    alone = run("compare", "good.txt", "same.txt", *LOG).err
    assert alone.count(f"{said}, so none is left out;") == 1
    run("train", "cld", *LOG, "--out", "held", "--hold-out", "0.5")
    beside = run("compare", "good.txt", "held", *LOG)
    assert beside.err.count(f"{said}, so only those of the other rankers are left out;") == 1
    assert "left out, since a ranker was trained on them" in beside.out
    assert said not in run("evaluate", "good.txt", *LOG[:2]).err  # by labels all queries count
    assert "does not say" not in run("evaluate", "production", *LOG).err


@pytest.mark.filterwarnings("always")
def test_a_margin_in_percent_is_doubted(run: Run, scores: cr.RankingDataset) -> None:
    ran = run("compare", "good.txt", "production", *LOG, "--margin", "5")
    assert re.search(r"--margin 5 is more than the DCG@5 of production itself, \d\.\d+; it is a diff", ran.err)
    assert "--margin" not in run("compare", "good.txt", "production", *LOG, "--margin", "0.5").err


def test_several_rankers_against_the_last(run: Run, scores: cr.RankingDataset, folder: Path) -> None:
    named = ["noise.txt", "good.txt", "bad.txt", "production"]
    ran = run("compare", *named, *LOG, "--html", "out.html")
    assert (ran.code, "Verdict: try good.txt first: better" in ran.out) == (0, True)
    assert "good.txt is better than production" in (folder / "out.html").read_text(encoding="utf-8")
    written = run("compare", *named, *LOG, "--json").json
    assert (written["try_first"], written["old"], written["decision"]) == ("good.txt", "production", "better")
    assert list(written["rankers"]) == named[:-1]
    worst = run("compare", "bad.txt", "noise.txt", "good.txt", *LOG, "--margin", "0.01", "--json")
    assert (worst.code, worst.json["try_first"], worst.json["decision"]) == (3, None, "worse")
    open_one = run("compare", "bad.txt", "another.txt", "noise.txt", *LOG, "--json")
    assert (open_one.code, open_one.json["try_first"]) == (5, "another.txt")

    by_labels = run("compare", "bad.txt", "good.txt", "noise.txt", *LOG[:2], "-m", "AP", "--json")
    assert (by_labels.code, by_labels.json["try_first"]) == (0, "good.txt")
    assert (
        "good.txt is better than noise.txt, by AP"
        in run("compare", "bad.txt", "good.txt", "noise.txt", *LOG[:2], "-m", "AP").out
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["good.txt", *LOG], "good.txt would be compared with nothing"),
        (["good.txt", "bad.txt", "./bad.txt", *LOG], "./bad.txt would be compared with itself"),
        (["good.txt", "production", *LOG[:4]], "--propensity"),
        (["good.txt", "bad.txt", *LOG[:2], *LOG[4:]], "--propensity"),
        (["good.txt", "bad.txt", *LOG[:2], "--margin", "0", "--html", "o"], "--margin"),
        (["good.txt", "bad.txt", *LOG[:2], "--event-weight", "cart=2"], "--event-weight is of use with clicks alone"),
        (["good.txt", "bad.txt", *LOG, "--skip-empty"], "--skip-empty"),
        (["good.txt", "bad.txt", *LOG, "--depth", "6"], "--depth 6"),
        (["good.txt", "bad.txt", *LOG, "--html", "good.txt"], "good.txt is an input"),
        (["good.txt", "old", *LOG, "--html", "old/out.html"], "lies in the folder of the ranker (old)"),
    ],
)
def test_refusals(run: Run, scores: cr.RankingDataset, arguments: list[str], said: str) -> None:
    ran = run("compare", *arguments)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert ran.out == ""


def test_one_ranker_by_clicks(run: Run, scores: cr.RankingDataset) -> None:
    shown = run("evaluate", "good.txt", *LOG)
    assert shown.code == 0
    for words in ("good.txt on train, by clicks alone", "bounds", "the model says"):
        assert words in shown.out
    found = run("evaluate", "production", *LOG, "--json").json
    clicks = cr.ClickTable.read("cells.parquet", scores)
    assert found["ranker"] == "production"
    assert found["measures"]["Clicks@5"]["estimate"] == pytest.approx(clicks.clicks.sum() / 2400)
