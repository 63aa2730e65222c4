from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.ratings import Ratings
from cldrank.errors import CldrankWarning
from cldrank.methods.rating_quality import Examined, agreement, rated_relevance, rating_levels


def world(quality: float, seed: int = 0) -> tuple[np.random.Generator, np.ndarray[Any, Any], Any]:
    """Relevance of 400 results of 100 queries, and ratings that follow it as well as `quality` says."""
    random = np.random.default_rng(seed)
    relevance = random.choice([0.1, 0.8], 400)
    return random, relevance, quality * relevance + random.normal(size=400)


def examined(relevance: Any, random: np.random.Generator) -> Examined:
    exposure = np.full(len(relevance), 5.0)
    return Examined(exposure, random.binomial(5, relevance).astype(float), np.arange(len(relevance)) // 4)


def test_the_concordance_is_that_of_pairs() -> None:
    random, relevance, ratings = world(2.0)
    shown = examined(relevance, random)
    rated = np.round(ratings)
    higher = (rated[:, None] > rated) + 0.5 * (rated[:, None] == rated)
    pairs = shown.clicks[:, None] * (5 - shown.clicks)
    measured = agreement("machines", rated, shown).concordance
    assert measured is not None
    assert measured.estimate == pytest.approx((higher * pairs).sum() / pairs.sum())
    assert 0.5 < measured.low < measured.high < 1


def test_the_interval_holds_the_truth() -> None:
    truth, held = 0.0, 0
    rounds = [world(1.0, seed) for seed in range(100)]
    measured = [
        agreement("machines", ratings, examined(relevance, random)).concordance for random, relevance, ratings in rounds
    ]
    truth = float(np.mean([each.estimate for each in measured if each is not None]))
    held = sum(each is not None and each.low <= truth <= each.high for each in measured)
    assert held >= 80


def test_ratings_by_chance_are_not_used() -> None:
    random, relevance, ratings = world(0.0, seed=1)
    by_chance = agreement("machines", ratings, examined(relevance, random))
    assert not by_chance.is_used
    assert "not used" in str(by_chance)
    few = np.where(np.arange(400) < 10, ratings, np.nan)
    assert agreement("people", few, examined(relevance, random)).concordance is None


@pytest.mark.parametrize("reversed_scale", [True, False])
def test_ratings_that_disagree_with_clicks_are_asked_about_their_scale(reversed_scale: bool) -> None:
    random, relevance, ratings = world(2.0)
    told = agreement("machines", -ratings if reversed_scale else ratings, examined(relevance, random))
    assert told.is_used == (not reversed_scale)
    assert ("disagree with clicks" in str(told), "scale reversed?" in str(told)) == (reversed_scale, reversed_scale)
    by_chance = agreement("machines", random.normal(size=400), examined(relevance, random))
    assert "scale" not in str(by_chance)


def test_people_come_before_machines_each_by_its_own_calibration() -> None:
    random, relevance, _ = world(0.0)
    data = cr.RankingDataset.from_arrays(np.zeros((400, 1)), np.arange(400) // 4)
    counts = {"impressions": np.full(400, 50), "clicks": random.binomial(50, relevance)}
    clicks = cr.ClickTable.from_arrays(data, position=np.ones(400, dtype=int), **counts)
    machine, people = (relevance > 0.5).astype(float), np.where(np.arange(400) < 200, 100.0 * relevance, np.nan)
    agreements, stands_for = rated_relevance(clicks.rated(Ratings(people, machine)), cr.Propensities.power(1, 1))
    assert [each.raters for each in agreements] == ["people", "machines"]
    np.testing.assert_allclose(stands_for, relevance, atol=0.03)


def test_levels_of_what_is_not_rated_are_apart() -> None:
    levels = rating_levels(np.concatenate([np.linspace(0, 1, 800), [np.nan]]))
    assert levels[-1] == 0
    assert np.bincount(levels[:-1]).tolist() == [0, *[100] * 8]


def test_methods_without_priors_say_that_they_ignore_ratings() -> None:
    random, relevance, ratings = world(2.0)
    data = cr.RankingDataset.from_arrays(random.normal(size=(400, 1)), np.arange(400) // 4)
    position = np.tile([1, 2, 3, 0], 100)
    counts = {"impressions": np.where(position, 20, 0), "clicks": np.where(position, random.binomial(20, relevance), 0)}
    clicks = cr.ClickTable.from_arrays(data, position=position, **counts).rated(Ratings(np.full(400, np.nan), ratings))
    with pytest.warns(CldrankWarning, match="posterior"):
        cr.IPS(target="ips").fit(data, clicks, cr.Propensities.power(0, 3))
