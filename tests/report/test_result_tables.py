from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cldrank.experiment.records import load_results
from cldrank.report.result_tables import leader_rows, notes, shares, tables
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


class TestBestOrTied:
    def test_those_that_a_paired_test_cannot_tell_from_the_best(self, made: Any, tmp_path: Path) -> None:
        values = {
            "Naive": [0.70, 0.80, 0.90],
            "CLD-pair": [0.81, 0.88, 1.00],  # now above, now below
            "CLD-pair trees": [0.80, 0.90, 1.00],
            "Oracle": [0.95, 0.95, 0.95],
            "Oracle trees": [0.96, 0.96, 0.96],
        }
        rows = made.rows("mine", methods=tuple(values), seeds=range(3), measures=["AP"])
        for row in rows:
            row["value"] = values[row["method"]][row["seed"]]
        (section,) = sections(load_results(made.save(rows, tmp_path)))
        (row,) = leader_rows(section)
        half = stats.t.ppf(0.95, 2) * stats.sem(np.subtract(values["CLD-pair"], values["CLD-pair trees"]))
        assert row.setting == ""
        assert [(one.method, one.best) for one in row.leaders[0]] == [("CLD-pair trees", True), ("CLD-pair", False)]
        assert row.leaders[0][0].text.startswith("0.900 ± ")
        assert row.leaders[0][1].text == f"−0.003 ± {half:.3f}"

    def test_a_row_for_each_setting(self, found: dict[tuple[str, str], Section]) -> None:
        section = found["rq6-robust", "msrd"]
        rows = leader_rows(section)
        assert len(rows) == 12
        assert rows[0].setting == "assumed η = 0.5, sessions = 1,000"
        for row, setting in zip(rows, section.settings, strict=True):
            for leaders, measure in zip(row.leaders, section.measures, strict=True):
                cells = [section.cells[setting, label, measure] for label in section.rivals]
                assert {one.method for one in leaders} == {cell.method for cell in cells if cell.best or cell.tied}
                assert leaders[0].best

    def test_one_seed_has_no_best_and_one_method_has_no_rival(self, made: Any, tmp_path: Path) -> None:
        assert leader_rows(made.only(tmp_path / "seed", "mine", seeds=[3])) == ()
        assert leader_rows(made.only(tmp_path / "alone", "mine", methods=("CLD", "Oracle"))) == ()
