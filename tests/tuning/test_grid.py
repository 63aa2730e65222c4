from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.estimators import IPS
from cldrank.propensity import Propensities
from cldrank.tuning import grid, tune
from cldrank.tuning.space import applied

RHO = Propensities.power(1.0, 3)


def shown(queries: int = 20, seed: int = 0) -> tuple[RankingDataset, ClickTable]:
    """Queries of five candidates, three of them shown; more clicks where the first feature is larger."""
    random = np.random.default_rng(seed)
    features = random.random((5 * queries, 2))
    data = RankingDataset.from_arrays(features, np.repeat(np.arange(queries), 5))
    position = np.tile([1, 2, 3, 0, 0], queries)
    clicks = np.where(position > 0, np.rint(features[:, 0] * 60 / np.maximum(position, 1)), 0)
    table = ClickTable.from_arrays(data, position=position, impressions=np.where(position, 60, 0), clicks=clicks)
    return data, table


class ByColumn:
    def __init__(self, column: int, fits: list[int]) -> None:
        self.column, self.fits = column, fits

    def fit(self, dataset: RankingDataset, clicks: ClickTable, propensities: Propensities) -> ByColumn:
        clicks.check_same(dataset)
        assert propensities is RHO
        self.fits.append(int((clicks.query_impressions > 0).sum()))
        return self

    def predict(self, X: Any) -> Any:
        return np.asarray(X)[:, self.column]


def test_the_best_is_chosen_and_what_is_held_out_is_not_learned_from() -> None:
    data, clicks = shown()
    fits: list[int] = []

    def make(parameters: Mapping[str, Any]) -> ByColumn:
        return ByColumn(parameters["column"], fits)

    trials = grid(make, {"column": [1, 0]}, data, clicks, RHO, held_out=0.25)
    assert [(trial.number, trial.parameters) for trial in trials] == [(1, {"column": 0}), (0, {"column": 1})]
    best, other = trials
    assert best.value is not None
    assert other.value is not None
    assert best.value > 0.99 > other.value
    assert best.behind == 0.0
    assert other.behind == pytest.approx(best.value - other.value)
    assert fits == [15, 15]
    assert grid(make, {"column": [1, 0]}, data, clicks, RHO, held_out=0.25) == trials
    alike = grid(make, {"column": [1, -1]}, data, clicks, RHO)
    assert alike[0].parameters == {"column": 1}  # both are the last column: of equals, the first


def test_every_combination_is_tried() -> None:
    data, clicks = shown()
    trials = grid(partial(applied, IPS()), {"l2": [0.1, 1.0], "clip": [None, 0.5]}, data, clicks, RHO)
    tried = [trial.parameters for trial in sorted(trials, key=lambda trial: trial.number)]
    assert tried == [{"l2": l2, "clip": clip} for l2 in (0.1, 1.0) for clip in (None, 0.5)]


def test_it_is_judged_as_a_trial_of_tune() -> None:
    data, clicks = shown(40)
    values = [0.001, 0.1, 10.0]
    trials = grid(partial(applied, IPS()), {"l2": values}, data, clicks, RHO)
    tuned = tune(IPS(), data, clicks, RHO, {"l2": values}, trials=12)
    found = {trial.parameters["l2"]: (trial.value, trial.standard_error) for trial in tuned.trials}
    assert found == {trial.parameters["l2"]: (trial.value, trial.standard_error) for trial in trials}


def test_there_must_be_something_to_hold_out() -> None:
    data, clicks = shown(1)
    with pytest.raises(DataError, match="queries that were displayed: 1, too few to hold out 20% of them"):
        grid(lambda chosen: ByColumn(chosen["column"], []), {"column": [0]}, data, clicks, RHO)
