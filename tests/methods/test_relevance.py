"""Estimates of relevance from clicks: against brute force and simulation, their limits, and that methods use them."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from scenes import scene
from scipy.optimize import minimize
from scipy.special import log_expit
from scipy.stats import binom

from cldrank import scaling
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods import CLD, IPS, CLDPair, RankAgg
from cldrank.methods.relevance import Estimate, estimated_relevance
from cldrank.models import MLP, Linear
from cldrank.propensity import Propensities
from cldrank.rankers import LinearRanker

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


@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_is_that_of_brute_force(seed: int) -> None:
    random = np.random.default_rng(seed)
    position = np.repeat([1, 2], 25)
    n = random.integers(1, 30, 50)
    clicks = random.binomial(n, RHO.at(position) * random.beta(1, 2, 50))
    found = estimated_relevance(cells(position, n, clicks), RHO, "posterior")
    for place in (1, 2):
        own = position == place
        expected = brute_force(list(zip(clicks[own], n[own], strict=True)), float(RHO.at(place)))
        np.testing.assert_allclose(found[own], expected, atol=0.02)


@pytest.mark.parametrize("place", [1, 2])
def test_the_posterior_is_the_mean_relevance_of_those_with_the_same_clicks(place: int) -> None:
    random = np.random.default_rng(0)
    true = random.beta(1, 2, 20_000)
    clicks = random.binomial(20, float(RHO.at(place)) * true)
    found = estimated_relevance(cells([place] * 20_000, [20] * 20_000, clicks), RHO, "posterior")
    for count in np.flatnonzero(np.bincount(clicks) > 500):
        assert found[clicks == count][0] == pytest.approx(true[clicks == count].mean(), abs=0.03)


@every_estimate
def test_with_many_impressions_all_tend_to_the_same(estimate: Estimate) -> None:
    share = np.array([0.0, 0.2, 0.5, 0.9] * 3)
    position = np.repeat([1, 2, 3], 4)
    n = np.full(12, 1_000_000)
    clicks = np.rint(n * RHO.at(position) * share).astype(int)
    grid = 0.01 if estimate == "posterior" else 1e-4  # its prior has 100 points
    np.testing.assert_allclose(estimated_relevance(cells(position, n, clicks), RHO, estimate), share, atol=grid)


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


@every_estimate
def test_cld_without_correlation_regresses_it(estimate: Estimate) -> None:
    model = CLD(target=estimate, gamma=0.0, model=FREE).fit(*GIVEN)
    np.testing.assert_allclose(model.coef_, regression(estimate), rtol=1e-4, atol=1e-7)


@every_estimate
def test_cld_pair_without_selection_learns_its_order(estimate: Estimate) -> None:
    """The logistic regression of all pairs of shown candidates, by an independent optimiser."""
    table, X = GIVEN.clicks, standardised()
    seen = np.bincount(table.row, table.impressions, GIVEN.data.n_rows)
    told = table.impressions * estimated_relevance(table, GIVEN.propensities, estimate)
    target = np.bincount(table.row, told, GIVEN.data.n_rows) / np.maximum(seen, 1)
    better, worse, weight = [], [], []
    for start, stop in zip(GIVEN.data.offsets[:-1], GIVEN.data.offsets[1:], strict=True):
        for i, j in permutations(np.flatnonzero(seen[start:stop]) + start, 2):
            if target[i] > target[j]:
                better.append(i)
                worse.append(j)
                weight.append((target[i] - target[j]) * min(seen[i], seen[j]))
    apart, share = X[better] - X[worse], np.array(weight) / np.sum(weight)
    best = minimize(lambda beta: -(share @ log_expit(apart @ beta)), np.zeros(X.shape[1]))
    line = MLP(
        hidden=(), l2=0.0, epochs=300, learning_rate=0.3, batch_queries=1000, validation=0.0,
        clip_norm=None,
    )  # fmt: skip
    model = CLDPair(target=estimate, selection_weight=0.0, unshown_ratio=0.0, model=line).fit(*GIVEN)
    assert isinstance(model.ranker_, LinearRanker)
    np.testing.assert_allclose(model.ranker_.coefficients, best.x, rtol=0.02, atol=0.02)


def test_cld_pair_with_a_linear_model_knows_them_apart() -> None:
    found = [CLDPair(target=estimate, model=Linear()).fit(*GIVEN).coef_ for estimate in ESTIMATES]
    for one, two in combinations(found, 2):
        assert np.abs(one - two).max() > 1e-4
