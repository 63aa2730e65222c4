import numpy as np
from scenes import scene

import cldrank as cr
from cldrank.methods import IPS, AffineIPS
from cldrank.models import Linear
from cldrank.propensity import AffineClicks


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
