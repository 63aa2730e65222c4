from __future__ import annotations

import numpy as np

from cldrank.clicks.units import FEW_QUERIES, PairGraph, deal, draw_weights, many_queries


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


def test_deep_logs_have_fewer_groups() -> None:
    assert deal(np.arange(5_000), positions=200)[1] == 201


def test_every_replicate_draws_as_many_groups_as_there_are() -> None:
    weights = draw_weights(50, 20, seed=3)
    assert weights.shape == (20, 50)
    assert (weights.sum(axis=1) == 50).all()


def test_many_queries() -> None:
    assert not many_queries(np.arange(FEW_QUERIES - 1))
    assert many_queries(np.arange(FEW_QUERIES))


def test_potentials_follow_the_flow_also_of_a_single_place() -> None:
    graph = PairGraph(np.array([0, 1]), np.array([1, 2]), 3)
    weight = np.array([[2.0, 4.0]])
    found = graph.potentials(graph.laplacian(weight), graph.scatter(weight * np.array([[0.5, -1.0]])))
    np.testing.assert_allclose(found, [[0.0, 0.5, -0.5]])
    alone = PairGraph(np.zeros(0, np.int64), np.zeros(0, np.int64), 1)
    np.testing.assert_array_equal(alone.potentials(np.zeros((2, 1, 1)), np.zeros((2, 1))), np.zeros((2, 1)))
