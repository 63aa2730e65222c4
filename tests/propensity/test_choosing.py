"""All estimators on one log: which one is chosen, and what it finds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import UsageError
from cldrank.propensity import AllPairs, BySegment, RegressionEM
from cldrank.propensity.choosing import all_requirements, fitted_curve


def test_with_a_dataset_relevance_is_modelled_too(logistic: Any) -> None:
    data, clicks = logistic(1.5, queries=80)
    assert not RegressionEM().requirements(clicks).met
    met = [need.estimator for need in all_requirements(clicks, data) if need.met]
    assert met == ["envelope", "regression-em", "dual-learning", "click-through"]


# -- choosing ---------------------------------------------------------------------------------------------------------


def on_every_position(rho: list[float], name: str, seed: int = 0) -> ClickTable:
    """The log of a segment that showed each of 60 results as often at every position."""
    random, size = np.random.default_rng(seed), len(rho)
    data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.arange(60) // 6)
    relevance = np.tile(random.choice([0.5, 0.95], 60), size)
    position = np.repeat(np.arange(1, size + 1), 60)
    return ClickTable.from_arrays(
        data,
        row=np.tile(np.arange(60), size),
        position=position,
        impressions=np.full(60 * size, 2000),
        clicks=random.binomial(2000, relevance * np.array(rho)[position - 1]),
        segment=[name] * 60 * size,
    )


def test_segments_are_clipped_and_one_position_is_certain() -> None:
    table = on_every_position([1, 0.5, 0.33], "desktop").merge(on_every_position([1], "watch", 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found: Any = fitted_curve(BySegment(AllPairs()), table, clip=0.4)
    assert found["watch"].values.tolist() == [1]
    assert found["desktop"].values[2] == pytest.approx(0.4)


def test_segments_go_down_to_the_depth_of_the_estimator() -> None:
    table = on_every_position([1, 0.5, 0.33], "desktop").merge(on_every_position([1], "watch", 1))
    assert [len(rho) for rho in BySegment(AllPairs(depth=2)).fit(table).values()] == [2, 1]
    with pytest.raises(UsageError, match="nothing was shown below position 3"):
        BySegment(AllPairs(depth=4)).fit(table)
