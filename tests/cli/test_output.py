from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from cldrank.cli import output


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is printed on a terminal of 80 columns."""
    text = io.StringIO()
    monkeypatch.setattr(output.console, "_file", text)
    monkeypatch.setattr(output.console, "_width", 80)
    return text  # type: ignore[return-value]


def test_a_name_that_is_too_long_is_folded_not_cut(printed: io.StringIO) -> None:
    table = output.new_table("method", "value")
    names = ["x" * 100 + "1", "x" * 100 + "2"]
    for name in names:
        output.add_row(table, name, "0.5")
    output.console.print(table)
    letters = "".join(char for char in printed.getvalue() if char in "x12")
    assert letters == "".join(names)


def test_brackets_in_a_name_are_letters(printed: io.StringIO) -> None:
    table = output.new_table("[method]", "[bold]AP")
    for name in ("CLD[a]", "CLD[/b]"):
        output.add_row(table, name, "1")
    output.console.print(table)
    assert all(name in printed.getvalue() for name in ("[method]", "CLD[a]", "CLD[/b]", "[bold]AP"))
