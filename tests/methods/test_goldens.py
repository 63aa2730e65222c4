"""The likelihood against R's sampleSelection and glm, on the Mroz labour-supply data (see tests/goldens)."""

from typing import Any

import numpy as np
import pytest
from mroz import Floats, Mroz, goldens

from cldrank.likelihood import SQUARES, shown, tilt, unshown
from cldrank.optimise import Derivatives, newton

MROZ = Mroz()
GOLDENS = goldens()
ML = GOLDENS["maximum_likelihood"]
HIGHEST = GOLDENS["maximum_likelihood_highest"]


def tobit(parameters: Floats, sigma: float, rho: float) -> Derivatives:
    """The type-II Tobit log-likelihood by β and ω: CLD's in units of σ, with half of the square and a constant."""
    X, Z = MROZ.outcome[MROZ.works], MROZ.selection[MROZ.works]
    idle = MROZ.selection[~MROZ.works]
    split = X.shape[1]
    beta, omega = parameters[:split], parameters[split:]
    residual = (MROZ.wage[MROZ.works] - X @ beta) / sigma
    seen = shown(X @ beta / sigma, Z @ omega, MROZ.wage[MROZ.works] / sigma, rho)
    unseen = unshown(idle @ omega)
    value = (seen.value + residual**2 / 2 - np.log(sigma * np.sqrt(2 * np.pi))).sum() + unseen.value.sum()
    gradient = np.append(X.T @ (seen.score - residual) / sigma, Z.T @ seen.selection + idle.T @ unseen.slope)
    cosh, sinh = tilt(rho)
    index = np.hstack([X * -sinh / sigma, Z * cosh])
    hessian = -index.T @ (index * seen.curvature[:, None])
    hessian[:split, :split] -= (SQUARES - 1) / sigma**2 * X.T @ X
    hessian[split:, split:] -= idle.T @ (idle * unseen.curvature[:, None])
    return Derivatives(float(value), gradient, hessian)


@pytest.mark.parametrize("golden", [ML, HIGHEST], ids=["unasked", "highest"])
def test_with_rs_sigma_and_rho_newton_ends_at_rs_coefficients(golden: dict[str, Any]) -> None:
    expected = np.array(golden["outcome"]["coefficients"] + golden["selection"]["coefficients"])
    solution = newton(lambda point: tobit(point, golden["sigma"], golden["rho"]), np.zeros(len(expected)))
    assert solution.status == "converged"
    np.testing.assert_allclose(solution.parameters, expected, rtol=1e-6)
    np.testing.assert_allclose(solution.value, golden["log_likelihood"], rtol=1e-10)
