from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from browser import Checked, cut_on_a_phone

import cldrank as cr
from cldrank import cli
from cldrank.cli import demo
from cldrank.cli.demo import typed
from cldrank.propensity import SegmentPropensities

Run = Callable[..., Any]


class Told(NamedTuple):
    """What a small demo prints, the commands that it runs, and where it leaves its folder."""

    printed: str
    commands: list[str]
    folder: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A demo as small as it gets, with a linear model."""
    place = tmp_path_factory.mktemp("demo")
    printed, commands = io.StringIO(), []

    def noted(command: str) -> str:
        commands.append(command)
        return typed(command)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        patch.chdir(place)
        patch.setattr(sys, "argv", ["cldrank", "demo", "--n-queries", "100"])
        patch.setattr(demo, "find_spec", lambda _: None)
        patch.setattr(demo, "typed", noted)
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert not stop.value.code, printed.getvalue()
    return Told(printed.getvalue(), commands, place / "demo")


def test_what_it_shows_is_what_it_does(told: Told) -> None:
    story, _, go_on = told.printed.partition("One page about all of it")
    shown = [line.removeprefix("$ cldrank ") for line in story.splitlines() if line.startswith("$ cldrank")]
    assert shown == told.commands
    assert len(shown) == len(set(shown)) == 14
    assert "cldrank pipeline run" in go_on
    assert "Verdict:" in told.printed
    assert "--model linear" in told.printed


def test_an_experiment_settles_it_and_labels_agree(told: Told) -> None:
    verdicts = [line for line in told.printed.splitlines() if line.startswith("Verdict:")]
    assert len(verdicts) == 2
    assert verdicts[0] != "Verdict: worse"
    assert verdicts[1] == "Verdict: better"
    labels = next(line.split() for line in told.printed.splitlines() if line.startswith(" DCG@10") and "/" in line)
    assert labels[3].startswith("+")


def test_every_device_has_a_curve(told: Told) -> None:
    curves = SegmentPropensities.load(told.folder / "rho.json")
    assert set(curves) == {"phone", "desktop"}
    assert curves["phone"].values[1] < curves["desktop"].values[1]
    drawn = (told.folder / "report.html").read_text(encoding="utf-8")
    assert drawn.count('class="reference"') == 21  # the truth at ten positions, twice, and what a ring means


def test_labels_are_asked_on_queries_that_the_ranker_has_not_seen(told: Told) -> None:
    train, test = (cr.load(told.folder / f"{name}.parquet") for name in ("train", "test"))
    assert not set(train.query_ids) & set(test.query_ids)
    assert "queries left out" in (told.folder / "verdict.html").read_text(encoding="utf-8")


def test_the_page_leads_to_all_pages(told: Told, tmp_path: Path) -> None:
    text = (told.folder / "report.html").read_text(encoding="utf-8")
    page = Checked(text)
    steps = demo.DEMO_STEPS
    assert page.addresses == [address for step in steps for address in step.pages]
    assert all((told.folder / address).is_file() for address in page.addresses)
    assert "synthetic" in text
    assert all(step.title in page.texts for step in steps)
    results = [line for line in told.printed.splitlines() if line.startswith(demo._RESULTS)]
    assert len(results) == 4  # two verdicts, each with its numbers
    assert set(results) <= {*page.texts}
    assert f"{Path('demo', 'report.html')}\n" in told.printed
    cut = cut_on_a_phone(text, tmp_path)
    assert all(name.startswith("CODE") for name in cut.pop("outside", []))  # what was printed, in a box that scrolls
    assert cut == {}


def test_a_command_that_is_stopped_stops_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", lambda **_: 130)
    with pytest.raises(click.exceptions.Exit) as stop:
        typed("data list")
    assert stop.value.exit_code == 130


def test_files_of_somebody_else_stay(run: Run, folder: Path) -> None:
    (folder / "mine").mkdir()
    content = (folder / "train.parquet").read_bytes()
    (folder / "mine" / "train.parquet").write_bytes(content)
    refused = run("demo", "--out", "mine")
    assert (refused.code, "mine holds train.parquet, which no demo has left there" in refused.err) == (2, True)
    assert [path.name for path in (folder / "mine").iterdir()] == ["train.parquet"]
    assert (folder / "mine" / "train.parquet").read_bytes() == content
