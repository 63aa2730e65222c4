from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact_log import KnownWorld
from numpy.typing import NDArray
from settled_cases import DCG, a_pair, known_model, orders_of, pages_of, settled, unseen_world

import cldrank as cr
from cldrank.evaluation.click_results import Errors
from cldrank.evaluation.settling import say_way, swap_variances, trial_variance
from cldrank.propensity import AffineClicks

# -- the unseen ---------------------------------------------------------------------------------------------------


def test_the_unseen_stay_unseen_in_more_of_the_log() -> None:
    _, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).gain.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.01 * gain, extrapolation=1.1 * gain))
    more = settled(clicks, new, old, pair)["more of this log"]
    assert (more.pages, more.about) == (None, "the unseen stay unseen")
    assert say_way(more) == "More of this log would not settle it: the unseen stay unseen."
    pair = a_pair(clicks, new, old, errors=Errors(0.4 * gain, extrapolation=0.5 * gain))
    half = a_pair(clicks, new, old, errors=Errors(0.8 * gain))
    found = [pages_of(settled(clicks, new, old, one)["more of this log"]) for one in (pair, half)]
    assert found[0] == found[1]  # half of the gain is left, and the bias stays


def test_a_trial_of_the_unseen_of_the_planned_pages_settles_it_in_80_percent() -> None:
    world, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).gain.estimate
    errors = Errors(0.2 * gain, 0.25 * gain, extrapolation=2 * gain)
    pair = a_pair(clicks, new, old, errors=errors)
    trial = settled(clicks, new, old, pair)["trial of unseen results"]
    pages, random = pages_of(trial), np.random.default_rng(8)
    weights = clicks.weights(DCG, new) - clicks.weights(DCG, old)
    unseen = np.flatnonzero(clicks.unseen & (weights != 0))
    assert f"one of {len(unseen)} results that nobody has seen" in trial.about
    size, relevance = np.abs(weights[unseen]), world.relevance.ravel()[unseen]
    truth = float(weights[unseen] @ relevance)
    decided = []
    for _ in range(600):
        chosen = random.choice(len(unseen), pages, p=size / size.sum())
        rho = world.curve.values[random.integers(3, size=pages)]
        clicked = random.random(pages) < rho * relevance[chosen]
        seen = np.sign(weights[unseen][chosen]) * size.sum() * clicked / rho
        rest = np.hypot(errors.queries, errors.propensities)
        found = gain + (seen.mean() - truth) + rest * random.standard_normal()
        decided.append(found > clicks.quantile * np.hypot(rest, seen.std() / np.sqrt(pages)))
    assert np.mean(decided) == pytest.approx(0.8, abs=0.05)


def test_the_variance_of_a_trial_knows_clicks_that_positions_bring() -> None:
    world = KnownWorld.draw(queries=5, candidates=5, seed=7)
    affine = AffineClicks(np.array([0.7, 0.4, 0.2]), np.array([0.2, 0.1, 0.05]))
    log = world.log().with_curve(affine)
    weights, relevance = np.array([1.0, -0.5, 2.0]), np.array([0.9, 0.1, 1.0])
    random, n = np.random.default_rng(0), 400_000
    chosen = random.choice(3, n, p=np.abs(weights) / 3.5)
    slope, base = affine.at(random.integers(1, 4, size=n))
    clicked = random.random(n) < slope * relevance[chosen] + base
    seen = np.sign(weights[chosen]) * 3.5 * (clicked - base) / slope
    assert seen.mean() == pytest.approx(float(weights @ relevance), abs=0.03)
    assert trial_variance(weights, relevance, log) == pytest.approx(seen.var(), rel=0.02)


def test_a_trial_waits_for_ten_clicks() -> None:
    world, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).gain.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.05 * gain, extrapolation=40 * gain))
    trial = settled(clicks, new, old, pair, margin=20 * gain)["trial of unseen results"]
    weights = np.abs(clicks.weights(DCG, new) - clicks.weights(DCG, old)) * clicks.unseen
    rate = weights @ world.relevance.ravel() / weights.sum() * world.curve.values.mean()
    assert pages_of(trial) == np.ceil(10 / rate)


def test_a_trial_cannot_settle_what_the_rest_leaves_open() -> None:
    _, clicks, new, old = unseen_world()
    gain = a_pair(clicks, new, old).gain.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.5 * gain, extrapolation=2 * gain))
    trial = settled(clicks, new, old, pair)["trial of unseen results"]
    assert (trial.pages, trial.about) == (None, "even if their relevance were known, the rest would leave it open")


def test_without_a_model_the_unseen_are_planned_as_results_at_the_lowest_position() -> None:
    _, clicks, new, old = unseen_world()
    guess = float(clicks.relevance.reshape(-1, 5)[:, 2].mean())
    assumed = np.where(clicks.log.seen, clicks.relevance, guess)
    model = known_model(assumed)
    found = [
        settled(one, new, old, a_pair(one, new, old), decision="cannot tell")
        for one in (replace(clicks, model=model), KnownWorld.draw(100, 5, seed=7).estimator())
    ]
    for name in ("A/B test", "interleaving test"):
        assert pages_of(found[0][name]) == pytest.approx(pages_of(found[1][name]), rel=1e-3)
    assert found[1]["more of this log"].about == "the unseen stay unseen"


# -- the curve ----------------------------------------------------------------------------------------------------


def swapped(world: KnownWorld, pages: int, random: np.random.Generator, times: int) -> NDArray[np.float64]:
    """(times, depth) curves that swaps of the first result with another estimate."""
    curve = np.ones((times, world.depth))
    for k in range(1, world.depth):
        n = pages // (world.depth - 1)
        queries = random.integers(len(world.relevance), size=(times, n))
        both = np.stack([world.relevance[queries, 0], world.relevance[queries, k]])
        turned = random.random((times, n)) < 0.5
        above, below = np.where(turned, both[::-1], both)
        first, other = random.random((times, n)) < above, random.random((times, n)) < world.curve.values[k] * below
        curve[:, k] = other.sum(axis=1) / first.sum(axis=1)
    return curve


@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_swaps_estimate_the_curve_as_well_as_computed(alike: float) -> None:
    world = KnownWorld.draw(queries=300, candidates=3, seed=9)
    relevance = np.sort(world.relevance)[:, ::-1] * (1 - alike) + alike * world.relevance[:, :1]
    world, pages = replace(world, relevance=relevance), 6000
    variances = np.log(swapped(world, pages, np.random.default_rng(0), 800)).var(axis=0)[1:]
    expected = 2 * swap_variances(world.log(), relevance.ravel()) / pages
    assert expected == pytest.approx(variances, rel=0.12)


def test_the_planned_swaps_settle_what_an_uncertain_curve_leaves_open() -> None:
    world = KnownWorld.draw(queries=300, candidates=3, seed=9)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.4)
    gain = a_pair(clicks, new, old).gain.estimate
    errors = Errors(0.3 * gain, 50 * gain, 0.2 * gain)  # nothing is known of the curve
    swaps = settled(clicks, new, old, a_pair(clicks, new, old, errors=errors))["swap experiment"]
    random = np.random.default_rng(1)
    curves = swapped(world, pages_of(swaps), random, 400)
    found = np.array([
        clicks.difference_under(cr.Propensities(curve, method="drawn"), DCG, new, old) for curve in curves
    ])  # fmt: skip
    rest = float(np.hypot(errors.queries, errors.model))
    decided = found + rest * random.standard_normal(400) > clicks.quantile * np.hypot(rest, found.std())
    assert decided.mean() == pytest.approx(0.8, abs=0.06)


def test_what_is_known_of_the_curve_saves_swaps() -> None:
    world = KnownWorld.draw(queries=300, candidates=3, seed=9)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.4)
    gain = a_pair(clicks, new, old).gain.estimate
    found = [
        settled(clicks, new, old, a_pair(clicks, new, old, errors=Errors(0.3 * gain, curve * gain)))
        for curve in (0.6, 1.0, 50.0)
    ]
    pages = [pages_of(ways["swap experiment"]) for ways in found]
    assert pages[0] < pages[1] < pages[2]
    hopeless = settled(clicks, new, old, a_pair(clicks, new, old, errors=Errors(gain, 0.3 * gain)))["swap experiment"]
    assert (hopeless.pages, hopeless.about) == (None, "even if the curve were known, the rest would leave it open")


def test_a_curve_that_is_assumed_is_what_swaps_settle_and_more_pages_do_not() -> None:
    world = KnownWorld.draw(queries=300, candidates=3, seed=9)
    clicks = world.estimator()
    new, old = orders_of(world, clicks.log, noise=0.4)
    gain = a_pair(clicks, new, old).gain.estimate
    pair = a_pair(clicks, new, old, errors=Errors(0.1 * gain))
    ways = settled(clicks, new, old, pair, decision="cannot tell")
    assert "the curve is what leaves it open" in ways["more of this log"].about
    assert ways["more of this log"].pages is None
    pages = pages_of(ways["swap experiment"])
    errors = np.sqrt(2 * swap_variances(clicks.log, world.relevance.ravel()) / pages)
    assert errors.max() <= 0.2  # each position is told
    trust = clicks.log.with_curve(AffineClicks.from_propensities(world.curve))
    other = replace(clicks, log=trust)
    assert settled(other, new, old, pair, decision="cannot tell")["swap experiment"].pages is None
