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


METHODS = [f"LightGBM-of-somebody-{name}" for name in ("position", "position-2", "ips", "plain", "naive", "pairs")]


def test_columns_that_do_not_fit_follow_below(printed: io.StringIO) -> None:
    rows = [(f"noise {noise}", [f"0.{noise}{place}" for place in range(len(METHODS))]) for noise in (1, 2)]
    output.print_wide("nDCG@3", rows, METHODS)
    text = printed.getvalue()
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    heads = [line.split() for line in text.splitlines() if "nDCG@3" in line]
    assert [name for head in heads for name in head if name != "nDCG@3"] == METHODS
    assert all(sum(f"noise {noise}" in line for line in text.splitlines()) == len(heads) for noise in (1, 2))
    assert all(cell in text for _, cells in rows for cell in cells)


def test_what_fits_stays_together(printed: io.StringIO) -> None:
    output.print_wide("method", [("CLD", ["0.5", "0.6"])], ["nDCG@3", "AP"])
    assert [line.split() for line in printed.getvalue().splitlines() if "CLD" in line] == [["CLD", "0.5", "0.6"]]


def test_a_name_that_is_too_long_is_folded_not_cut(printed: io.StringIO) -> None:
    table = output.new_table("method", "value")
    names = ["x" * 100 + "1", "x" * 100 + "2"]
    for name in names:
        output.add_row(table, name, "0.5")
    output.console.print(table)
    letters = "".join(char for char in printed.getvalue() if char in "x12")
    assert letters == "".join(names)


def test_brackets_in_a_name_are_letters(printed: io.StringIO) -> None:
    output.print_wide("[method]", [("CLD[a]", ["1"]), ("CLD[/b]", ["2"])], ["[bold]AP"])
    assert all(name in printed.getvalue() for name in ("[method]", "CLD[a]", "CLD[/b]", "[bold]AP"))
