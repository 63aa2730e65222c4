from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.propensity import AffineClicks

Run = Callable[..., Any]
FROM = ("-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1.0")
SMALL = ("--set", "hidden=8", "--set", "epochs=2")


def test_tune_saves_the_ranker_of_the_best_parameters(run: Run, folder: Path) -> None:
    told = run("tune", "cld-pair", *FROM, *SMALL, "-o", "tuned", "--trials", "3", "--json").json
    assert json.loads((folder / "tuned" / "tuned.json").read_text()) == told
    best = told["best_parameters"]
    assert list(best) == ["l2", "learning_rate", "dropout"]
    assert told["best_value"] == max(trial["value"] for trial in told["trials"])
    assert all(set(lead) == {"name", "trial", "interval", "is_told"} for lead in told["leads"])
    assert "held-out clicks" in run("tune", "cld-pair", *FROM, *SMALL, "-o", "tuned", "--trials", "3").out
    assert told["trials"][0]["parameters"] == {
        "learning_rate": 2e-3, "l2": 1e-3, "dropout": 0.2,
    }  # fmt: skip
    options = [part for name, value in best.items() for part in (f"--{name.replace('_', '-')}", repr(value))]
    assert run("train", "cld-pair", *FROM, "--hidden", "8", "--epochs", "2", *options, "-o", "ranker").code == 0
    data = cr.load("train.parquet")
    np.testing.assert_array_equal(cr.load_ranker("ranker").predict(data), cr.load_ranker("tuned/ranker").predict(data))


def test_the_same_command_goes_on(run: Run) -> None:
    arguments = ("tune", "ips", *FROM, "-o", "tuned", "--json")
    first = run(*arguments, "--trials", "2").json["trials"]
    more = run(*arguments, "--trials", "5").json["trials"]
    assert [trial["number"] for trial in more] == [0, 1, 2, 3, 4]
    assert [trial["parameters"] for trial in more[:2]] == [trial["parameters"] for trial in first]
    again = run(*arguments, "--trials", "5").json["trials"]
    assert again == more
    refused = run(*arguments, "--trials", "5", "--seed", "1")
    assert (refused.code, "differ in the method (IPS())" in refused.err) == (2, True)
    refused = run("tune", "naive", *FROM, "-o", "tuned")
    assert (refused.code, "differ in the method" in refused.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_finished_trials(run: Run, folder: Path, jobs: str) -> None:
    method = ["cld-pair", "--set", "hidden=8", "--set", "epochs=20"] if jobs == "1" else ["ips"]
    arguments = ["tune", *method, *FROM, "-o", "tuned"]
    command = [sys.executable, "-m", "cldrank", *arguments, "--trials", "5000", "--jobs", jobs]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = folder / "tuned" / "trials.log"
    while not log.exists() or log.read_bytes().count(b'"gains"') < 4:  # of which two processes have finished two
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert "the finished trials are in tuned, and the same command goes on" in " ".join(err.split())
    assert not (folder / "tuned" / "tuned.json").exists()
    told = run(*arguments, "--trials", "1", "--json").json  # nothing more to do but to take the best
    assert len(told["trials"]) >= 2
    assert (folder / "tuned" / "ranker").is_dir()


def test_ranges_and_values(run: Run) -> None:
    told = run(
        "tune", "cld", *FROM, "-o", "tuned", "--trials", "4", "--range", "gamma=0.1:0.2", "--set", "l2=0.001,0.1",
        "--set", "clip=0.3", "--json",
    ).json  # fmt: skip
    assert told["estimator"].startswith("CLD(clip=0.3")
    for trial in told["trials"]:
        assert set(trial["parameters"]) == {"gamma", "l2"}  # what has one value is not searched
        assert trial["parameters"]["l2"] in (0.001, 0.1)
        assert 0.1 <= trial["parameters"]["gamma"] <= 0.2


@pytest.mark.filterwarnings("ignore")
def test_queries_held_out_are_left_for_a_verdict(run: Run) -> None:
    ran = run("tune", "ips", *FROM, "--hold-out", "0.4", "--trials", "2", "-o", "tuned")
    assert ran.code == 0, ran.err
    data, ranker = cr.load("train.parquet"), cr.load_ranker("tuned/ranker")
    held = cr.data.held_out(data.query_ids, 0.4)
    assert not ranker.saw(data.query_ids)[held].any()  # type: ignore[index]
    assert ranker.provenance.held_out == 0.4
    said = " ".join(ran.out.split())
    assert f"{held.sum()} of 60 queries are held out; judge the ranker on them with `cldrank compare" in said
    words = shlex.split(said.partition("`cldrank ")[2].partition("`")[0])
    assert run(*words, "--json").code in (0, 3, 4, 5)
    assert run(*ranker.provenance.command.replace("--out tuned", "--out again").split()[1:]).code == 0
    np.testing.assert_array_equal(cr.load_ranker("again/ranker").predict(data), ranker.predict(data))


def test_what_does_not_fit_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    AffineClicks(slope=1 / np.arange(1, 6), base=np.full(5, 0.1)).save("trust.json")
    cases: list[tuple[int, str, list[str]]] = [
        (2, "there is no method 'cld_pair'. Did you mean cld-pair?", ["cld_pair", *FROM]),
        (2, "naive needs the propensities of positions to judge by held-out clicks", ["naive", *FROM[:4]]),
        (2, "IPS has no parameter gamma", ["ips", *FROM, "--range", "gamma=0.1:0.2"]),
        (2, "l2 does not say what to try", ["ips", *FROM, "--set", "l2"]),
        (2, "`l2` must be a number of at least 0, not a", ["ips", *FROM, "--range", "l2=a:b"]),
        (2, "`epochs` is not for a linear model; choose --model mlp", ["ips", *FROM, "--set", "epochs=2"]),
        (2, "there is nothing to try", ["svm-rank", *FROM[:2]]),
        (2, "--depth 7 is deeper than the clicks", ["ips", *FROM, "--depth", "7"]),
        (1, "1 have one candidate clicked more", ["ips", *FROM, "--judge-share", "0.02"]),
    ]
    for code, message, call in cases:
        ran = run("tune", *call, "-o", "x")
        assert (ran.code, message in ran.err) == (code, True), ran
        assert "Traceback" not in ran.err
    monkeypatch.setitem(sys.modules, "optuna", None)
    ran = run("tune", "ips", *FROM, "-o", "y")
    assert (ran.code, "pip install 'cldrank[tune]'" in ran.err) == (1, True)
