"""Bins of scores: what was judged in a bin is what is expected of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from cldrank.deconvolution import unit_grid
from cldrank.judgements.filling import ScoreBins
from cldrank.judgements.posterior import GRID
from cldrank.judgements.sightings import Sightings

POINTS = unit_grid(GRID)


def bins_of(scores: np.ndarray, kinds: int, position: np.ndarray, kind: np.ndarray | None = None) -> ScoreBins:
    """For rows from 0 that were shown, each of a kind of its own unless they are named; kinds have positions."""
    kind = np.arange(kinds) if kind is None else kind
    places = np.arange(1, position.max() + 1)
    none = csr_array((kinds, len(places)))
    seen = Sightings(np.arange(len(kind)), kind, np.bincount(kind), places, position - 1, none, none)
    return ScoreBins(scores, seen, places)


def certain(relevance: np.ndarray) -> np.ndarray:
    """Posteriors that put all mass on one point of the grid."""
    masses = np.zeros((len(relevance), GRID))
    masses[np.arange(len(relevance)), np.searchsorted(POINTS, relevance).clip(0, GRID - 1)] = 1
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
