from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peers import LightGBMRanker, XGBoostRanker

from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.experiment.experiment_file import read
from cldrank.experiment.units import units
from cldrank.measures import compute, mean
from cldrank.propensity import Propensities


def scene(eta: float) -> tuple[RankingDataset, ClickTable, Propensities]:
    """Production ranks by the second feature; only the first one is relevant."""
    random = np.random.default_rng(0)
    features = random.random((3000, 2))
    data = RankingDataset.from_arrays(features, np.repeat(np.arange(300), 10), labels=features[:, 0] > 0.6)
    simulation = Simulation(data, features[:, 1], PositionBased(eta=eta, noise=0.1), depth=5)
    return data, simulation.draw(20_000, seed=0), Propensities.power(eta, 5)


@pytest.mark.parametrize(
    ("kind", "package", "debias"),
    [
        (XGBoostRanker, "xgboost", "position"),
        (LightGBMRanker, "lightgbm", "position"),
        (LightGBMRanker, "lightgbm", "ips"),
    ],
)
def test_they_learn_and_repeat_themselves(kind: Any, package: str, debias: str | None) -> None:
    pytest.importorskip(package)
    data, clicks, rho = scene(eta=0.5)
    curve = rho if debias == "ips" else None
    first, second = (kind(debias=debias, trees=30, threads=1).fit(data, clicks, curve).predict(data) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert data.labels is not None
    quality = mean(next(iter(compute("AP", first, data.labels, data.offsets).values())))
    by_production = mean(next(iter(compute("AP", data.features[:, 1], data.labels, data.offsets).values())))
    assert quality > by_production + 0.2


def test_they_take_part_in_experiments(folder: Path) -> None:
    pytest.importorskip("lightgbm")
    entry = "{use='peers:LightGBMRanker', trees=20, threads=1, debias='ips'}"
    (unit,) = units([read("small.toml", changes=["seeds=1", f"methods={{Peer={entry}}}"], methods=["Peer"])])
    outcome = unit.task().function(folder)
    assert outcome.error == ""
    assert outcome.facts["values"]["AP"] > 0.6
    assert "propensities" in unit.fit.described
