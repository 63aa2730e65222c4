from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cldrank.experiment.records import load_results
from cldrank.report.result_tables import notes, shares, tables
from cldrank.report.sections import Section, sections


@pytest.mark.parametrize(
    ("methods", "told"),
    [
        (("CLD", "Oracle"), "There is no Naive here"),
        (("Naive", "CLD"), "There is no Oracle here"),
        (("IPS", "CLD"), "There is no Naive and no Oracle here"),
    ],
)
def test_no_gap_without_both_ends(made: Any, tmp_path: Path, methods: tuple[str, ...], told: str) -> None:
    section = made.only(tmp_path, "mine", methods=methods)
    assert any(note.startswith(told) for note in notes(section))
    assert [group.name for group in tables(section)[0].groups] == [""]
    assert shares(section) == ()


def test_an_oracle_below_naive(made: Any, tmp_path: Path) -> None:
    rows = made.rows("mine")
    for row in rows:
        row["value"] -= row["method"] == "Oracle"
    (section,) = sections(load_results(made.save(rows, tmp_path)))
    assert any("Oracle is not better than Naive" in note for note in notes(section))


def test_a_seed_short(found: dict[tuple[str, str], Section]) -> None:
    row = next(row for row in tables(found["rq3-noise", "msrd"])[0].rows if row.method == "IPS")
    assert {entry.note for entry in row.entries} == {"4 seeds"}
