from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import small_experiment
from browser import Checked, cut_on_a_phone

import cldrank as cr
from cldrank import cli
from cldrank.cli import demo
from cldrank.cli.demo import Demo, Story, typed
from cldrank.experiment.results import load_results
from cldrank.propensity import SegmentPropensities

Run = Callable[..., Any]

NINE = {"Naive", "Heckman^rank", "IPS", "CLD", "CLD-pair", "CLD-pair trees", "RankAgg", "Oracle", "Production"}
CALL = ("demo", "--linear", "--n-queries", "100", "--seeds", "2")


class Told(NamedTuple):
    """What a small demo prints, the commands that it runs, their answers, its facts, and where it leaves its folder."""

    printed: str
    commands: list[str]
    answers: dict[str, Any]
    facts: dict[str, Any]
    folder: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A demo as small as it gets."""
    place = tmp_path_factory.mktemp("demo")
    printed, answers, done = io.StringIO(), {}, []

    def noted(command: str, **options: Any) -> Any:
        answers[command] = typed(command, **options)
        return answers[command]

    def finished(self: Demo) -> None:
        done.append(self.facts)
        ending(self)

    ending = Demo.next_steps
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        patch.setattr(Demo, "next_steps", finished)
        patch.chdir(place)
        patch.setattr(sys, "argv", ["cldrank", *CALL])
        patch.setattr("cldrank.experiment.units.Processes", small_experiment.Here)
        patch.setattr(cli.output.console, "_width", 80)
        patch.setattr(demo, "typed", noted)
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert not stop.value.code, printed.getvalue()
    return Told(printed.getvalue(), list(answers), answers, done[0], place / "demo")


@pytest.fixture
def left(told: Told, folder: Path) -> Path:
    """A copy of what it leaves, where commands run."""
    return shutil.copytree(told.folder, folder / "demo")


@pytest.mark.filterwarnings("always")
@pytest.mark.slow
def test_all_methods(run: Run, folder: Path) -> None:
    found = run("demo", "--n-queries", "100", "--seeds", "1", "--json")
    assert found.code == 0, found.err
    assert {one["method"] for one in found.json["results"]} == NINE
    assert not any(one["failed"] or one["best"] or one["tied"] for one in found.json["results"])
    assert found.json["told"]["methods"] == ["No method is called best: that takes two seeds or more."]
    assert set(found.json["rankers"]) == {"naive-trees", "ips-trees", "cld-pair-trees"}
    assert found.json["export"]["parity"]["same_order"]
    assert set(found.json) >= {"audit", "propensities", "chosen", "verdict", "labels", "pages", "told"}
    assert all(method in Path(found.json["pages"]["report"]).read_text(encoding="utf-8") for method in NINE)


def test_what_it_shows_is_what_it_does(told: Told) -> None:
    story, _, go_on = told.printed.partition("Go on")
    shown = [line.split("$ cldrank ")[1] for line in story.splitlines() if "$ cldrank" in line]
    assert shown == [*told.commands, "experiment report demo/experiment"]
    assert len(shown) == len(set(shown)) == 22
    assert "--set production.fraction=0.02" in go_on


@pytest.mark.usefixtures("in_process")
def test_commands_work_when_they_are_typed(run: Run, told: Told, left: Path) -> None:
    """The shortest of them; those of `Go on`, as far as they need nothing of the reader's own."""
    before = {name: (left / name).read_text(encoding="utf-8") for name in ("rho.json", "propensities.svg")}
    finished = load_results(left / "experiment")
    cheap = [one for one in told.commands if one.startswith(("propensity", "experiment run"))]
    _, _, go_on = told.printed.partition("Go on")
    better = go_on.split("$ cldrank ")[1].splitlines()[0]
    for command in [*cheap, "experiment report demo/experiment", f"{better} --dry-run"]:
        assert run(*command.split()).code == 0, command
    assert {name: (left / name).read_text(encoding="utf-8") for name in before} == before
    assert load_results(left / "experiment").equals(finished)  # nothing was run again


def test_a_conclusion_is_told_once(told: Told) -> None:
    printed = " ".join(told.printed.split())
    for words in ("is best by nDCG@3", "clicks alone: ", "change in DCG@10: ", "is chosen", "score alike"):
        assert printed.count(words) == 1, words
    assert printed.count("DCG@10 differs by") <= 1


def test_conclusions_follow_from_what_was_found(told: Told) -> None:
    facts, printed = told.facts, " ".join(told.printed.split())
    estimates = {name: one["estimate"] for name, one in facts["rankers"].items()}
    assert facts["chosen"] == max(estimates, key=estimates.__getitem__)
    best = facts["rankers"][facts["chosen"]]
    rivals = [one for name, one in facts["rankers"].items() if name != facts["chosen"]]
    assert any(one["high"] > best["low"] for one in rivals) == ("though its interval overlaps" in printed)
    for eta in facts["propensities"].values():
        assert eta["low"] < eta["eta"] < eta["high"]
    clicks, labels = (answer for command, answer in told.answers.items() if command.startswith("compare"))
    seen, true = clicks["measures"]["DCG@10"], labels["measures"]["DCG@10"]
    assert facts["verdict"]["decision"] == clicks["decision"]
    assert facts["verdict"]["change"] == pytest.approx(seen["new"] / seen["old"] - 1)
    assert facts["labels"]["change"] == pytest.approx(true["new"] / true["old"] - 1)
    (exported,) = (answer for command, answer in told.answers.items() if command.startswith("export"))
    assert all(" ".join(note.split()) in printed for note in exported["notes"])


def test_every_device_has_a_curve(told: Told) -> None:
    curves = SegmentPropensities.load(told.folder / "rho.json")
    assert set(curves) == {"phone", "desktop"}
    assert curves["phone"].values[1] < curves["desktop"].values[1]
    drawn = (told.folder / "propensities.svg").read_text(encoding="utf-8")
    assert {name: drawn.count(f'data-series="{name}"') for name in curves} == {"phone": 1, "desktop": 1}
    assert drawn.count('class="reference"') == 21  # the truth at ten positions, twice, and what a ring means
    for eta in ("1.4", "0.7"):
        assert f"the truth is {eta}" in told.printed


def test_the_methods_use_the_estimate_not_the_truth(told: Told) -> None:
    rows = load_results(told.folder / "experiment").to_pylist()
    made = {row["method"]: json.loads(row["configuration"]) for row in rows}
    used = {method: one.get("propensities") for method, one in made.items()}
    assert made["CLD"]["simulation"]["eta"] == 1.4  # a phone's clicks
    assert used["CLD"] == used["IPS"]
    assert used["CLD"]["eta"] == pytest.approx(told.facts["propensities"]["phone"]["eta"], abs=0.001)
    assert used["CLD"]["eta"] != 1.4
    assert used["Oracle"] is used["Naive"] is None


def test_no_ranker_is_judged_on_queries_that_it_has_seen(told: Told) -> None:
    train, test = (cr.load(told.folder / f"{name}.parquet") for name in ("train", "test"))
    assert not set(train.query_ids) & set(test.query_ids)
    verdict = (told.folder / "verdict.html").read_text(encoding="utf-8")
    assert f"{test.n_queries} queries" in verdict
    assert "left out" not in verdict


def test_the_report_leads_to_all_pages(told: Told) -> None:
    text = (told.folder / "report.html").read_text(encoding="utf-8")
    page = Checked(text)
    assert set(page.addresses) >= {"audit.html", "propensities.svg", "experiment/report.html", "verdict.html"}
    assert all((told.folder / address).is_file() for address in page.addresses)
    assert "synthetic" in text
    assert f"{Path('demo', 'report.html')}\n" in told.printed
    assert "synthetic data" in (told.folder / "experiment" / "report.html").read_text(encoding="utf-8")


def test_the_report_is_whole_on_a_phone(told: Told, tmp_path: Path) -> None:
    assert cut_on_a_phone((told.folder / "report.html").read_text(encoding="utf-8"), tmp_path) == {}


def test_the_page_has_every_method(told: Told) -> None:
    text = (told.folder / "report.html").read_text(encoding="utf-8")
    methods = {row["method"] for row in load_results(told.folder / "experiment").to_pylist()}
    assert all(f'data-series="{method}"' in text for method in methods)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.filterwarnings("always")
@pytest.mark.usefixtures("in_process")
def test_called_again_it_continues(told: Told, left: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The step that takes longest does only what is missing."""
    for record in sorted((left / "experiment" / "tasks").glob("fit-*/record.json"))[:2]:
        record.unlink()
    (left / "experiment" / "results.parquet").unlink()
    again = Demo(Story(quiet=True), Path("demo"), queries=100, seeds=2, linear=True)
    again.facts["propensities"] = told.facts["propensities"]
    again.methods()
    means = {(cell["method"], cell["measure"]): cell["mean"] for cell in again.facts["results"]}
    assert "10 of 12 units are finished already" in capsys.readouterr().err
    assert f"{means['CLD', 'AP']:.3f} ±" in told.printed


def test_a_command_that_is_stopped_stops_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", lambda **_: 130)
    with pytest.raises(click.exceptions.Exit) as stop:
        typed("data list")
    assert stop.value.exit_code == 130


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ({"torch", "xgboost"}, "need PyTorch and XGBoost: pip install 'cldrank[neural,trees]'"),
        ({"xgboost"}, "need XGBoost: pip install 'cldrank[trees]'"),
    ],
)
def test_what_is_missing_is_said_first(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, missing: set[str], told: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else object())
    found = run("demo")
    assert found.code == 1
    assert told in found.err
    assert "cldrank demo --linear" in found.err
    assert not (folder / "demo").exists()


@pytest.mark.parametrize("name", ["train.parquet", "rho.json", "demo.toml"])
def test_files_of_somebody_else_stay(run: Run, folder: Path, name: str) -> None:
    (folder / "mine").mkdir()
    content = (folder / "train.parquet").read_bytes()
    (folder / "mine" / name).write_bytes(content)
    refused = run(*CALL, "--out", "mine")
    assert (refused.code, f"mine holds {name}, which no demo has left there" in refused.err) == (2, True)
    assert [path.name for path in (folder / "mine").iterdir()] == [name]
    assert (folder / "mine" / name).read_bytes() == content


def test_a_demo_of_other_settings_is_not_mixed_with_this_one(run: Run, left: Path) -> None:
    before = (left / "train.parquet").read_bytes()
    refused = run("demo", "--linear", "--n-queries", "120")
    assert (refused.code, "demo holds a demo of other settings; delete it, or name" in refused.err) == (2, True)
    assert (left / "train.parquet").read_bytes() == before


@pytest.mark.parametrize(
    ("out", "words"), [(".", "./production"), ("a b/c", "'a b/c'/production"), ("/d", "/d/production")]
)
def test_paths_are_words_of_the_shell(out: str, words: str) -> None:
    """A bare name would be taken for the word `production`."""
    commands = Demo(Story(quiet=True), Path(out), queries=100, seeds=2, linear=True).show("verdict", chosen="ips")
    assert f"--production {words} " in commands[0]
    assert shlex.split(commands[0])[1].endswith("/test.parquet")


def test_warnings_are_passed_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def speak(**_: Any) -> None:
        sys.stderr.write("warning: mind this\nwrote file\n")
        sys.stdout.write("{}")

    monkeypatch.setattr(cli, "app", speak)
    assert typed("data list", doing="listing") == {}
    told = capsys.readouterr().err
    assert "warning: mind this" in told
    assert "wrote file" not in told


def test_a_file_is_not_a_folder(run: Run) -> None:
    refused = run(*CALL, "--out", "train.parquet")
    assert (refused.code, "train.parquet is a file; name a folder to write." in refused.err) == (2, True)
