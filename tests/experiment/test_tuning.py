from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.estimators import IPS
from cldrank.experiment.tuning import Range, choose
from cldrank.propensity import Propensities
from cldrank.tuning import tune

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

    choice = choose(make, {"column": [1, 0]}, data, clicks, RHO, held_out=0.25)
    assert choice.parameters == {"column": 0}
    assert [parameters for parameters, _ in choice.tries] == [{"column": 1}, {"column": 0}]
    assert choice.tries[1][1].value > 0.99 > choice.tries[0][1].value
    assert fits == [15, 15]
    again = choose(make, {"column": [1, 0]}, data, clicks, RHO, held_out=0.25)
    assert again == choice
    alike = choose(make, {"column": [1, -1]}, data, clicks, RHO)
    assert alike.parameters == {"column": 1}  # both are the last column: of equals, the first


def test_a_try_is_judged_as_a_trial() -> None:
    data, clicks = shown(40)
    values = [0.001, 0.1, 10.0]
    choice = choose(lambda chosen: IPS(**chosen), {"l2": values}, data, clicks, RHO)
    tuned = tune(IPS(), data, clicks, RHO, {"l2": values}, trials=12)
    found = {trial.parameters["l2"]: (trial.value, trial.standard_error) for trial in tuned.trials}
    assert found == {parameters["l2"]: tuple(mean) for parameters, mean in choice.tries}


def test_points_of_a_range() -> None:
    assert Range(1, 100, log=True, points=3).values() == (1.0, 10.0, 100.0)
    assert Range(0.05, 0.3).values() == pytest.approx((0.05, 0.05 + 0.25 / 3, 0.05 + 0.5 / 3, 0.3))


def test_there_must_be_something_to_hold_out() -> None:
    data, clicks = shown(1)
    with pytest.raises(DataError, match="queries that were displayed: 1, too few to hold 20% of them out"):
        choose(lambda chosen: ByColumn(chosen["column"], []), {"column": [0]}, data, clicks, RHO)
