"""Bins of scores: what was judged in a bin is what is expected of it."""

from __future__ import annotations

import numpy as np
import pytest

from cldrank.deconvolution import unit_grid
from cldrank.judgements.filling import ScoreBins
from cldrank.judgements.posterior import GRID

POINTS = unit_grid(GRID)


def certain(relevance: np.ndarray) -> np.ndarray:
    """Posteriors that put all mass on one point of the grid."""
    masses = np.zeros((len(relevance), GRID))
    masses[np.arange(len(relevance)), np.searchsorted(POINTS, relevance).clip(0, GRID - 1)] = 1
    return masses


def test_what_is_expected_is_the_mean_of_a_bin() -> None:
    scores = np.concatenate([np.arange(200.0), [20, 180, -50, 500]])
    relevance = np.where(np.arange(200) < 100, 0.2, 0.7)
    bins = ScoreBins(scores, np.arange(200), np.ones(200, dtype=int))
    bins.add(np.arange(120), certain(relevance[:120]))
    bins.add(np.arange(120, 200), certain(relevance[120:]))
    found = bins.expected(np.arange(200, 204), POINTS) @ POINTS
    assert found == pytest.approx([0.2, 0.7, 0.2, 0.7], abs=0.01)
    np.testing.assert_allclose(bins.expected(np.arange(204), POINTS).sum(axis=1), 1)


def test_a_higher_score_never_means_less() -> None:
    """Where it would, bins are pooled, weighted by how many they hold."""
    scores = np.arange(400.0)
    relevance = np.repeat([0.1, 0.6, 0.4, 0.9], 100)
    bins = ScoreBins(scores, np.arange(400), np.ones(400, dtype=int))
    bins.add(np.arange(400), certain(relevance))
    found = bins.expected(np.arange(400), POINTS) @ POINTS
    assert (np.diff(found) >= 0).all()
    assert found[[150, 250]] == pytest.approx([0.5, 0.5], abs=0.01)


def test_few_documents_and_equal_scores_make_one_bin() -> None:
    for scores in (np.arange(10.0), np.ones(300)):
        bins = ScoreBins(scores, np.arange(len(scores)), np.ones(len(scores), dtype=int))
        bins.add(np.arange(len(scores)), certain(np.linspace(0.1, 0.5, len(scores))))
        found = bins.expected(np.arange(len(scores)), POINTS) @ POINTS
        assert found == pytest.approx(np.full(len(scores), 0.3), abs=0.01)


def test_only_the_lowest_positions_count() -> None:
    """What was never shown was ranked below them; the upper ones are better than their scores say."""
    position = np.repeat([1, 2, 3], [2000, 400, 100])
    relevance = np.choose(position - 1, [0.9, 0.4, 0.2])
    bins = ScoreBins(np.zeros(2501), np.arange(2500), position)
    bins.add(np.arange(2500), certain(relevance))
    assert bins.expected(np.array([2500]), POINTS) @ POINTS == pytest.approx(0.36, abs=0.01)
