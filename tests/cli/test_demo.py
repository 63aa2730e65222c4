from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import small_experiment

from cldrank import cli
from cldrank.experiment.records import load_results

Run = Callable[..., Any]

SEVEN = ["Naive", "Heckman^rank", "IPS", "CLD", "CLD-pair", "RankAgg", "Oracle"]  # what corrects least comes first
CALL = ("demo", "--linear", "--queries", "100", "--seeds", "2")


@pytest.fixture(scope="module")
def _told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a small demo prints, and where it leaves its folder."""
    place = tmp_path_factory.mktemp("demo")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(place)
        patch.setattr(sys, "argv", ["cldrank", *CALL])
        patch.setattr("cldrank.experiment.runner.Workers", small_experiment.Here)
        patch.setattr(cli.output.console, "_width", 80)
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert not stop.value.code, printed.getvalue()
    return printed.getvalue(), place / "demo"


@pytest.fixture
def shown(_told: tuple[str, Path]) -> str:
    """What it prints."""
    return _told[0]


@pytest.fixture
def left(_told: tuple[str, Path], folder: Path) -> Path:
    """A copy of what it leaves, where commands run."""
    return shutil.copytree(_told[1], folder / "demo")


@pytest.mark.slow
def test_all_seven_methods(run: Run, folder: Path) -> None:
    told = run("demo", "--queries", "100", "--seeds", "1", "--json")
    assert told.code == 0, told.err
    assert sorted({one["method"] for one in told.json["results"]}) == sorted(SEVEN)
    assert not any(one["failed"] for one in told.json["results"])
    assert all(method in Path(told.json["report"]).read_text(encoding="utf-8") for method in SEVEN)


def test_it_leaves_pages_and_says_where(shown: str, left: Path) -> None:
    page = (left / "experiment" / "report.html").read_text(encoding="utf-8")
    assert "synthetic data" in page
    assert "Click log audit" in (left / "audit.html").read_text(encoding="utf-8")
    assert f"{Path('demo', 'experiment', 'report.html')}\n" in shown
    shown = " ".join(shown.split())
    assert "of all candidates are never shown" in shown
    assert "Propensities of all positions cannot be estimated by comparing them" in shown  # one ranker alone


def test_the_methods_use_the_estimate_not_the_truth(left: Path) -> None:
    curve = json.loads((left / "rho.json").read_text())["values"]
    rows = load_results(left / "experiment").to_pylist()
    told = {row["method"]: json.loads(row["configuration"]).get("propensities") for row in rows}
    assert told["CLD"] == told["IPS"]
    assert 2 ** -told["CLD"]["eta"] == pytest.approx(curve[1], rel=1e-3)
    assert told["CLD"]["eta"] == pytest.approx(1, abs=0.05)
    assert told["CLD"]["eta"] != 1
    assert told["Oracle"] is told["Naive"] is None


@pytest.mark.usefixtures("in_process")
def test_the_commands_that_it_shows_give_what_it_leaves(run: Run, shown: str, left: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in left.iterdir() if path.is_file()}
    finished = load_results(left / "experiment")
    story, go_on = (
        [line.split("$ cldrank ")[1].split() for line in part.splitlines() if "$ cldrank" in line]
        for part in shown.split("Go on")
    )
    assert len(story) == 9
    for command in [*story, [*go_on[0], "--dry-run"]]:
        told = run(*command)
        assert told.code == 0, told.err
    for name in ("train", "test", "log", "clicks1", "clicks2"):
        (tmp_path / "before.parquet").write_bytes(before[f"{name}.parquet"])
        assert pq.read_table(left / f"{name}.parquet").equals(pq.read_table(tmp_path / "before.parquet")), name
    assert json.loads((left / "rho.json").read_text()) == json.loads(before["rho.json"])
    assert load_results(left / "experiment").equals(finished)  # nothing was run again


@pytest.mark.usefixtures("in_process")
def test_called_again_it_continues(run: Run, shown: str, left: Path) -> None:
    for path in sorted((left / "experiment" / "results").iterdir())[:2]:
        path.unlink()
    (left / "experiment" / "results.parquet").unlink()
    again = run(*CALL, "--json")
    assert "8 of 10 units are finished already" in again.err
    found = {(one["method"], one["measure"]): one["mean"] for one in again.json["results"]}
    assert f"{found['CLD', 'AP']:.3f} ±" in shown


def test_what_is_missing_is_said_first(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    told = run("demo")
    assert told.code == 1
    assert "pip install 'cldrank[neural]'" in told.err
    assert "cldrank demo --linear" in told.err
    assert not (folder / "demo").exists()


@pytest.mark.parametrize("name", ["train.parquet", "rho.json"])
def test_files_of_somebody_else_stay(run: Run, folder: Path, name: str) -> None:
    (folder / "mine").mkdir()
    content = (folder / "train.parquet").read_bytes()
    (folder / "mine" / name).write_bytes(content)
    refused = run(*CALL, "--out", "mine")
    assert (refused.code, f"mine holds {name}, which no demo has left there" in refused.err) == (2, True)
    assert [path.name for path in (folder / "mine").iterdir()] == [name]
    assert (folder / "mine" / name).read_bytes() == content


def test_a_file_is_not_a_folder(run: Run) -> None:
    refused = run(*CALL, "--out", "train.parquet")
    assert (refused.code, "train.parquet is a file; name a folder to write." in refused.err) == (2, True)
