from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.data.loading import load
from cldrank.evaluation import evaluate
from cldrank.experiment.experiment_file import read
from cldrank.experiment.units import units
from cldrank.methods import CLD, SVMRank
from cldrank.models import Run
from cldrank.propensity import Propensities
from cldrank.runs import Outcome


def outcomes(*changes: str, **options: Any) -> dict[tuple[str, int], Outcome]:
    found = units([read("small.toml", changes=changes, **options)])
    return {unit.place[-2:]: unit.task().function(Path()) for unit in found}


def test_a_unit_is_what_one_would_do_by_hand(folder: Path) -> None:
    train, test = load("train.txt"), load("test.txt")
    production = SVMRank(fraction=0.2, run=Run(seed=1)).fit(train)
    clicks = Simulation(train, production.predict(train), PositionBased(eta=1.0, noise=0.1), depth=3).draw(2000, seed=1)
    model = CLD(gamma=0.2).fit(train, clicks, Propensities.power(0.5, 3))
    expected = evaluate(model, test, ["nDCG@3", "AP"])
    found = outcomes("simulation.assumed_eta=0.5")["CLD", 1]
    assert found.error == ""
    assert found.facts["values"] == {"nDCG@3": expected["nDCG@3"], "AP": expected["AP"]}
    assert found.facts["seconds"] > 0
    assert not found.facts["synthetic"]


def test_the_same_unit_gives_the_same_values(folder: Path) -> None:
    first, second = outcomes(), outcomes()
    assert {key: one.facts["values"] for key, one in first.items()} == {
        key: one.facts["values"] for key, one in second.items()
    }
    assert first["CLD", 0].facts["values"] != first["CLD", 1].facts["values"]


def test_errors_are_outcomes(folder: Path) -> None:
    broken = outcomes(methods=["own_rankers:Broken"])["Broken", 0]
    assert broken.error.startswith("RuntimeError: it does not work (own_rankers.py:")
    assert "values" not in broken.facts
    ours = outcomes("simulation.relevant_from=9")["CLD", 0]
    assert ours.error.startswith("DataError: no label reaches 9")


def test_warnings_are_kept_once(folder: Path) -> None:
    found = outcomes(methods=["own_rankers:Warning_"])["Warning_", 0]
    assert found.facts["warnings"] == ["UserWarning: mind the step"]
    assert not math.isnan(found.facts["values"]["AP"])
