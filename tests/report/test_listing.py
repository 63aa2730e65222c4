from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from cldrank.experiment.records import load_results
from cldrank.experiment.results import summary
from cldrank.report import save_report


def test_is_the_summary(all_shipped: Path, tmp_path: Path) -> None:
    (path,) = save_report(all_shipped, tmp_path / "out.csv", format="csv")
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    rows = summary(load_results(all_shipped))
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert (line["experiment"], line["setting"], line["method"]) == (row.experiment, row.setting, row.method)
        assert float(line["mean"]) == row.mean
        assert float(line["gap"] or "nan") == pytest.approx(row.gap, nan_ok=True, rel=0, abs=0)
        assert line["best"] == ("true" if row.best else "false")


def test_what_is_unknown_stays_empty(made: Any, tmp_path: Path) -> None:
    folder = made.save(made.rows("mine", seeds=[0], methods=("CLD",)), tmp_path)
    (path,) = save_report(folder, tmp_path / "out.csv", format="csv")
    line = next(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert (line["low"], line["high"], line["gap"]) == ("", "", "")


def test_hostile_text_comes_back(evil: Path, made: Any, tmp_path: Path) -> None:
    (path,) = save_report(evil, tmp_path / "out.csv", format="csv")
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert made.evil in {line["method"] for line in lines}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_text_is_a_formula(made: Any, tmp_path: Path, start: str) -> None:
    label = f"{start}cmd|' /C calc'!A0"
    folder = made.save(made.rows(label, methods=(label, "CLD"), data=label), tmp_path)
    (path,) = save_report(folder, tmp_path / "out.csv", format="csv")
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["experiment"] for line in lines} == {line["data"] for line in lines} == {f"'{label}"}
    assert {line["method"] for line in lines} == {f"'{label}", "CLD"}


def test_a_number_below_0_stays_one(made: Any, tmp_path: Path) -> None:
    rows = [{**row, "value": -row["value"]} for row in made.rows("mine")]
    (path,) = save_report(made.save(rows, tmp_path), tmp_path / "out.csv", format="csv")
    with path.open(encoding="utf-8", newline="") as file:
        assert all(float(line["mean"]) < 0 for line in csv.DictReader(file))
