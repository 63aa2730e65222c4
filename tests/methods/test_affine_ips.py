import numpy as np
import pytest
from scenes import scene

import cldrank as cr
from cldrank.clicks.simulate import NeighbourSwaps, Simulation
from cldrank.clicks.simulate import TrustBiased as TrustClicks
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.methods import IPS, AffineIPS
from cldrank.models import MLP, Linear
from cldrank.propensity import AffineClicks, AllPairs, Propensities, TrustBias


def trusting(seed: int) -> tuple[RankingDataset, cr.ClickTable, RankingDataset]:
    """Clicks of people who trust positions, on pages of a ranker that looks at other features than relevance does."""
    random = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        features = random.normal(size=(200 * 15, 5))
        noisy = features @ np.array([1, 0.8, -0.6, 0.4, 0]) + 0.7 * random.normal(size=len(features))
        parts.append(RankingDataset.from_arrays(features, np.arange(len(features)) // 15, (noisy > 1).astype(int)))
    train, test = parts
    production = train.features @ np.array([0.2, 1, 0.3, 0.5, 1])
    pages = Simulation(train, production, TrustClicks(1.0), NeighbourSwaps(0.5), depth=5, relevant_from=1)
    return train, pages.draw(1e5, seed=seed), test


def test_without_a_base_it_is_ips() -> None:
    given = scene(0)
    ips = IPS(target="ips", clip=0.4, model=Linear(l2=0.01)).fit(*given)
    for curve in (given.propensities, AffineClicks.from_propensities(given.propensities)):
        model = AffineIPS(clip=0.4, model=Linear(l2=0.01)).fit(given.data, given.clicks, curve)
        np.testing.assert_allclose(model.coef_, ips.coef_, rtol=1e-12)


def test_it_regresses_the_relevance_that_clicks_tell() -> None:
    given = scene(1)
    affine = AffineClicks(np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02]))
    X = cr.Naive(model=Linear(l2=0)).fit(given.data, given.clicks).ranker_.scaling.transform(given.data.features)  # type: ignore[attr-defined]
    rows, n = given.clicks.row, given.clicks.impressions
    slope, base = affine.at(given.clicks.position)
    target = (given.clicks.clicks / n - base) / slope
    extended = np.hstack([X[rows].astype(np.float64), np.ones((len(rows), 1))])
    solution = np.linalg.solve(extended.T @ (extended * n[:, None]), extended.T @ (n * target))
    model = AffineIPS(model=Linear(l2=0)).fit(given.data, given.clicks, affine)
    np.testing.assert_allclose(model.coef_, solution[:-1], rtol=1e-6)


def test_the_scale_of_relevance_changes_no_ranking() -> None:
    given = scene(2)
    slope, base = np.array([0.8, 0.5, 0.3]), np.array([0.1, 0.05, 0.02])
    one, other = AffineClicks(slope, base), AffineClicks(slope / 0.8, base - slope / 0.8 * 0.1)
    first, second = (AffineIPS(model=Linear(l2=0)).fit(given.data, given.clicks, curve) for curve in (one, other))
    np.testing.assert_allclose(second.coef_, 0.8 * first.coef_, rtol=1e-9)


def test_it_beats_ips_where_people_trust_positions() -> None:
    gains, pairwise = [], []
    for seed in range(3):
        train, clicks, test = trusting(seed)
        trust, rho = TrustBias().fit(clicks), Propensities.power(1, 5).trusted()
        gains.append(
            _ap(AffineIPS().fit(train, clicks, trust), test) - _ap(IPS(envelope="off").fit(train, clicks, rho), test)
        )
        network = MLP(hidden=(32,), epochs=4, learning_rate=0.02)
        affine = AffineIPS(model=network).fit(train, clicks, trust)
        pairwise.append(_ap(affine, test) - _ap(IPS(model=network, envelope="off").fit(train, clicks, rho), test))
    assert min(gains) > 0.02
    assert min(pairwise) > 0.02


def test_all_pairs_takes_trust_for_a_steeper_curve() -> None:
    train, clicks, test = trusting(0)
    steep = AllPairs().fit(clicks)
    assert (steep.values[1:] < Propensities.power(1, 5).values[1:]).all()
    assert _ap(AffineIPS().fit(train, clicks, TrustBias().fit(clicks)), test) > _ap(
        IPS(envelope="off").fit(train, clicks, Propensities.power(1, 5).trusted()), test
    )


def test_what_it_needs_is_said() -> None:
    given = scene(3)
    with pytest.raises(UsageError, match=r"Affine-IPS needs AffineClicks, .*: estimate them by .*TrustBias"):
        AffineIPS().fit(given.data, given.clicks)
    with pytest.raises(DataError, match="no slope for position 3"):
        AffineIPS().fit(given.data, given.clicks, AffineClicks(np.ones(2), np.zeros(2)))
    with pytest.raises(UsageError, match="`clip` must be a number above 0"):
        AffineIPS(clip=2).fit(*given)
    assert "AffineClicks(slope 1, 0.5" in AffineIPS().fit(*given).summary()


def _ap(model: AffineIPS | IPS, test: RankingDataset) -> float:
    return cr.evaluate(model, test, ["AP"])["AP"]
