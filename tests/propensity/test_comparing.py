"""All estimators on one log: what each finds, and which one is chosen."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError
from cldrank.propensity import (
    AllPairs,
    ClickThrough,
    RegressionEM,
    compare_estimators,
    estimators,
)
from cldrank.propensity.comparing import all_requirements, fitted_segments


def test_all_that_apply_and_why_the_others_do_not(world: Any) -> None:
    found = compare_estimators(world.two_rankers())
    assert {"all-pairs", "adjacent-chain", "click-through"} <= set(found.estimates)
    assert "random order" in found.refusals["randomised"]
    text = str(found)
    assert all(name in text for name in found.estimates)
    assert "envelope, at least" in text
    assert "refused  randomised: needs pages in random order" in text


def test_requirements_say_what_compare_would_find(world: Any) -> None:
    for log in (world.two_rankers(), world.log(), world.shuffled()):
        compared = compare_estimators(log)
        for kind in estimators().values():
            if kind.needs == "cells":
                assert kind().requirements(log).met == (kind.name in compared.estimates)


def test_with_a_dataset_relevance_is_modelled_too(logistic: Any) -> None:
    data, clicks = logistic(1.5, queries=80)
    assert not RegressionEM().requirements(clicks).met
    met = [need.estimator for need in all_requirements(clicks, data) if need.met]
    assert met == ["envelope", "regression-em", "dual-learning", "click-through"]
    few = {"regression-em": RegressionEM(), "all-pairs": AllPairs(), "click-through": ClickThrough()}
    found = compare_estimators(clicks, few, data)
    assert list(found.estimates) == ["regression-em", "click-through"]
    assert "regression-em: relevance is modelled, not held fixed" in str(found)
    assert "needs the features" in compare_estimators(clicks, few).refusals["regression-em"]
    with pytest.raises(CldrankError, match="no estimators to compare\\."):
        compare_estimators(clicks, {})


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
        found = fitted_segments(AllPairs(), table, clip=0.4)
    assert found["watch"].values.tolist() == [1]
    assert found["desktop"].values[2] == pytest.approx(0.4)
