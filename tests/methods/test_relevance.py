"""Estimates of relevance from clicks: against brute force and simulation, their limits, and that methods use them."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from scenes import scene
from scipy.stats import binom

from cldrank import scaling
from cldrank.clicks.ratings import Ratings
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods import IPS, CLDPair, RankAgg
from cldrank.methods.observing import observe
from cldrank.methods.relevance import Estimate, estimated_relevance
from cldrank.models import Linear
from cldrank.propensity import Propensities

Floats = NDArray[np.float64]
ESTIMATES: tuple[Estimate, ...] = get_args(Estimate)
RHO = Propensities(np.array([1, 0.4, 0.05]))

every_estimate = pytest.mark.parametrize("estimate", ESTIMATES)


def cells(position: Any, impressions: Any, clicks: Any) -> ClickTable:
    """One cell of each candidate, in order."""
    data = RankingDataset.from_arrays(np.zeros((len(position), 1)), np.arange(len(position)))
    parts = {"position": position, "impressions": impressions, "clicks": clicks}
    return ClickTable.from_arrays(data, **parts)


def brute_force(counts: list[tuple[int, int]], rho: float, points: int = 1000, steps: int = 2000) -> list[float]:
    """Posterior means at one position, by EM written out, on a grid ten times as fine."""
    relevance = np.sin(np.linspace(0, np.pi / 2, points)) ** 2
    chances = [binom.pmf(clicks, n, rho * relevance) for clicks, n in counts]
    prior = np.full(points, 1 / points)
    for _ in range(steps):
        posteriors = [prior * chance / (prior @ chance) for chance in chances]
        prior = np.mean(posteriors, axis=0)
    return [float(prior @ (chance * relevance) / (prior @ chance)) for chance in chances]


def test_the_posterior_is_that_of_brute_force() -> None:
    random = np.random.default_rng(0)
    position = np.repeat([1, 2], 25)
    n = random.integers(1, 30, 50)
    clicks = random.binomial(n, RHO.at(position) * random.beta(1, 2, 50))
    found = estimated_relevance(cells(position, n, clicks), RHO, "posterior")
    for place in (1, 2):
        own = position == place
        expected = brute_force(list(zip(clicks[own], n[own], strict=True)), float(RHO.at(place)))
        np.testing.assert_allclose(found[own], expected, atol=0.02)


def test_beyond_1_they_differ_however_many_impressions() -> None:
    """A propensity that is too small: c/(nρ) is 4, and only the posterior knows that nothing is more than relevant."""
    table = cells([2] * 3, [100_000] * 3, [16_000] * 3)
    said = [estimated_relevance(table, Propensities(np.array([1, 0.04])), estimate)[0] for estimate in ESTIMATES]
    np.testing.assert_allclose(said, [4, 2, 1, 2], atol=0.01)


@pytest.mark.parametrize("curve", [RHO, Propensities(np.array([1, 1.4, 0.01]), method="AllPairs")], ids=["", "above 1"])
def test_bounds_of_each_estimate(curve: Propensities) -> None:
    random = np.random.default_rng(1)
    n, position = random.integers(1, 40, 300), random.integers(1, 4, 300)
    table = cells(position, n, random.binomial(n, 0.3))
    raw, clipped, posterior, mixed = (estimated_relevance(table, curve, estimate) for estimate in ESTIMATES)
    assert raw.max() > 2
    np.testing.assert_array_equal(clipped, np.where(raw < 2, raw, 2))
    assert posterior.min() >= 0
    assert posterior.max() <= 1 + 1e-9
    examined = n * curve.at(position)
    np.testing.assert_allclose(mixed, (examined * clipped + posterior) / (1 + examined), rtol=1e-12)


def test_each_position_has_a_prior_of_its_own() -> None:
    """Half of what is first is relevant, a fifth of what is third, and hardly anybody looks there."""
    position = np.repeat([1, 3], [200, 2000])
    clicks = np.zeros(2200, dtype=int)
    clicks[:100] = clicks[200:220] = 1
    table = cells(position, np.ones(2200, dtype=int), clicks)
    found = estimated_relevance(table, RHO, "posterior")
    passed_over, unseen = found[100], found[-1]
    assert unseen == pytest.approx(0.2, abs=0.02)
    assert passed_over > unseen + 0.03
    alone = estimated_relevance(cells(position[200:], [1] * 2000, clicks[200:]), RHO, "posterior")
    np.testing.assert_allclose(found[200:], alone)
    mixed = estimated_relevance(table, RHO, "mixed")
    assert mixed[0] > passed_over  # a click speaks for itself


# -- methods use them ------------------------------------------------------------------------------------------------

GIVEN = scene(11, queries=60)  # some of it clipped
FREE = Linear(l2=0)


def standardised() -> Floats:
    features = GIVEN.data.features
    scaled: Floats = scaling.fit("standard", features).transform(features).astype(np.float64)
    return scaled


def regression(estimate: Estimate) -> Floats:
    """The coefficients of a regression of relevance on the features, each cell with the weight of its impressions."""
    X = np.hstack([standardised()[GIVEN.clicks.row], np.ones((GIVEN.clicks.n_cells, 1))])
    root = np.sqrt(GIVEN.clicks.impressions)
    target = estimated_relevance(GIVEN.clicks, GIVEN.propensities, estimate)
    solution: Floats = np.linalg.lstsq(X * root[:, None], target * root, rcond=None)[0][:-1]
    return solution


def test_the_estimates_of_a_small_log_differ() -> None:
    for one, two in combinations(ESTIMATES, 2):
        assert np.abs(regression(one) - regression(two)).max() > 1e-3


@every_estimate
def test_ips_and_the_ips_of_rankagg_regress_it(estimate: Estimate) -> None:
    np.testing.assert_allclose(IPS(target=estimate, model=FREE).fit(*GIVEN).coef_, regression(estimate), rtol=1e-6)
    joined = RankAgg(target=estimate, model=FREE).fit(*GIVEN)
    np.testing.assert_allclose(joined.ips_.coef_, regression(estimate), rtol=1e-6)


def test_cld_pair_with_a_linear_model_knows_them_apart() -> None:
    found = [CLDPair(target=estimate, model=Linear()).fit(*GIVEN).coef_ for estimate in ESTIMATES]
    for one, two in combinations(found, 2):
        assert np.abs(one - two).max() > 1e-4


def test_rows_of_clicks_weigh_what_they_stand_for() -> None:
    data = RankingDataset.from_arrays(np.eye(7), [1, 1, 1, 2, 2, 3, 3])
    table = ClickTable.from_arrays(
        data, row=[0, 1, 0, 5], position=[1, 2, 2, 1], impressions=[6, 6, 4, 5], clicks=[3, 3, 1, 5]
    )
    found = observe(data, table, Propensities.power(1, 2))
    np.testing.assert_array_equal(found.rows, [0, 1, 2, 5, 6])  # query 2 was never displayed
    np.testing.assert_array_equal(found.absent, [0, 0, 10, 0, 5])  # ten pages: six and four impressions at position 2
    np.testing.assert_allclose(found.target, [0.5, 0.5, 1, 1])
    np.testing.assert_array_equal(found.weight, [6, 4, 6, 5])
    assert (found.total, found.n_rows) == (36, 6)
    pairs = observe(data, table, Propensities.power(1, 2), "clicks")
    np.testing.assert_allclose(pairs.target, [1, 0, 2, 0, 2, 0, 1])
    np.testing.assert_array_equal(pairs.weight, [3, 3, 1, 3, 3, 3, 5])
    np.testing.assert_array_equal(pairs.offsets, [0, 4, 6, 7])
    assert pairs.total == 36


@pytest.mark.parametrize("estimate", ["posterior", "mixed"])
def test_ratings_are_priors(estimate: Estimate) -> None:
    random = np.random.default_rng(0)
    relevance = random.choice([0.1, 0.9], 600)
    table = cells(np.full(600, 2), np.full(600, 4), random.binomial(4, 0.4 * relevance))
    rated = table.rated(Ratings(np.full(600, np.nan), relevance + random.normal(0, 0.3, 600)))
    errors = [np.mean((estimated_relevance(each, RHO, estimate) - relevance) ** 2) for each in (table, rated)]
    assert errors[1] < 0.95 * errors[0]
    np.testing.assert_array_equal(estimated_relevance(rated, RHO), estimated_relevance(table, RHO))
