from __future__ import annotations

import numpy as np
import pytest

import cldrank as cr
from cldrank.errors import UsageError


@pytest.fixture
def data() -> cr.RankingDataset:
    return cr.RankingDataset.from_arrays(np.eye(4), [1, 1, 2, 2], labels=[1, 0, 1, 0])


def test_production_is_the_order_of_a_log(data: cr.RankingDataset) -> None:
    with pytest.raises(UsageError, match="give clicks= and propensities="):
        cr.compare(np.arange(4), "production", data)
    with pytest.raises(UsageError, match="give clicks= and propensities="):
        cr.evaluate("production", data)


def test_clicks_and_propensities_go_together(data: cr.RankingDataset) -> None:
    with pytest.raises(UsageError, match="clicks are missing"):
        cr.evaluate("production", data, propensities=cr.Propensities.power(1, 2))  # type: ignore[call-overload]
