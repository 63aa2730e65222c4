"""Likelihoods beside binomials multiplied one by one."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.judgements.relevance_posterior import ClickCounts
from cldrank.propensity import AffineClicks, Propensities
from cldrank.propensity.segment_propensities import Curve

GRID = np.array([0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])


def table() -> ClickTable:
    """Row 1 was never shown; row 2 was at three positions, twice as often at one of them."""
    data = RankingDataset.from_arrays(np.zeros((4, 1)), [1, 1, 1, 1])
    return ClickTable.from_arrays(
        data,
        row=[0, 2, 2, 2, 3, 3],
        position=[1, 1, 2, 4, 2, 4],
        impressions=[9, 10, 20, 5, 6, 6],
        clicks=[9, 3, 0, 2, 1, 0],
    )


def by_hand(cells: list[tuple[int, int, float, float]]) -> np.ndarray:
    chance = np.prod([binom.pmf(c, n, np.minimum(slope * GRID + base, 1)) for c, n, slope, base in cells], axis=0)
    return np.asarray(chance / chance.max())


def likelihood(log: ClickTable, curve: Curve) -> np.ndarray:
    """(shown, grid)"""
    counts = ClickCounts.of(log)
    return counts.likelihood(counts.group, counts.click_probability(log, curve, GRID))


def test_cells_of_a_candidate_multiply() -> None:
    np.testing.assert_array_equal(ClickCounts.of(table()).rows, [0, 2, 3])
    found = likelihood(table(), Propensities.power(1, 4))
    np.testing.assert_allclose(found[0], by_hand([(9, 9, 1, 0)]))
    np.testing.assert_allclose(found[1], by_hand([(3, 10, 1, 0), (0, 20, 0.5, 0), (2, 5, 0.25, 0)]))
    np.testing.assert_allclose(found[2], by_hand([(1, 6, 0.5, 0), (0, 6, 0.25, 0)]))


def test_bases_are_clicks_that_owe_nothing_to_relevance() -> None:
    affine = AffineClicks(np.array([0.5, 0.4, 0.3, 0.2]), np.array([0.3, 0.2, 0.1, 0.0]))
    found = likelihood(table(), affine)
    np.testing.assert_allclose(found[1], by_hand([(3, 10, 0.5, 0.3), (0, 20, 0.4, 0.2), (2, 5, 0.2, 0.0)]))


def test_probabilities_beyond_0_and_1_leave_the_rest_possible() -> None:
    """An estimated curve may say that some relevance is impossible; what was observed then decides among the others."""
    affine = AffineClicks(np.array([2.0, 2, 2, 2]), np.array([-1.0, -1, -1, -1]))
    found = likelihood(table(), affine)
    assert np.isfinite(found).all()
    assert (found.max(axis=1) == 1).all()
    assert (found[:, GRID < 0.5] < 1e-9).all()
    above = likelihood(table(), AffineClicks(np.full(4, 2.0), np.zeros(4)))
    assert (above[0, GRID > 0.5] < 1e-9).all()  # clicked at all its impressions
    nothing_clicked = ClickTable.from_arrays(
        RankingDataset.from_arrays([[0]], [1]), position=[2], impressions=[9], clicks=[0]
    )
    found = likelihood(nothing_clicked, affine)
    assert GRID[found[0].argmax()] == 0.5  # where no click is expected, but not where less than none would be
    assert (found[0, GRID < 0.5] < 1e-9).all()


def test_home_is_where_a_candidate_was_shown_most_and_of_several_the_first() -> None:
    counts = ClickCounts.of(table())
    assert table().position[counts.slot_cell[counts.main_slot[counts.group]]].tolist() == [1, 2, 2]


def test_candidates_are_of_one_kind_if_all_their_cells_are_the_same() -> None:
    """Beside comparing the cells of every two; counts are small, so that some agree and others nearly do."""
    random = np.random.default_rng(0)
    rows, cells = 300, 700
    data = RankingDataset.from_arrays(np.zeros((rows, 1)), np.arange(rows) // 10)
    row, position = random.integers(0, rows, cells), random.integers(1, 4, cells)
    impressions = random.integers(1, 4, cells)
    clicks = random.integers(0, 2, cells) * (impressions > 1)  # so that clicks alone do not tell impressions apart
    log = ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)
    counts = ClickCounts.of(log)
    columns = np.stack([log.position, log.impressions, log.clicks], axis=1)
    evidence = [tuple(map(tuple, columns[log.row == one].tolist())) for one in counts.rows]
    distinct = sorted(set(evidence))
    assert len(counts.size) == len(distinct) < len(counts.rows)
    pairs = set(zip(counts.group.tolist(), evidence, strict=True))
    assert len(pairs) == len(distinct)
    for kind, cells_of_kind in pairs:
        assert counts.size[kind] == evidence.count(cells_of_kind)
        assert counts.clicked[[kind]].sum() == sum(one[2] for one in cells_of_kind)
        assert counts.missed[[kind]].sum() == sum(one[1] - one[2] for one in cells_of_kind)
