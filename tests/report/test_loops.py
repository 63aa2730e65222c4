from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cldrank.experiment.records import load_results
from cldrank.report import save_report
from cldrank.report.narrative import what_came_out, what_was_run
from cldrank.report.plots import figures, method_looks
from cldrank.report.sections import Section, sections

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


def test_naive_falls_behind_and_others_reach_oracle(looped: Callable[..., Section]) -> None:
    section = looped(rising)
    assert section.is_loop
    told = what_came_out(section)
    first, naive, oracle = re.split(r"Does Naive fall behind.*?\? |Do corrected clicks lead to Oracle\? ", told)
    assert first == (
        "After 10 rounds, best or statistically tied by nDCG@3: CLD (0.919), IPS trees (0.919) and CLD-pair trees "
        "(0.919). "
    )
    for one, other in (("Naive-L", "CLD"), ("Naive trees", "CLD-pair trees")):
        begun = r"\(after the first round 0.00\d ± 0.00\d \w+: it has lost\)\."
        assert re.search(rf"{one} ends 0.(099|100) ± 0.00\d behind {other} {begun}", naive)
    for one, other in (("CLD", "Oracle-L"), ("CLD-pair trees", "Oracle trees")):
        begun = r"after the first round 0.1\d\d ± 0.00\d behind: it has gained"
        assert re.search(rf"{one} ends level with {other} \(0.00\d ± 0.00\d \w+, {begun}\)\.", oracle)
    assert "IPS trees ends" not in told  # CLD-pair corrects more


def test_safe_rankers_are_not_taken_for_the_others(looped: Callable[..., Section], made: Any) -> None:
    told = what_came_out(looped(rising, methods=(*made.looped, "Naive-L safe", "CLD-pair trees safe")))
    assert "safe" in told.split("?")[0]  # among the best
    assert "Naive-L ends" in told
    assert "CLD-pair trees ends" in told
    assert "safe ends" not in told


def test_where_nothing_differs_it_is_level(looped: Callable[..., Section]) -> None:
    noise = (0.00, 0.01, -0.01, 0.005, -0.005)
    section = looped(lambda method, rounds, seed: 0.8 + (noise[(seed + rounds) % 5] if "Naive" in method else 0.0))
    told = what_came_out(section)
    begun = r"after the first round [^)]*: no clear change\)"
    assert re.search(rf"Naive-L ends level with CLD \(0.00\d ± 0.0\d\d ahead, {begun}", told)


def test_one_seed_has_distances_without_intervals(looped: Callable[..., Section]) -> None:
    told = what_came_out(looped(rising, seeds=[0]))
    assert "Naive-L ends 0.099 behind CLD." in told
    assert "±" not in told


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
    assert "Do corrected clicks lead to Oracle?" in text
    assert "deployed, logged, retrained" in text
