"""Likelihoods beside binomials multiplied one by one; what was judged in a bin of scores is what is expected of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom

from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.deconvolution import unit_grid
from cldrank.judgements.relevance_posterior import GRID as POSTERIOR_GRID
from cldrank.judgements.relevance_posterior import ClickCounts, ScoreBins
from cldrank.propensity import AffineClicks, Propensities
from cldrank.propensity.segment_propensities import Curve

POINTS = unit_grid(POSTERIOR_GRID)
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
    log = ClickTable.from_arrays(
        data, row=row, position=position, impressions=impressions, clicks=random.integers(0, 2, cells)
    )
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


def bins_of(scores: np.ndarray, kinds: int, position: np.ndarray, kind: np.ndarray | None = None) -> ScoreBins:
    """For rows from 0 that were shown, each of a kind of its own unless they are named; kinds have positions."""
    kind = np.arange(kinds) if kind is None else kind
    places = np.arange(1, position.max() + 1)
    none = csr_array((kinds, len(places)))
    counts = ClickCounts(np.arange(len(kind)), kind, np.bincount(kind), places, position - 1, none, none)
    return ScoreBins(scores, counts, places)


def certain(relevance: np.ndarray) -> np.ndarray:
    """Posteriors that put all mass on one point of the grid."""
    masses = np.zeros((len(relevance), POSTERIOR_GRID))
    masses[np.arange(len(relevance)), np.searchsorted(POINTS, relevance).clip(0, POSTERIOR_GRID - 1)] = 1
    return masses


def test_what_is_expected_is_the_mean_of_a_bin() -> None:
    scores = np.concatenate([np.arange(200.0), [20, 180, -50, 500]])
    relevance = np.where(np.arange(200) < 100, 0.2, 0.7)
    bins = bins_of(scores, 200, np.ones(200, dtype=int))
    bins.add(np.arange(120), certain(relevance[:120]))
    bins.add(np.arange(120, 200), certain(relevance[120:]))
    found = bins.expected(np.arange(200, 204), POINTS) @ POINTS
    assert found == pytest.approx([0.2, 0.7, 0.2, 0.7], abs=0.01)
    np.testing.assert_allclose(bins.expected(np.arange(204), POINTS).sum(axis=1), 1)


def test_a_higher_score_never_means_less() -> None:
    """Where it would, bins are pooled, weighted by how many they hold."""
    scores = np.arange(400.0)
    relevance = np.repeat([0.1, 0.6, 0.4, 0.9], 100)
    bins = bins_of(scores, 400, np.ones(400, dtype=int))
    bins.add(np.arange(400), certain(relevance))
    found = bins.expected(np.arange(400), POINTS) @ POINTS
    assert (np.diff(found) >= 0).all()
    assert found[[150, 250]] == pytest.approx([0.5, 0.5], abs=0.01)


def test_few_documents_and_equal_scores_make_one_bin() -> None:
    for scores in (np.arange(10.0), np.ones(300)):
        bins = bins_of(scores, len(scores), np.ones(len(scores), dtype=int))
        bins.add(np.arange(len(scores)), certain(np.linspace(0.1, 0.5, len(scores))))
        found = bins.expected(np.arange(len(scores)), POINTS) @ POINTS
        assert found == pytest.approx(np.full(len(scores), 0.3), abs=0.01)


def test_only_the_lowest_positions_count() -> None:
    """What was never shown was ranked below them; the upper ones are better than their scores say."""
    position = np.repeat([1, 2, 3], [2000, 400, 100])
    relevance = np.choose(position - 1, [0.9, 0.4, 0.2])
    bins = bins_of(np.zeros(2501), 2500, position)
    bins.add(np.arange(2500), certain(relevance))
    assert bins.expected(np.array([2500]), POINTS) @ POINTS == pytest.approx(0.36, abs=0.01)


def test_documents_of_one_kind_count_each() -> None:
    """Nine in ten of the lower scores are of a kind, and so is one in ten of the upper."""
    scores = np.arange(200.0)
    kind = np.where(np.arange(200) % 100 < np.repeat([90, 10], 100), 0, 1)
    bins = bins_of(scores, 2, np.ones(2, dtype=int), kind)
    bins.add(np.array([0]), certain(np.array([0.2])))
    bins.add(np.array([1]), certain(np.array([0.7])))
    found = bins.expected(np.array([0, 199]), POINTS) @ POINTS
    assert len(bins.ends) == 3
    assert found == pytest.approx([0.2, 0.7], abs=0.01)
    np.testing.assert_allclose(bins.total.sum(axis=1), 50)
