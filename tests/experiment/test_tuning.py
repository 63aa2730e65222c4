from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.experiment.tuning import choose, click_quality
from cldrank.propensity import Propensities

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
        self.fits.append(dataset.n_queries)
        return self

    def predict(self, X: Any) -> Any:
        return np.asarray(X)[:, self.column]


def test_by_hand() -> None:
    data = RankingDataset.from_arrays(np.zeros((4, 1)), [1, 1, 1, 1])
    clicks = ClickTable.from_arrays(data, position=[1, 2, 3, 0], impressions=[10, 10, 10, 0], clicks=[2, 3, 0, 0])
    worth = [2.0, 6.0, 0.0]
    best = worth[1] + worth[0] / np.log2(3)
    scores = np.array([3.0, 1.0, 2.0, 9.0])  # the last one was never shown, so it does not count
    expected = (worth[0] + worth[1] / 2) / best
    assert click_quality(scores, data, clicks, RHO) == pytest.approx(expected)


def test_debiased_clicks_show_what_is_relevant_and_raw_ones_where_it_stood() -> None:
    data, clicks = shown()
    right, flat = RHO, Propensities.power(0.0, 3)
    assert click_quality(data.features[:, 0].astype(float), data, clicks, right) > 0.999
    assert click_quality(data.features[:, 0].astype(float), data, clicks, flat) < 0.97


@given(st.integers(0, 50), st.floats(0.1, 10), st.floats(-5, 5))
def test_only_the_order_matters(seed: int, scale: float, shift: float) -> None:
    data, clicks = shown(5, seed=3)
    scores = np.round(np.random.default_rng(seed).random(data.n_rows), 3)
    quality = click_quality(scores, data, clicks, RHO)
    assert 0 < quality <= 1
    assert click_quality(np.round(scores * 1000) * scale + shift, data, clicks, RHO) == pytest.approx(quality)


def test_the_best_is_chosen_and_what_is_held_out_is_not_learned_from() -> None:
    data, clicks = shown()
    fits: list[int] = []

    def make(parameters: Mapping[str, Any]) -> ByColumn:
        return ByColumn(parameters["column"], fits)

    choice = choose(make, {"column": [1, 0]}, data, clicks, RHO, held_out=0.25)
    assert choice.parameters == {"column": 0}
    assert [parameters for parameters, _ in choice.tries] == [{"column": 1}, {"column": 0}]
    assert choice.tries[1][1] > choice.tries[0][1]
    assert fits == [15, 15]
    again = choose(make, {"column": [1, 0]}, data, clicks, RHO, held_out=0.25)
    assert again == choice


def test_there_must_be_something_to_hold_out() -> None:
    data, clicks = shown(1)
    with pytest.raises(DataError, match="fewer than two"):
        choose(lambda chosen: ByColumn(chosen["column"], []), {"column": [0]}, data, clicks, RHO)
    none = ClickTable.from_arrays(data, position=[1, 2, 3, 0, 0], impressions=[1, 1, 1, 0, 0], clicks=[0] * 5)
    with pytest.raises(DataError, match="no click fell on the held-out queries"):
        click_quality(np.zeros(5), data, none, RHO)
