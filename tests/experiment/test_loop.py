"""Deploy, log, retrain: a small loop, round by round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.loading import load
from cldrank.errors import UsageError
from cldrank.evaluation import evaluate
from cldrank.experiment import work
from cldrank.experiment.definition import read
from cldrank.experiment.results import load_results
from cldrank.experiment.units import Progress, Unit, _group, plan, units
from cldrank.experiment.units import run as run_units
from cldrank.methods import CLD, SVMRank
from cldrank.models import Run
from cldrank.propensity import Propensities

ROUNDS = "loop.rounds=4"


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    work._round.cache_clear()


def unit_of(method: str, rounds: int, seed: int = 0, *changes: str) -> Unit:
    """The unit of a round."""
    found = units([read("small.toml", changes=[ROUNDS, *changes])])
    return next(
        one
        for one in found
        if (one.method, one.seed, json.loads(one.setting)) == (method, seed, {"loop.rounds": rounds})
    )


def log_of(method: str, rounds: int, seed: int = 0) -> ClickTable:
    """All clicks that the method sees in a round."""
    return work._log(unit_of(method, rounds, seed).fit)


def values(out: str) -> dict[tuple[Any, ...], float]:
    rows = load_results(out).to_pylist()
    return {
        (json.loads(row["setting"])["loop.rounds"], row["method"], row["seed"], row["measure"]): row["value"]
        for row in rows
    }


def run(out: str, *changes: str, **options: Any) -> Progress:
    return run_units(plan([read("small.toml", changes=[ROUNDS, *changes], **options)], out), jobs=1)


def test_rounds_are_what_one_would_do_by_hand(folder: Path) -> None:
    train, test = load("train.txt"), load("test.txt")
    rho, clicks = Propensities.power(1.0, 3), None
    ranker: Any = SVMRank(fraction=0.2, run=Run(seed=1)).fit(train)
    for number in (1, 2, 3):
        simulation = Simulation(train, ranker.predict(train), PositionBased(eta=1.0, noise=0.1), depth=3)
        drawn = 1 if number == 1 else int(np.random.SeedSequence([1, number]).generate_state(1)[0])
        new = simulation.draw(2000, seed=drawn)
        clicks = new if clicks is None else clicks.merge(new)
        ranker = CLD(gamma=0.2, run=Run(seed=1)).fit(train, clicks, rho).ranker_
        expected = evaluate(ranker, test, ["nDCG@3", "AP"])
        found = unit_of("CLD", number, 1).task().function(Path())
        assert found.error == ""
        assert found.facts["values"] == dict(expected), number


def test_a_log_holds_all_earlier_cells_and_deploying_changes_what_is_shown(folder: Path) -> None:
    logs = [log_of("CLD", rounds) for rounds in (1, 2, 3)]
    for before, after in zip(logs, logs[1:], strict=False):
        had, has = (
            dict(zip(zip(one.row, one.position, strict=True), one.impressions, strict=True)) for one in (before, after)
        )
        assert all(has[cell] >= shown for cell, shown in had.items())
        assert after.query_impressions.sum() == before.query_impressions.sum() + 2000
    assert set(zip(logs[1].row, logs[1].position, strict=True)) > set(zip(logs[0].row, logs[0].position, strict=True))
    assert logs[1].shown.sum() > logs[0].shown.sum()  # candidates that production never showed


def test_all_methods_meet_the_same_users(folder: Path) -> None:
    naive, cld = log_of("Naive", 3), log_of("CLD", 3)
    np.testing.assert_array_equal(naive.query_impressions, cld.query_impressions)
    first_naive, first_cld = log_of("Naive", 1), log_of("CLD", 1)
    np.testing.assert_array_equal(first_naive.clicks, first_cld.clicks)
    other = log_of("CLD", 3, seed=1)
    assert (other.query_impressions != cld.query_impressions).any()
    two, three = (log_of("CLD", rounds).query_impressions for rounds in (2, 3))
    assert (three - two != two - log_of("CLD", 1).query_impressions).any()  # each round draws anew


@pytest.mark.usefixtures("in_process")
def test_each_round_is_recorded_and_what_sees_labels_is_fitted_once(folder: Path) -> None:
    changes = ["methods.Production={use='svm-rank', fraction=0.2}"]
    report = run("out", *changes)
    assert (report.done, report.failed) == (2 * 4 * 2 + 1 + 2, 0)  # Naive and CLD; Oracle; Production
    found = values("out")
    assert len(found) == 4 * 4 * 2 * 2
    for rounds in (1, 2, 3, 4):
        assert found[rounds, "Oracle", 0, "AP"] == found[1, "Oracle", 0, "AP"]
        assert found[rounds, "Production", 1, "AP"] == found[1, "Production", 1, "AP"]
        assert found[rounds, "Production", 1, "AP"] < found[rounds, "CLD", 1, "AP"]
    assert len({found[rounds, "Naive", 1, "nDCG@3"] for rounds in (1, 2, 3, 4)}) > 1
    ceiling, floor = (np.mean([found[4, one, seed, "AP"] for seed in (0, 1)]) for one in ("Oracle", "Production"))
    learned = np.mean([found[4, "CLD", seed, "AP"] for seed in (0, 1)])
    assert floor < learned < ceiling + 0.02
    assert not plan([read("small.toml", changes=[ROUNDS, *changes])], "out").todo


@pytest.mark.usefixtures("in_process")
def test_a_stopped_loop_goes_on_where_it_was(folder: Path) -> None:
    run("whole", methods=["CLD"])
    run("parts", "loop.rounds=2", methods=["CLD"])
    work._round.cache_clear()  # as in a new process
    more = plan([read("small.toml", changes=[ROUNDS], methods=["CLD"])], "parts")
    assert (len(more.todo), more.finished) == (4, 4)
    assert run_units(more, jobs=1).failed == 0
    assert values("parts") == values("whole")


def test_in_processes_each_round_is_fitted_once(folder: Path) -> None:
    slow = 'methods={Slow={use="own_rankers:Slow", seconds=0.0}}'
    report = run_units(plan([read("small.toml", changes=[ROUNDS, slow], methods=["Slow"])], "out"), jobs=3)
    assert (report.done, report.failed) == (8, 0)
    assert sorted((folder / "diary.txt").read_text().split()) == ["0"] * 4 + ["1"] * 4


@pytest.mark.usefixtures("in_process")
def test_a_round_that_fails_is_recorded_and_so_are_those_after_it(folder: Path) -> None:
    report = run("out", "seeds=1", "methods={Broken={use='own_rankers:Broken'}}", methods=["Broken"])
    assert (report.done, report.failed) == (4, 4)
    assert all("it does not work" in error for error in report.errors)


def test_what_a_loop_refuses(folder: Path) -> None:
    for change, message in (
        ("loop.rounds=0", r"loop.rounds must be a whole number.*not 0"),
        ("loop.round=3", r"loop.round is unknown. Did you mean rounds"),
        ("vary.loop.rounds=[1, 2]", "vary.loop.rounds: only keys of production, simulation and methods can vary"),
    ):
        with pytest.raises(UsageError, match=message):
            read("small.toml", changes=[change])


def test_a_loop_may_vary_something_else_too(folder: Path) -> None:
    experiment = read("small.toml", changes=["loop.rounds=2", "vary.simulation.noise=[0.0, 0.2]"])
    assert [json.loads(setting.varied) for setting in experiment.settings()] == [
        {"loop.rounds": rounds, "simulation.noise": noise} for noise in (0.0, 0.2) for rounds in (1, 2)
    ]
    groups = {_group(unit.task()) for unit in units([experiment]) if unit.method == "CLD"}
    assert len(groups) == 2 * 2  # of noise and seeds: the rounds of a loop stay together
