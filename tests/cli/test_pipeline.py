from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_pipeline import write_definition, write_without_clicks, write_world

from cldrank.cli.pipeline import _exit_code
from cldrank.pipeline import RunRecord, TaskRecord

Run = Callable[..., Any]


@pytest.fixture
def scene(folder: Path) -> Path:
    """A place with a pipeline."""
    write_world(folder)
    write_definition(folder)
    return folder


def line(ran: Any) -> dict[str, Any]:
    """The one line of JSON."""
    assert ran.out.count("\n") == 1
    found: dict[str, Any] = json.loads(ran.out)
    assert found["exit_code"] == ran.code
    return found


def test_from_a_log_to_a_shipped_ranker(run: Run, scene: Path) -> None:
    (scene / "pipeline.toml").unlink()
    made = run("pipeline", "new", "log.parquet", "-f", "train.parquet")
    assert made.code == 0, made.err
    ran = run("pipeline", "run")
    assert ran.code == 0, ran.err
    assert "the ranker is shipped, in shipped/" in ran.out
    assert "verdict" in ran.err
    assert (scene / "shipped" / "ranker" / "ranker.json").is_file()
    again = run("pipeline", "run", "--json")
    found = line(again)
    assert found["status"] == "shipped"
    assert not found["changed"]
    assert not found["new"]
    assert found["verdict"] == "better"
    assert {*found["steps"].values()} == {"reused"}
    assert (scene / found["run"] / "record.json").is_file()
    shown = run("pipeline", "show")
    assert shown.code == 0
    assert "reused" in shown.out
    assert "better" in shown.out
    assert "Pipeline run" in (scene / found["run"] / "run.html").read_text()


def test_an_audit_that_stops_has_code_3(run: Run, scene: Path) -> None:
    write_without_clicks(scene)
    ended = run("pipeline", "run", "--json")
    found = line(ended)
    assert (ended.code, found["status"], found["stopped_by"]) == (3, "stopped", "blocking")
    assert found["steps"]["audit"] == "stopped"
    assert found["verdict"] is None
    told = run("pipeline", "run")
    assert told.code == 3
    assert "production stays as it is" in told.out


@pytest.mark.parametrize(
    ("step", "word", "code"),
    [
        ("audit", "warning", 3),
        ("verdict", "worse", 3),
        ("verdict", "no difference", 4),
        ("verdict", "cannot tell", 5),
        ("train", "unsafe", 5),
    ],
)
def test_codes_of_gates(step: str, word: str, code: int) -> None:
    steps = (TaskRecord(step, "done", stop=word),)
    assert _exit_code(RunRecord("r", "p", "now", "stopped", stopped_by=word, steps=steps)) == code


def test_a_step_that_fails_has_code_1_and_its_line(run: Run, scene: Path) -> None:
    write_definition(scene, [("[train]", '[propensities]\nmethod = "logged"\n[train]')])
    (scene / "log.parquet").write_bytes(b"PAR1 and nothing else")
    ended = run("pipeline", "run", "--json")
    found = line(ended)
    assert (ended.code, found["status"]) == (1, "failed")
    assert "log.parquet" in ended.err
    assert "log.parquet" in found["reason"]


def test_there_is_a_line_even_if_nothing_ran(run: Run, scene: Path) -> None:
    assert line(run("pipeline", "run", "other.toml", "--json"))["exit_code"] == 2
    write_definition(scene, [("trust_propensity = false", "quik = true")])
    assert "verdict.quik" in line(run("pipeline", "run", "--json"))["reason"]
    write_definition(scene, [("[train]", "[window]\ndepth = 9\n[train]")])
    found = line(run("pipeline", "run", "--json"))
    assert (found["exit_code"], found["steps"]["aggregate"]) == (1, "failed")
    (scene / "other").mkdir()
    (scene / "other" / "file").touch()
    write_definition(scene, [('"opensearch"]', '"opensearch"]\nfolder = "other"')])
    found = line(run("pipeline", "run", "--json"))
    assert found["run"] is None  # not the run before
    assert "no pipeline wrote it" in found["reason"]


def test_ctrl_c_says_how_to_go_on(run: Run, scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cldrank.pipeline.steps._trained", stop)
    ended = run("pipeline", "run", "--json")
    assert line(ended)["status"] == "interrupted"
    assert ended.code == 130
    assert "the same command goes on from there" in ended.err
