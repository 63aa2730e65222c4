from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import small_experiment

from cldrank.experiment import units
from cldrank.experiment.results import load_results

Run = Callable[..., Any]
Experiment = Callable[..., str]


@pytest.fixture
def experiment(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """`cldrank experiment` in a folder with a small experiment: what it prints, or what it complains of."""
    small_experiment.make(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_rankers", raising=False)

    def call(*arguments: str, fails: int = 0) -> str:
        ran = run("experiment", *arguments)
        assert ran.code == fails, ran.err
        printed: str = ran.err if fails else ran.out
        return printed

    return call


def test_list(experiment: Experiment) -> None:
    printed = experiment("list")
    assert "rq4-misspecified" in printed
    assert "misspecified propensities" in printed
    listed = {entry["name"]: entry for entry in json.loads(experiment("list", "--json"))}
    assert {name: entry["units"] for name, entry in listed.items()} == {
        "table1": 60, "rq1-cutoff": 480, "rq1-position": 300, "rq2-sessions": 240, "rq3-noise": 240,
        "rq4-misspecified": 550, "rq5-models": 30, "rq6-robust": 540,
    }  # fmt: skip


def test_a_dry_run_runs_nothing(experiment: Experiment) -> None:
    options = ["run", "small.toml", "--dry-run", "--set", "vary.simulation.eta=[0, 1]"]
    printed = experiment(*options)
    assert "12 units, 0 finished; 9 fits to do in" in printed
    assert not Path("experiments").exists()
    told = json.loads(experiment(*options, "--json"))
    assert (told["units"], told["finished"], told["fits"]) == (12, 0, 9)


def test_run_and_go_on(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["run", "small.toml", "--jobs", "1", "--method", "own_rankers:ByFirst"]
    printed = experiment(*command)
    assert "(small)" in printed
    assert "ByFirst" in printed
    assert "results: experiments/small/results.parquet" in printed
    row = load_results("experiments/small").to_pylist()[0]
    assert row["command"] == "cldrank experiment " + " ".join(command)
    again = experiment(*command)  # no process is started: all is finished
    assert again.splitlines()[:5] == printed.splitlines()[:5]
    told = json.loads(experiment(*command, "--json"))
    assert {one["method"] for one in told["results"]} == {"Naive", "CLD", "Oracle", "ByFirst"}
    monkeypatch.setattr(units, "Processes", small_experiment.Here)
    varied = experiment(
        "run", "small.toml", "-o", "varied", "--method", "Naive", "--set", "vary.simulation.noise=[0.0, 0.1]"
    )
    assert "noise" in varied
    assert "AP" in varied  # of several measures, the second stands for all in a table of settings


@pytest.mark.usefixtures("in_process")
def test_failures_end_in_an_exit_code(experiment: Experiment) -> None:
    command = ["run", "small.toml", "--seeds", "1", "--method", "Naive", "--method", "own_rankers:Broken"]
    complaint = experiment(*command, fails=1)
    assert "1 fit failed; the same call tries again." in complaint
    assert "Broken, seed 0, {}: RuntimeError: it does not work" in complaint
    assert "1 fit failed" in experiment(*command, fails=1)


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["run", "table9"], 2, "table9"),
        (["run", "small.toml", "--set", "simulation.dept=3"], 2, "simulation.dept"),
        (["run", "small.toml", "--method", "nobody"], 2, "'nobody'"),
        (["run", "wrong.toml"], 1, "wrong.toml"),
        (["run", "small.toml", "--out", "small.toml"], 2, "small.toml is a file"),
        (["report", "small.toml"], 1, "small.toml"),
    ],
)
def test_mistakes_are_explained(experiment: Experiment, options: list[str], code: int, complaint: str) -> None:
    Path("wrong.toml").write_text("= 3")
    assert complaint in experiment(*options, fails=code)
