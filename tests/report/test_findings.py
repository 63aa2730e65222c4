from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cldrank.documents import Strong
from cldrank.experiment.results import load_results
from cldrank.report import save_report
from cldrank.report.contents import figures, method_looks, notes, tables
from cldrank.report.findings import what_came_out, what_was_run
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
    assert not any("Bold" in note for note in notes(section))
    cells = [cell for row in tables(section)[0].rows for cell in row]
    assert not any("±" in str(cell) or "≈" in str(cell) or isinstance(cell, Strong) for cell in cells)


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
    assert what_came_out(section).endswith("there is no other to compare it with.")
    assert not any(isinstance(cell, Strong) for row in tables(section)[0].rows for cell in row)


@pytest.mark.parametrize("settings", [[{}], [{"simulation.eta": 0.0}, {"simulation.eta": 1.0}]])
def test_only_oracle(made: Any, tmp_path: Path, settings: list[dict[str, float]]) -> None:
    section = made.only(tmp_path, "mine", methods=("Oracle",), settings=settings)
    assert what_came_out(section) == "No method that learns from clicks has finished."


def test_nothing_but_failures(made: Any, tmp_path: Path) -> None:
    section = made.only(tmp_path, "mine", failing="{} broke with seed {}".format)
    assert what_came_out(section) == "All units failed; the errors are below."
    assert figures(section, method_looks(section.methods.values())) == ()


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


# -- loops -------------------------------------------------------------------------------------------------------------

Value = Callable[[str, int, int], float]


@pytest.fixture
def looped(made: Any, tmp_path: Path) -> Callable[..., Section]:
    """Makes the section of a loop in which a method has some value after a round with a seed."""

    def make(value: Value, **options: Any) -> Section:
        rows = made.rows("loop", settings=made.rounds, **{"methods": made.looped, **options})
        for row in rows:
            row["value"] = value(row["method"], json.loads(row["setting"])["loop.rounds"], row["seed"])
        (section,) = sections(load_results(made.save(rows, tmp_path)))
        return section

    return make


def rising(method: str, rounds: int, seed: int) -> float:
    """Naive stays where it is, the others come to Oracle, each with luck of its own in each seed."""
    luck = 0.01 * seed + (0.0, 0.002, -0.002, 0.001, -0.001)[(seed * sum(map(ord, method))) % 5]
    if method.startswith("Oracle"):
        return 0.9 + luck
    if method.startswith("Naive"):
        return 0.8 + luck
    return 0.9 - 0.1 / rounds**2 + luck


def test_says_that_sessions_are_those_of_a_round(looped: Callable[..., Section]) -> None:
    assert what_was_run(looped(rising)).startswith(
        "100,000 simulated sessions a round on the top 5 of the ranker of the round before (at first a production "
        "ranker), position bias"
    )


def test_curves_run_along_rounds(looped: Callable[..., Section], made: Any) -> None:
    section = looped(rising)
    drawn = figures(section, method_looks(section.methods.values()))
    assert [figure.title for figure in drawn] == list(made.measures)
    for figure in drawn:
        assert figure.along.name == "rounds: deployed, logged, retrained"
        assert {line.name for line in figure.series} == set(made.looped)
        for line in figure.series:
            assert [point.at for point in line.points] == list(range(1, 11))
            assert all(point.low is not None and point.low <= point.value for point in line.points)


def test_the_page_has_them(looped: Callable[..., Section], tmp_path: Path) -> None:
    looped(rising)
    (page,) = save_report(tmp_path, tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "The loop: deploy, log, retrain" in text
    assert "deployed, logged, retrained" in text
