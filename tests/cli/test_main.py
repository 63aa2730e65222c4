from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cldrank as cr
from cldrank import cli

Run = Callable[..., Any]


def test_exit_codes_and_one_or_two_lines(run: Run, letor: Path, folder: Path) -> None:
    (folder / "bad.txt").write_text("1 qid:1 1:1\n1 qid:1 1:x\n")
    (folder / "empty").mkdir()
    (folder / "two.txt").write_text("1\n2\n")
    (folder / "colours.csv").write_text("shade\nred\n")
    run("train", "oracle", "-f", letor, "-o", "ranker")
    cases: list[tuple[int, str, list[str]]] = [
        (1, "bad.txt:2:11", ["show", "bad.txt"]),
        (2, "absent.txt", ["show", "absent.txt"]),
        (1, "2 scores for 240", ["evaluate", "two.txt", "-f", "train.txt"]),
        (2, "must end in .parquet", ["data", "convert", "train.txt", "--out", "x.csv"]),
        (2, "No such command", ["trian"]),
        (2, "Missing option", ["train", "oracle", "--out", "x"]),
        (2, "Missing option '--out'", ["train", "oracle", "-f", "x"]),
        (2, "Missing argument 'RANKER'", ["serve"]),
        (
            1,
            "none of the columns that are read here; it has shade",
            [
                "clicks",
                "import",
                "--from",
                "ubi",
                "--queries",
                "colours.csv",
                "--events",
                "two.txt",
                "--out",
                "l.parquet",
            ],
        ),
        (2, "--n-queries", ["data", "make", "web10k-like", "-n", "lots"]),
        (2, "not 40%; write 0.4", ["evaluate", "r", "-f", "x", "--confidence", "40%"]),
        (2, "--depth", ["evaluate", "r", "-f", "x", "--depth", "0"]),
        (1, "ranker.json", ["evaluate", "empty", "-f", "train.txt"]),
        (2, "name ranker.", ["evaluate", ".", "-f", "train.txt"]),
    ]
    for code, message, arguments in cases:
        ran = run(*arguments)
        assert ran.code == code, (arguments, ran)
        assert message in ran.err, (arguments, ran)
        assert "Traceback" not in ran.err
        assert ran.err.strip().count("\n") <= 1, ran.err
        assert ran.out == ""


def test_debug_shows_the_traceback_wherever_it_stands(run: Run) -> None:
    for arguments in (["--debug", "show", "absent.txt"], ["show", "absent.txt", "--debug"]):
        with pytest.raises(cr.errors.UsageError, match="absent.txt"):
            run(*arguments)


def test_a_fault_of_ours_asks_for_a_report(run: Run, letor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("cldrank.data.loading.load", broken)
    ran = run("show", letor)
    assert ran.code == 1
    assert "a fault in cldrank itself (ZeroDivisionError: oops)" in ran.err


def test_ctrl_c(run: Run, letor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cldrank.data.loading.load", interrupted)
    assert run("show", letor).code == 130


def test_version_and_help(run: Run) -> None:
    assert run("--version").out == f"cldrank {cr.__version__}\n"
    for command in ([], ["data"], ["train"], ["evaluate"], ["compare"], ["demo"], ["data", "make"]):
        shown = run(*command, "--help")
        assert shown.code == 0
        assert "Usage" in shown.out
        assert "<bool>" not in shown.out
    commands = run("--help").out.partition("\nCommands")[2]
    listed = [line.split()[0] for line in commands.splitlines() if line[:2].isspace() and line[2:3].isalpha()]
    assert listed[:5] == ["data", "clicks", "features", "propensity", "simulate"]
    assert listed[-3:] == ["experiment", "show", "demo"]
    assert "Usage: cldrank pipeline new [OPTIONS] LOG...\n" in run("pipeline", "new", "--help").out


def test_nothing_heavy_is_imported_for_help() -> None:
    script = (
        "import sys, cldrank, cldrank.cli\n"
        "heavy = {'numpy', 'scipy', 'torch', 'pyarrow', 'numba', 'sklearn', 'duckdb', 'pyspark', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_termination_leaves_no_temporary_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cldrank", "data", "make", "web10k-like", "-n", "50000", "-o", "big.parquet"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not list(tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    try:
        assert process.wait(timeout=600) == 143
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir()) == []


def test_a_termination_in_a_callback_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noticed:
        def __del__(self) -> None:  # Python drops what is raised here
            signal.raise_signal(signal.SIGTERM)

    def command(**arguments: object) -> None:
        del arguments
        Noticed()
        for _ in range(3000):  # half a minute: long enough on any machine
            time.sleep(0.01)

    monkeypatch.setattr(cli, "app", command)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGALRM)]
    try:
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    assert stopped.value.code == 143


def test_a_reader_that_goes_away() -> None:
    command = f"{sys.executable} -m cldrank data list --json | head -1"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)  # noqa: S607
    assert "Traceback" not in found.stderr
    reading, writing = os.pipe()
    os.close(reading)  # it has gone before the first word
    few = "from cldrank import cli; cli.app = lambda **_: print('a few words, flushed at the end'); cli.main()"
    for given in (["-m", "cldrank", "data", "list", "--json"], ["-c", few]):
        ended = subprocess.run([sys.executable, *given], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (1, "")
    os.close(writing)
