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
    names = ["x" * 100 + "1", "x" * 100 + "2"]
    output.print_table("", ("method", "value"), [(name, "0.5") for name in names])
    letters = "".join(char for char in printed.getvalue() if char in "x12")
    assert letters == "".join(names)


def test_brackets_in_a_name_are_letters(printed: io.StringIO) -> None:
    output.print_table("", ("[method]", "[bold]AP"), [("CLD[a]", 1), ("CLD[/b]", 1)])
    assert all(name in printed.getvalue() for name in ("[method]", "CLD[a]", "CLD[/b]", "[bold]AP"))
