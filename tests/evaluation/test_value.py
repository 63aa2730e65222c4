"""Verdicts on value: what clicks and purchases are worth, in place of clicks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated_clicks import NOISE

import cldrank as cr
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation
from cldrank.clicks.table import ClickTable

WEIGHTS = {"click": 1.0, "purchase": 10.0}
RHO = cr.Propensities.power(1, 4)


class World:
    """Relevant results are clicked alike; purchases follow a feature that clicks do not show."""

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        features = random.standard_normal((480, 3))
        labels = np.where(features[:, 0] > 0, 1 + 3 * (features[:, 2] > 0), 0)
        self.data = cr.RankingDataset.from_arrays(features, np.arange(480) // 5, labels, name="shop", synthetic=True)
        self.simulation = Simulation(
            self.data, features[:, 0] + 3 * features[:, 1], PositionBased(1.0, NOISE), NeighbourSwaps(0.5), 4,
            relevant_from=1, events={"purchase": 0.4},
        )  # fmt: skip
        self.valuable = features[:, 0] + 2 * (labels > 1)
        self.clicked = (labels > 0).astype(float)

    def draw(self, sessions: float = 20_000, seed: int = 0) -> ClickTable:
        return self.simulation.draw(sessions, seed=seed)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def compared(world: World, clicks: ClickTable) -> Any:
    options: dict[str, Any] = {"clicks": clicks, "propensities": RHO.trusted(), "measures": "DCG@3, Clicks@3"}
    return cr.compare(world.valuable, world.clicked, world.data, **options)


def test_weights_scale_everything(world: World) -> None:
    clicks = world.draw()
    alone, same, weighted = (
        compared(world, each) for each in (clicks, *map(clicks.weighted, ({"click": 1}, {"click": 4})))
    )
    assert (same.measures, same.verdict, same.settling) == (alone.measures, alone.verdict, alone.settling)
    assert alone.support.events == ""
    for name, pair in alone.measures.items():
        one, other = pair.as_dict(), weighted.measures[name].as_dict()
        for key in ("new", "old", "difference", "low", "high", "lowest", "highest"):
            assert other[key] == pytest.approx(4 * one[key], rel=1e-3, abs=1e-3)
    assert weighted.verdict.decision == alone.verdict.decision


def test_a_verdict_on_value_sees_what_clicks_do_not(world: World) -> None:
    clicks = world.draw()
    weighted = clicks.weighted(WEIGHTS)
    on_clicks, on_value = compared(world, clicks), compared(world, weighted)
    assert on_clicks.verdict.decision != "better"
    assert on_value.verdict.decision == "better"
    assert on_value.support.events == weighted.events_in_words
    assert f"purchase ({clicks.events['purchase'].sum():,}, weight 10)" in str(on_value)


def test_the_truth_lies_in_the_interval(world: World) -> None:
    """The expected value of a page, by the chances of the simulation."""
    relevant, events = world.simulation.relevant, world.simulation.after_click
    truth = np.where(relevant, 1.0, NOISE) * (1 + 10 * events.chances["purchase"])
    held = []
    for seed in range(5):
        found = compared(world, world.draw(5000, seed).weighted(WEIGHTS))["DCG@3"]
        gained = 0.0
        for scores, sign in ((world.valuable, 1), (world.clicked, -1)):
            order = np.lexsort((-scores, world.data.row_queries))
            ranks = np.empty(480, dtype=int)
            ranks[order] = np.arange(480) % 5 + 1
            gained += sign * (truth / np.log2(ranks + 1))[ranks <= 3].sum() / 96
        held.append(found.difference.interval.low <= gained <= found.difference.interval.high)
    assert sum(held) >= 4


def test_trust_brings_mean_clicks(world: World) -> None:
    """A base of clicks at each position is worth what clicks are worth on average."""
    clicks = world.draw()
    trust = cr.propensity.AffineClicks.of([1, 0.5, 0.33, 0.25], 1, 0.05)
    options: dict[str, Any] = {"propensities": trust, "measures": "Clicks@3", "estimator": "affine"}
    alone, weighted = (
        cr.evaluate("production", world.data, clicks=each, **options)["Clicks@3"]
        for each in (clicks, clicks.weighted({"click": 3}))
    )
    assert weighted == pytest.approx(3 * alone)


def test_judgements_are_of_value(world: World) -> None:
    clicks = world.draw(1e5)
    alone, weighted = (cr.judge_documents(each, RHO) for each in (clicks, clicks.weighted(WEIGHTS)))
    shown = clicks.shown
    truth = np.where(world.simulation.relevant, 1.0, NOISE) * (
        1 + 10 * world.simulation.after_click.chances["purchase"]
    )
    truth /= clicks.weighted(WEIGHTS).click_value
    errors = [np.abs(judged.relevance - truth)[shown].mean() for judged in (weighted, alone)]
    assert errors[0] < errors[1] / 2
    often = weighted.known & (weighted.examinations > 50)
    assert ((weighted.low <= truth) & (truth <= weighted.high))[often].mean() > 0.8
    assert np.isnan(weighted.relevance[~shown]).all()
    same = cr.judge_documents(clicks.weighted({"click": 2}), RHO)
    assert np.allclose(same.relevance[shown], alone.relevance[shown])
    assert np.allclose(same.low[shown], alone.low[shown], atol=1e-3)
