"""Weighted rows from clicks."""

import numpy as np
import pytest
from scenes import by_session, scene

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods.observing import observe
from cldrank.propensity import Propensities


def test_rows_of_clicks_weigh_what_they_stand_for() -> None:
    data = RankingDataset.from_arrays(np.eye(7), [1, 1, 1, 2, 2, 3, 3])
    table = ClickTable.from_arrays(
        data, row=[0, 1, 0, 5], position=[1, 2, 2, 1], impressions=[6, 6, 4, 5], clicks=[3, 3, 1, 5]
    )
    found = observe(data, table, Propensities.power(1, 2))
    np.testing.assert_array_equal(found.rows, [0, 1, 2, 5, 6])  # query 2 was never displayed
    np.testing.assert_array_equal(found.absent, [0, 0, 10, 0, 5])  # ten pages: six and four impressions at position 2
    np.testing.assert_allclose(found.target, [0.5, 0.5, 1, 1])
    np.testing.assert_array_equal(found.weight, [6, 4, 6, 5])
    assert (found.total, found.n_rows) == (36, 6)
    pairs = observe(data, table, Propensities.power(1, 2), "clicks")
    np.testing.assert_allclose(pairs.target, [1, 0, 2, 0, 2, 0, 1])
    np.testing.assert_array_equal(pairs.weight, [3, 3, 1, 3, 3, 3, 5])
    np.testing.assert_array_equal(pairs.offsets, [0, 4, 6, 7])
    assert pairs.total == 36


def test_rows_of_regression_keep_the_mean_of_single_impressions() -> None:
    given = scene()
    rows, targets = by_session(given)
    for target in ("ips", "clicks"):
        observed = observe(given.data, given.clicks, given.propensities, target)
        mean, weight = observed.by_row()
        for place, row in enumerate(observed.rows[observed.shown]):
            own = targets[rows == row]
            assert weight[place] == len(own)
            assert mean[place] == pytest.approx(own.mean())
