from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.simulate import Cascade, ClickModel, DependentClicks, PositionBased, ShuffledShare, TrustBiased
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError
from cldrank.propensity import AllPairs, Propensities, Randomised, check_attraction

MODELS: list[tuple[ClickModel, bool]] = [
    (PositionBased(1, 0.1), True),
    (PositionBased(0.3, 0.5), True),
    (TrustBiased(1), False),
    (Cascade(0.1), False),
    (DependentClicks(0.1, 0.3), False),
]


@pytest.mark.parametrize(("model", "position_based"), MODELS, ids=str)
def test_tells_position_bias_from_what_is_more(world: Any, model: ClickModel, position_based: bool) -> None:
    log = world.log(ShuffledShare(1.0), 5e4, model=model)
    rho = Randomised(refuse_above=5).fit(log)
    found = check_attraction(log, rho)
    assert found is not None
    assert (found.p_value > 0.01) == position_based
    assert ("alike" in str(found)) == position_based
    assert any("not position bias alone" in note for note in rho.notes) != position_based


def test_trust_keeps_the_clicks_of_attractive_results(world: Any) -> None:
    log = world.two_rankers(model=TrustBiased(1))
    found = check_attraction(log, AllPairs().fit(log))
    assert found is not None
    assert found.difference > 0.1
    assert found.p_value < 0.01


def test_seldom_cries_wolf(world: Any) -> None:
    found = [check_attraction(log, Propensities.power(1, 5)) for log in map(world.two_rankers, [2e4] * 25, range(25))]
    values = np.array([entry.p_value for entry in found if entry is not None])
    assert len(values) == 25
    assert (values < 0.05).mean() <= 0.2
    assert values.mean() > 0.3


def test_large_logs_are_looked_at_in_part(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.log(ShuffledShare(1.0), 5e4, model=TrustBiased(1))
    monkeypatch.setattr("cldrank.propensity.estimator._ENOUGH", 1)
    monkeypatch.setattr("cldrank.propensity.estimator.FEWEST_GROUPS", 60)
    found = check_attraction(log, Propensities.power(1, 5))
    assert found is not None
    assert found.p_value < 0.01


def test_says_nothing_where_nothing_can_be_compared(world: Any) -> None:
    assert check_attraction(world.log(), Propensities.power(1, 5)) is None
    data = cr.RankingDataset.from_arrays(np.zeros((2, 1)), [0, 0])
    few = ClickTable.from_arrays(data, row=[0, 0, 1, 1], position=[1, 2, 1, 2], impressions=[9] * 4, clicks=[3] * 4)
    assert check_attraction(few, Propensities.power(1, 2)) is None
    with pytest.raises(CldrankError, match="at least 20"):
        check_attraction(few, Propensities.power(1, 2), replicates=1)
