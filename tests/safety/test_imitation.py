"""Production as a ranker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import cldrank as cr
from cldrank import segments
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.distillation import within_spread
from cldrank.safety.imitation import heights, imitate, shown_alike

RANDOM = np.random.default_rng(3)
FEATURES = RANDOM.normal(size=(200 * 12, 5))
DATA = cr.RankingDataset.from_arrays(FEATURES, np.arange(2400) // 12, RANDOM.integers(0, 2, 2400))
SCORES = FEATURES @ [3.0, -1.0, 0.5, 0.0, 0.1]


def test_heights_are_the_mean_over_pages() -> None:
    data = cr.RankingDataset.from_arrays([[1], [2], [3], [4]], [7] * 4)
    shown = {"row": [0, 0, 1, 1], "position": [1, 2, 1, 2], "impressions": [8, 2, 2, 8], "clicks": [1, 1, 1, 1]}
    np.testing.assert_allclose(heights(cr.ClickTable.from_arrays(data, **shown)), [0.9, 0.6, 0, 0])


def test_a_linear_production_is_found_again() -> None:
    """Also the order of what it never showed."""
    clicks = Simulation(DATA, SCORES, PositionBased(), depth=4).draw(5000, seed=0)
    learned = cr.Naive().fit(DATA[:150], clicks[:150])
    found = imitate(learned.ranker_, learned, DATA[:150], clicks[:150])
    ranks, expected = (segments.descending_ranks(one, DATA.offsets) for one in (found.predict(DATA), SCORES))
    assert (ranks == expected)[1800:].mean() > 0.9
    assert shown_alike(ranks[1800:], clicks[150:]) > 0.98


def test_trees_and_a_linear_model_compete() -> None:
    """The one that shows more of production's results stands for it."""
    steps = np.where(FEATURES[:, 0] > 0, 4.0, 0.0) * np.sign(FEATURES[:, 1] * FEATURES[:, 2]) + FEATURES[:, 1] ** 2
    kinds = []
    for scores in (SCORES, steps):
        clicks = Simulation(DATA, scores, PositionBased(), depth=4).draw(20_000, seed=0)
        learned = cr.Naive(model=cr.Trees(rounds=60, min_weight=5.0, column_share=1.0)).fit(DATA, clicks)
        kinds.append(imitate(learned.ranker_, learned, DATA, clicks).kind)
    assert kinds == ["linear", "trees"]


def test_what_a_run_leaves_and_tells_is_about_the_learned_ranker(tmp_path: Path) -> None:
    clicks = Simulation(DATA, SCORES, PositionBased(), depth=4).draw(5000, seed=0)
    heard: list[Any] = []
    run = cr.Run(on_epoch=heard.append, checkpoint=tmp_path / "state")
    learned = cr.Naive(model=cr.Trees(rounds=3), run=run).fit(DATA, clicks)
    left = (tmp_path / "state").read_bytes()
    imitate(learned.ranker_, learned, DATA, clicks)
    assert len(heard) == len(learned.history_)
    assert (tmp_path / "state").read_bytes() == left


def test_overlap_counts_impressions() -> None:
    data = cr.RankingDataset.from_arrays([[1], [2], [3], [1], [2]], [7, 7, 7, 8, 8])
    clicks = cr.ClickTable.from_arrays(
        data, position=[1, 2, 0, 1, 0], impressions=[10, 10, 0, 5, 0], clicks=[1, 1, 0, 1, 0]
    )
    assert shown_alike(np.array([1, 3, 2, 2, 1]), clicks) == 10 / 25


def test_spread_is_that_within_queries() -> None:
    scores = RANDOM.normal(size=2400) + 100 * DATA.row_queries
    by_query = scores.reshape(200, 12)
    expected = np.sqrt(((by_query - by_query.mean(axis=1, keepdims=True)) ** 2).mean())
    assert np.isclose(within_spread(scores, DATA), expected)
