"""Standard errors, and the estimates that carry them."""

from typing import Any

import numpy as np
import pytest
from scenes import by_session, scene

from cldrank import scaling
from cldrank.methods import CLD, IPS
from cldrank.models import Linear, Run
from cldrank.models.linear.inference import Estimates

METHODS = ["standard", "minmax", "quantile", None]


@pytest.mark.parametrize("method", METHODS)
def test_regression_equals_ordinary_least_squares_over_impressions(method: Any) -> None:
    given = scene(5)
    rows, targets = by_session(given)
    fitted = IPS(target="ips", model=Linear(l2=0, scaling=method), run=Run(block_rows=11)).fit(*given)
    scaled = scaling.fit(method, given.data.features)
    X = np.hstack([scaled.transform(given.data.features), np.ones((given.data.n_rows, 1))])[rows].astype(np.float64)
    beta = np.linalg.lstsq(X, targets, rcond=None)[0]
    residual = targets - X @ beta
    variance = residual @ residual / len(residual)
    expected = variance * np.linalg.inv(X.T @ X)
    np.testing.assert_allclose(fitted.estimates_.values, beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fitted.estimates_.covariance, expected, rtol=1e-5, atol=1e-12)
    gaussian = -0.5 * (len(residual) * np.log(2 * np.pi * variance) + residual @ residual / variance)
    assert fitted.log_likelihood_ == pytest.approx(gaussian)


def test_standard_errors_do_not_depend_on_how_the_design_is_centred() -> None:
    given = scene(6)
    names = given.data.feature_names
    wide = scaling.Standard(clip=100)
    plain, raw = (CLD(gamma=0.2, model=Linear(l2=0, scaling=own)).fit(*given).estimates_ for own in (wide, None))
    factor = scaling.fit(wide, given.data.features).parameters["factor"]
    for part in ("relevance", "selection"):
        np.testing.assert_allclose(raw.error_of(part, names), plain.error_of(part, names) * factor, rtol=1e-5)


def test_estimates_print_and_give_errors_by_name() -> None:
    table = Estimates(("relevance", "selection"), ("a", "a"), np.array([1.0, -2.0]), np.diag([0.25, 0.0]))
    assert repr(table).splitlines()[0].split() == ["relevance", "estimate", "std.", "error", "z", "p"]
    np.testing.assert_array_equal(table.error_of("relevance", ["b", "a"]), [np.nan, 0.5])
    assert table.of("selection").values[0] == -2
    assert np.isnan(table.z[1])
    assert table.p[0] == pytest.approx(0.0455, abs=1e-4)
