"""Events with weights in training: targets of value, and what a click on each candidate is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cldrank as cr
from cldrank.clicks.table import ClickTable
from cldrank.errors import UsageError
from cldrank.methods.click_worth import ClickWorth
from cldrank.methods.observing import observe
from cldrank.methods.relevance import estimated_relevance

WEIGHTS = {"click": 1.0, "purchase": 10.0}
RHO = cr.Propensities.power(1, 3)


def log(rows: int = 300, clicks: int = 50, seed: int = 0) -> tuple[cr.RankingDataset, ClickTable, Any]:
    """Candidates, clicks on them, and how many of the clicks on each are followed by a purchase, in the long run."""
    random = np.random.default_rng(seed)
    chance = random.choice([0.02, 0.3], rows)
    data = cr.RankingDataset.from_arrays(np.stack([chance, random.random(rows)], axis=1), np.arange(rows) // 3)
    position = np.arange(rows) % 3 + 1
    number = random.binomial(4 * clicks, 0.5 / position)
    cells = {"position": position, "impressions": np.full(rows, 4 * clicks), "clicks": number}
    table = ClickTable.from_arrays(data, **cells, events={"purchase": random.binomial(number, chance)})
    return data, table, chance


def test_clicks_of_any_weight_are_clicks() -> None:
    data, table, _ = log()
    for weights in ({"click": 1.0}, {"click": 7.0}):
        weighted = table.weighted(weights)
        for target in ("ips", "clipped", "posterior", "mixed"):
            alone, same = (observe(data, each, RHO, target).target for each in (table, weighted))
            assert np.allclose(alone, same)


def test_ips_is_value_over_examinations() -> None:
    data, table, _ = log()
    weighted = table.weighted(WEIGHTS)
    expected = weighted.value / (table.impressions * RHO.per_cell(table)) / weighted.click_value
    assert np.allclose(estimated_relevance(weighted, RHO, "ips"), expected)
    assert np.allclose(observe(data, weighted, RHO).target, expected)
    affine = cr.propensity.AffineClicks.of([1, 0.5, 0.3], 1, 0.1)
    slope, base = 0.9 * np.array([1, 0.5, 0.3]), 0.1 * np.array([1, 0.5, 0.3])
    at = table.position - 1
    corrected = (weighted.value / weighted.click_value / table.impressions - base[at]) / slope[at]
    assert np.allclose(observe(data, weighted, affine).target, corrected)


def test_few_clicks_say_little_of_what_they_are_worth() -> None:
    for clicks, off in ((2, 0.55), (20, 0.3), (2000, 0.05)):
        _, table, chance = log(clicks=clicks)
        worth = ClickWorth.of(table.weighted(WEIGHTS), RHO)
        truth = (1 + 10 * chance) / table.weighted(WEIGHTS).click_value
        own = np.bincount(table.row, table.weighted(WEIGHTS).credit) / np.maximum(table.row_clicks, 1)
        error = float(np.sqrt(((worth.expected - truth) ** 2).mean()))
        assert error < off
        assert error <= np.sqrt(((own - truth) ** 2).mean())
        assert (np.abs(worth.expected - truth) <= 1.645 * worth.error).mean() > 0.8
    assert worth.most == pytest.approx(11 / table.weighted(WEIGHTS).click_value)


def test_without_differences_all_clicks_are_worth_the_same() -> None:
    data = cr.RankingDataset.from_arrays(np.zeros((4, 1)), [7] * 4)
    cells = {"position": [1, 2, 3, 0], "impressions": [90, 90, 90, 0], "clicks": [40, 40, 1, 0]}
    table = ClickTable.from_arrays(data, **cells, events={"purchase": [10, 10, 0, 0]})
    worth = ClickWorth.of(table.weighted(WEIGHTS), RHO)
    assert np.allclose(worth.expected, 1)
    assert (worth.error > 0).all()


@pytest.mark.parametrize("method", [cr.IPS(model=cr.Linear()), cr.PolicyAwareIPS(model=cr.Linear())])
def test_rankers_follow_value(method: Any) -> None:
    """Clicks are alike everywhere, and purchases follow the first feature."""
    data, table, chance = log(clicks=500)
    scores = method.fit(data, table.weighted(WEIGHTS), RHO).predict(data)
    assert np.corrcoef(scores, chance)[0, 1] > 0.9
    assert "purchase" in method.ranker_.provenance.clicks.events


def test_single_impressions_know_no_weights() -> None:
    data, table, _ = log()
    with pytest.raises(UsageError, match="weights of events"):
        cr.CLD(target="clicks").fit(data, table.weighted(WEIGHTS), RHO)
