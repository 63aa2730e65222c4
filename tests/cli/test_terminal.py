"""Texts of data never command the terminal: control characters in names, segments, paths and errors are written out."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.cli import output

Run = Callable[..., Any]
RED = "\x1b[31mred"
SHOWN = "\\x1b[31mred"


@pytest.fixture
def hostile(folder: Path) -> Path:
    """The training data of the scene, with a feature whose name is a command."""
    data = cr.load(folder / "train.parquet")
    names = [RED, *data.feature_names[1:]]
    hostile = cr.RankingDataset.from_arrays(
        np.asarray(data.features), np.repeat(data.query_ids, np.diff(data.offsets)), data.labels, feature_names=names
    )
    hostile.save(folder / "hostile.parquet")
    return folder


def seen(ran: Any) -> tuple[int, bool, bool]:
    """The exit code, whether a control character was printed, and whether it was written out."""
    printed = ran.out + ran.err
    return ran.code, "\x1b" in printed, SHOWN in printed.replace("\n", "")


def test_names_of_features(run: Run, hostile: Path) -> None:
    assert seen(run("show", "hostile.parquet")) == (0, False, True)
    assert run("train", "oracle", "-f", "hostile.parquet", "-o", "ranker").code == 0
    assert seen(run("show", "ranker")) == (0, False, True)


@pytest.mark.parametrize("call", [("show",), ("clicks", "audit"), ("evaluate", "-f", "train.parquet")])
def test_paths_and_errors(run: Run, call: tuple[str, ...]) -> None:
    assert seen(run(*call, f"{RED}.parquet")) == (2, False, True)


def test_json_holds_no_controls(run: Run, folder: Path) -> None:
    (folder / "\x9b31m.parquet").write_bytes((folder / "train.parquet").read_bytes())
    ran = run("show", "\x9b31m.parquet", "--json")
    assert "\x9b" not in ran.out + ran.err


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is printed on a terminal of 80 columns."""
    text = io.StringIO()
    monkeypatch.setattr(output.console, "_file", text)
    monkeypatch.setattr(output.console, "_width", 80)
    return text  # type: ignore[return-value]


def test_a_name_that_is_too_long_is_folded_not_cut(printed: io.StringIO) -> None:
    names = ["x" * 100 + "1", "x" * 100 + "2"]
    output.print_table("", ("method", "value"), [(name, "0.5") for name in names])
    letters = "".join(char for char in printed.getvalue() if char in "x12")
    assert letters == "".join(names)


def test_brackets_in_a_name_are_letters(printed: io.StringIO) -> None:
    output.print_table("", ("[method]", "[bold]AP"), [("CLD[a]", 1), ("CLD[/b]", 1)])
    assert all(name in printed.getvalue() for name in ("[method]", "CLD[a]", "CLD[/b]", "[bold]AP"))
