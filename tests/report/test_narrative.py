from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cldrank.experiment.records import load_results
from cldrank.report.narrative import what_came_out, what_was_run
from cldrank.report.plots import figures, method_looks
from cldrank.report.result_tables import notes, tables
from cldrank.report.sections import Section, sections


def test_say_what_was_run(found: dict[tuple[str, str], Section]) -> None:
    assert what_was_run(found["table1", "web10k"]) == (
        "100,000 simulated sessions on the top 5 of a production ranker, position bias η = 0.1, click noise 0.1. "
        "7 methods, 5 seeds (0 to 4), fold1."
    )
    assert "Varied: assumed η from 0 to 2; depth K = 3 and 5." in what_was_run(found["rq4-misspecified", "msrd"])


def test_say_who_is_best(found: dict[tuple[str, str], Section]) -> None:
    section = found["table1", "msrd"]
    best = next(cell for cell in section.cells.values() if cell.measure == "nDCG@3" and cell.best)
    told = what_came_out(section)
    assert told.startswith(f"{best.method} is best by nDCG@3 with {best.interval}")
    assert f"closes {100 * best.gap:.0f}% of the gap" in told


def test_one_seed(made: Any, tmp_path: Path) -> None:
    section = made.only(tmp_path, "mine", seeds=[3])
    assert "one seed (3)" in what_was_run(section)
    assert not section.has_intervals
    assert any("no intervals" in note for note in notes(section))
    assert all("±" not in entry.text for row in tables(section)[0].rows for entry in row.entries)
    assert not any(entry.best or entry.tied for row in tables(section)[0].rows for entry in row.entries)
    assert not any("Bold" in note for note in notes(section))


@pytest.mark.parametrize("settings", [[{}], [{"simulation.eta": 0.0}, {"simulation.eta": 1.0}]])
def test_one_seed_names_no_best(made: Any, tmp_path: Path, settings: list[dict[str, float]]) -> None:
    section = made.only(tmp_path, "mine", seeds=[3], settings=settings)
    assert what_came_out(section) == "No method is called best: that takes two seeds or more."


def test_one_method_with_one_seed_has_a_value(made: Any, tmp_path: Path) -> None:
    told = what_came_out(made.only(tmp_path, "mine", seeds=[3], methods=("CLD",)))
    assert told.startswith("CLD has nDCG@3 0.")
    assert "±" not in told


def test_one_method(made: Any, tmp_path: Path) -> None:
    section = made.only(tmp_path, "mine", methods=("CLD",))
    assert what_came_out(section).endswith("there is no other method to compare it with.")
    assert not any(entry.best for row in tables(section)[0].rows for entry in row.entries)


@pytest.mark.parametrize("settings", [[{}], [{"simulation.eta": 0.0}, {"simulation.eta": 1.0}]])
def test_only_oracle(made: Any, tmp_path: Path, settings: list[dict[str, float]]) -> None:
    section = made.only(tmp_path, "mine", methods=("Oracle",), settings=settings)
    assert what_came_out(section) == "Only Oracle has finished; no method that learns from clicks has."


def test_nothing_but_failures(made: Any, tmp_path: Path) -> None:
    section = made.only(tmp_path, "mine", failing="{} broke with seed {}".format)
    assert what_came_out(section) == "All units failed; the errors are below."
    assert notes(section) == ("No unit has finished, so there is nothing to measure yet.",)
    assert figures(section, method_looks(section.methods.values())) == ()
    assert section.timings == ()


def test_naive_closes_no_gap(made: Any, tmp_path: Path) -> None:
    rows = made.rows("mine", methods=("Naive", "IPS", "Oracle"))
    for row in rows:
        row["value"] += 0.2 * (row["method"] == "Naive") + 0.4 * (row["method"] == "Oracle")
    (section,) = sections(load_results(made.save(rows, tmp_path)))
    assert what_came_out(section).startswith("Naive is best by nDCG@3")
    assert "gap" not in what_came_out(section)


def test_what_the_methods_assume_is_told(made: Any, tmp_path: Path) -> None:
    rows = made.rows("mine", settings=[{"simulation.assumed_eta": 1.25}])
    (section,) = sections(load_results(made.save(rows, tmp_path / "other")))
    assert "position bias η = 1 (the methods assume 1.25), click noise" in what_was_run(section)
    (true,) = sections(load_results(made.save(made.rows("mine"), tmp_path / "true")))
    assert "position bias η = 1, click noise" in what_was_run(true)
