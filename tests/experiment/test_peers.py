from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peers import LightGBMRanker, XGBoostRanker, lists_of

from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, MissingDependencyError, UsageError
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
        (XGBoostRanker, "xgboost", None),
        (XGBoostRanker, "xgboost", "position"),
        (LightGBMRanker, "lightgbm", None),
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
    again = kind(debias=debias, trees=30, threads=1).fit(data, clicks, curve)
    np.testing.assert_array_equal(again.predict(data.features), first)


@pytest.mark.parametrize(("kind", "package"), [(XGBoostRanker, "xgboost"), (LightGBMRanker, "lightgbm")])
def test_missing_values_are_used(kind: Any, package: str) -> None:
    pytest.importorskip(package)
    data, clicks, _ = scene(eta=0.5)
    features = data.features.copy()
    features[data.features[:, 0] > 0.6, 0] = np.nan  # what is relevant
    holed = replace(data, features=features, has_missing=True)
    table = ClickTable.from_arrays(
        holed, row=clicks.row, position=clicks.position, impressions=clicks.impressions, clicks=clicks.clicks
    )
    scores = kind(trees=30, threads=1).fit(holed, table).predict(holed)
    missing = np.isnan(features[:, 0])
    assert np.median(scores[missing]) > np.median(scores[~missing])


@pytest.mark.parametrize(("kind", "package"), [(XGBoostRanker, "xgboost"), (LightGBMRanker, "lightgbm")])
def test_debiasing_does_something(kind: Any, package: str) -> None:
    pytest.importorskip(package)
    data, clicks, _ = scene(eta=2.0)

    def reliance(debias: str | None) -> float:
        """How much the scores follow the feature that decided the position, and nothing else."""
        scores = kind(debias=debias, trees=50, threads=1).fit(data, clicks).predict(data)
        return float(np.corrcoef(scores, data.features[:, 1])[0, 1])

    assert reliance("position") < reliance(None) - 0.05


def test_lists_are_in_the_order_of_positions() -> None:
    data, clicks, _ = scene(eta=1.0)
    lists = lists_of(data, clicks)
    assert lists.sizes.tolist() == [5] * len(lists.sizes)
    assert lists.position.reshape(-1, 5).tolist() == [[1, 2, 3, 4, 5]] * len(lists.sizes)
    assert lists.weights.mean() == pytest.approx(1)
    assert (lists.grades.min(), lists.grades.max()) == (0, 30)


def test_mistakes() -> None:
    data, clicks, rho = scene(eta=1.0)
    with pytest.raises(UsageError, match="`debias` must be 'position'.* not 'ips'"):
        XGBoostRanker(debias="ips").fit(data, clicks)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="LightGBM needs `clicks`.* not None"):
        LightGBMRanker().fit(data)
    with pytest.raises(UsageError, match="LightGBM .*`propensities`"):
        LightGBMRanker(debias="ips").fit(data, clicks)
    for peer in (XGBoostRanker(), XGBoostRanker(debias="position"), LightGBMRanker(debias="position")):
        with pytest.warns(CldrankWarning, match="does not use propensities"):
            peer.fit(data, clicks, rho)
    nothing = ClickTable.from_arrays(data, row=[0], position=[1], impressions=[3], clicks=[0])
    with pytest.raises(DataError, match="no clicks.*XGBoost"):
        XGBoostRanker().fit(data, nothing)


@pytest.mark.parametrize("debias", ["", "position", "ips"])
def test_they_take_part_in_experiments(folder: Path, debias: str) -> None:
    pytest.importorskip("lightgbm")
    entry = f"{{use='peers:LightGBMRanker', trees=20, threads=1{debias and f', debias={debias!r}'}}}"
    (unit,) = units([read("small.toml", changes=["seeds=1", f"methods={{Peer={entry}}}"], methods=["Peer"])])
    outcome = unit.task().function(folder)
    assert outcome.error == ""
    assert outcome.facts["values"]["AP"] > 0.6
    assert ("propensities" in unit.fit.described) == (debias == "ips")


def test_a_missing_package_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peers.find_spec", lambda _: None)
    data, clicks, _ = scene(eta=1.0)
    with pytest.raises(MissingDependencyError, match=r"lightgbm is not installed: pip install 'cldrank\[peers\]'"):
        LightGBMRanker().fit(data, clicks)
