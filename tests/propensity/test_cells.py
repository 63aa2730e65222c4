from __future__ import annotations

import numpy as np

from cldrank.propensity.cells import deal, draw_weights


def test_few_units_are_a_group_each() -> None:
    group, groups, units = deal(np.array([7, 3, 7, 9]), positions=5)
    assert (groups, units) == (3, 3)
    assert group.tolist() == [1, 0, 1, 2]


def test_many_units_share_groups_of_equal_size() -> None:
    unit = np.repeat(np.arange(5_000), 2)
    group, groups, units = deal(unit, positions=5, seed=1)
    assert (groups, units) == (2_000, 5_000)
    assert (group[::2] == group[1::2]).all()  # a unit stays together
    assert set(np.bincount(group[::2])) == {2, 3}
    assert (deal(unit, positions=5, seed=1)[0] == group).all()
    assert (deal(unit, positions=5, seed=2)[0] != group).any()


def test_every_replicate_draws_as_many_groups_as_there_are() -> None:
    weights = draw_weights(50, 20, seed=3)
    assert weights.shape == (21, 50)
    assert (weights[0] == 1).all()  # the log itself
    assert (weights.sum(axis=1) == 50).all()
