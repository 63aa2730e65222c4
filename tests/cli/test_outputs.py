"""What every command does with the places it is told to write to."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank import cli
from cldrank.methods import methods

Run = Callable[..., Any]

# of each command with --out: a call without it, and what is read and must not be written over
CALLS: dict[str, tuple[list[str], list[str]]] = {
    "data convert": (["train.parquet"], ["train.parquet"]),
    "data make": (["web10k-like", "-n", "2"], []),
    "clicks aggregate": (["log.csv", "-f", "train.parquet"], ["log.csv", "train.parquet"]),
    "clicks import": (["--from", "metarank", "log.csv"], ["log.csv"]),
    "judgements": (
        ["cells.parquet", "-f", "train.parquet", "-p", "power:1", "--to", "parquet"],
        ["train.parquet", "cells.parquet"],
    ),
    "pipeline new": (["log.csv", "-f", "train.parquet"], ["log.csv", "train.parquet"]),
    "propensity estimate": (["log.csv", "-f", "train.parquet"], ["log.csv", "train.parquet"]),
    "simulate": (["train.parquet", "--production", "scores.txt"], ["train.parquet", "scores.txt"]),
    "train cld": (["-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1"], ["train.parquet", "cells.parquet"]),
    "train auto": (["-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1"], ["train.parquet", "cells.parquet"]),
    "features collect": (
        [
            *("--from", "opensearch", "--url", "http://127.0.0.1:9/products"),
            *("--queries", "queries.csv", "--featureset", "featureset.json", "--search", "{}"),
        ],
        ["queries.csv", "featureset.json"],
    ),
    "tune": (
        ["cld", "-f", "train.parquet", "-c", "cells.parquet", "-p", "power:1"],
        ["train.parquet", "cells.parquet"],
    ),
    "experiment run": (["table1"], ["train.parquet"]),
    "experiment report": (["results.parquet"], ["results.parquet"]),
    "distil": (["ranker", "-f", "train.parquet"], ["train.parquet"]),
    "score": (["ranker", "-f", "train.parquet"], ["train.parquet"]),
    "export": (["ranker", "--to", "opensearch", "--check", "train.parquet"], ["train.parquet"]),
    "online interleave": (["scores.txt", "column:f1", "-f", "train.parquet"], ["train.parquet", "scores.txt"]),
    "online swap": (["scores.txt", "-f", "train.parquet"], ["train.parquet", "scores.txt"]),
    "online explore": (["column:f1", "-f", "train.parquet", "-c", "cells.parquet"], ["train.parquet", "cells.parquet"]),
    "demo": ([], ["train.parquet"]),
}


def commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def with_out() -> set[str]:
    found = commands(cli.app)
    return {name for name, command in found if any("--out" in option.opts for option in command.params)}


@pytest.fixture
def scene(folder: Path) -> Path:
    """Beside features and cells, a log, scores and results."""
    lines = [
        "session_id,query_id,doc_id,position,clicked",
        *(f"{s},{s % 3},{k},{k},0" for s in range(9) for k in (1, 2)),
    ]
    (folder / "log.csv").write_text("\n".join(lines))
    (folder / "scores.txt").write_text("1\n" * 480)
    (folder / "results.parquet").write_bytes(b"PAR1")
    (folder / "queries.csv").write_text("query_id,query\n1,shoes\n")
    (folder / "featureset.json").write_text("{}")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_command_that_writes_is_tried() -> None:
    of_methods = {f"train {method}" for method in methods()}
    assert of_methods <= with_out()  # one stands for all: they share what comes before and after a fit
    assert with_out() - of_methods == {name for name in CALLS if name not in of_methods}


@pytest.mark.parametrize("command", CALLS)
def test_what_is_read_is_not_written_over(run: Run, scene: Path, command: str) -> None:
    before = contents(scene)
    call, read = CALLS[command]
    os.link(scene / "train.parquet", scene / "linked.parquet")
    (scene / "symbolic.parquet").symlink_to("train.parquet")
    linked = ["linked.parquet", "symbolic.parquet"] if "train.parquet" in read else []
    for target in [*read, *linked]:
        ran = run(*command.split(), *call, "--out", target)
        assert ran.code == 2, (target, ran)
        refused = ("would be overwritten", "name a folder", "must end in .parquet", "is there already")
        assert any(words in ran.err for words in refused), ran
    assert contents(scene) | before == contents(scene)


@pytest.mark.parametrize("command", CALLS)
def test_a_place_where_nothing_can_be_written_is_told_at_once(
    run: Run, scene: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise AssertionError("work was begun")

    monkeypatch.setattr("cldrank.data.loading.load", nothing)
    monkeypatch.setattr("cldrank.data.synthetic.make", nothing)
    monkeypatch.setattr("cldrank.experiment.results.load_results", nothing)
    (scene / "results.parquet").unlink()
    ran = run(*command.split(), *CALLS[command][0], "--out", "log.csv/x.parquet")
    assert ran.code == 2, ran
    assert "does not exist" in ran.err or "log.csv is a file" in ran.err


@pytest.mark.parametrize(
    "call",
    [["score", "ranker", "-f", "train.parquet", "--out"], ["export", "ranker", "--to", "opensearch", "--out"]],
    ids=lambda call: call[0],
)
def test_nothing_is_written_into_the_folder_of_a_ranker(run: Run, scene: Path, call: list[str]) -> None:
    assert run("train", "oracle", "-f", "train.parquet", "-o", "ranker").code == 0
    before = contents(scene / "ranker")
    (scene / "link").symlink_to("ranker")
    for target in ("ranker", "ranker/new.parquet", "ranker/model.json", "ranker/../ranker/x.csv", "link/x.parquet"):
        ran = run(*call, target)
        assert ran.code == 2, (target, ran)
        assert f"{target} lies in the folder of the ranker (ranker)" in ran.err or "must end in" in ran.err
        assert contents(scene / "ranker") == before
    assert run(*call, "ranker.parquet").code == 0  # beside it
    assert run(*call[:1], "link", *call[2:], "ranker/x.parquet").code == 2
    assert run("evaluate", "ranker", "-f", "train.parquet", "--record").code == 0


def test_a_pattern_reads_what_it_fits(run: Run, scene: Path) -> None:
    before = contents(scene)
    ran = run("clicks", "aggregate", "train*.parquet", "--out", "train.parquet")
    assert (ran.code, "train.parquet is an input and would be overwritten" in ran.err) == (2, True), ran
    assert contents(scene) == before


SIMULATE = ["simulate", "train.parquet", "--production", "scores.txt", "--sessions", "100", "--relevant-from", "1"]


def test_a_pipe_gets_the_bytes(run: Run, scene: Path) -> None:
    pipe = scene / "pipe.parquet"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    ran = run(*SIMULATE, "--out", "pipe.parquet")
    reader.join(30)
    assert ran.code == 0, ran
    assert received[0].startswith(b"PAR1")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert not (scene / "pipe.parquet.json").exists()  # nothing lies beside a pipe


def started(scene: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[bytes]:
    script = f"import resource; {before}\nfrom cldrank.cli import main; main()"
    return subprocess.run([sys.executable, "-c", script, *arguments], cwd=scene, capture_output=True, check=False)


def test_standard_output_can_be_the_target(scene: Path) -> None:
    ran = started(scene, *SIMULATE, "--out", "/dev/stdout", "--json")
    assert ran.returncode == 0, ran.stderr
    assert pq.read_table(pa.BufferReader(ran.stdout)).num_rows > 0  # nothing else is mixed in
    assert b"impressions" in ran.stderr
    assert not Path("/dev/stdout.json").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_standard_output_is_told(scene: Path) -> None:
    for buffered in ("", "1"):
        with Path("/dev/full").open("w") as full:
            ran = subprocess.run(
                [sys.executable, "-m", "cldrank", "data", "list", "--json"],
                stdout=full, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": buffered}, check=False,
            )  # fmt: skip
        assert ran.returncode == 1
        assert ran.stderr == b"error: standard output cannot be written: No space left on device.\n"
