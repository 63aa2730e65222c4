from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from small_experiment import Here

from cldrank.experiment import units
from cldrank.experiment.experiment_file import read
from cldrank.experiment.results import load_results
from cldrank.experiment.units import Progress, plan


def run(out: str, *changes: str, **options: Any) -> Progress:
    planned = plan([read("small.toml", changes=changes, **options)], out)
    return units.run(planned, jobs=2, command="the command")


def values(out: str) -> dict[tuple[Any, ...], float]:
    rows = load_results(out).to_pylist()
    return {(row["setting"], row["method"], row["seed"], row["measure"]): row["value"] for row in rows}


@pytest.mark.usefixtures("in_process")
def test_results_with_their_provenance(folder: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    experiment = read("small.toml", changes=["vary.simulation.noise=[0.0, 0.2]"])
    planned = plan([experiment], "out")
    report = units.run(
        planned, jobs=1, command="it", progress=lambda now: seen.append((now.done, now.total, now.failed))
    )
    assert (report.done, report.failed) == (4 + 4 + 1, 0)  # Oracle once
    assert seen == [(done, 9, 0) for done in range(1, 10)]
    table = load_results("out")
    assert table.num_rows == 2 * 3 * 2 * 2
    assert set(table["status"].to_pylist()) == {"ok"}
    row = next(one for one in table.to_pylist() if one["method"] == "CLD")
    assert (row["experiment"], row["data"], row["fold"], row["synthetic"]) == ("small", "small", "", False)
    assert json.loads(row["setting"]) == {"simulation.noise": 0.0}
    described = json.loads(row["configuration"])
    assert described["simulation"]["noise"] == 0.0
    assert described["method"]["parameters"] == {"gamma": 0.2, "seed": 0}
    assert described["data"]["fingerprint"] == row["data_fingerprint"]
    assert {"python", "cldrank", "numpy"} <= json.loads(row["versions"]).keys()
    assert (row["command"], row["error"], json.loads(row["warnings"])) == ("it", "", [])
    assert row["seconds"] > 0
    assert row["finished"].tzinfo is not None
    oracle = {key: value for key, value in values("out").items() if key[1] == "Oracle" and key[3] == "AP"}
    assert len(oracle) == 4
    assert len(set(oracle.values())) == 1
    assert load_results("out/results.parquet").equals(table)

    assert not plan([experiment], "out").todo  # nothing is left
    more = plan([read("small.toml", changes=["vary.simulation.noise=[0.0, 0.2, 0.3]"], seeds=3)], "out")
    assert len(more.todo) == 3 * 2 * 3 - 8  # Oracle is known
    assert more.finished == 8 + 9
    elsewhere = plan([read("small.toml", changes=["vary.simulation.noise=[0.0]"], methods=["CLD"])], "out")
    assert (len(elsewhere.todo), elsewhere.finished) == (0, 2)


def test_a_failed_unit_is_recorded_and_the_rest_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = run("out", methods=["CLD", "own_rankers:Broken", "own_rankers:Dying"], seeds=1)
    assert (report.done, report.failed) == (3, 2)
    rows = {row["method"]: row for row in load_results("out").to_pylist()}
    assert rows["CLD"]["status"] == "ok"
    assert rows["Broken"]["status"] == rows["Dying"]["status"] == "failed"
    assert "RuntimeError: it does not work" in rows["Broken"]["error"]
    assert rows["Dying"]["error"] == "the process exited with code 7"
    assert rows["Broken"]["value"] != rows["Broken"]["value"]

    again = [read("small.toml", methods=["CLD", "own_rankers:Broken", "own_rankers:Dying"], seeds=1)]
    planned = plan(again, "out")
    assert (len(planned.todo), planned.finished) == (2, 1)
    assert {shared[0].method for shared in planned.todo.values()} == {"Broken", "Dying"}
    source = folder / "own_rankers.py"
    source.write_text(source.read_text().replace('raise RuntimeError("it does not work")', "return self"))
    monkeypatch.setattr(units, "Processes", Here)
    monkeypatch.delitem(sys.modules, "own_rankers")
    mended = run("out", methods=["CLD", "own_rankers:Broken"], seeds=1)  # another source is another unit
    assert (mended.done, mended.failed) == (1, 0)
    assert {row["method"]: row["status"] for row in load_results("out").to_pylist()}["Broken"] == "ok"


@pytest.mark.usefixtures("in_process")
def test_results_are_those_of_the_last_run_and_nothing_is_fitted_twice(folder: Path) -> None:
    run("out", methods=["Naive"], seeds=1)
    first = values("out")
    assert run("out", "simulation.noise=0.3", "measures=AP", methods=["Naive", "CLD"], seeds=1).done == 2
    assert {key[1] for key in values("out")} == {"Naive", "CLD"}
    assert {key[3] for key in values("out")} == {"AP"}
    assert run("out", methods=["Naive"], seeds=1).done == 0  # what was replaced is still known
    assert values("out") == first
