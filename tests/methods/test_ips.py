import numpy as np
import pyarrow as pa
import pytest
from scenes import by_session, scene

from cldrank import scaling
from cldrank.errors import UsageError
from cldrank.methods import IPS, Naive
from cldrank.models import Linear
from cldrank.propensity import Propensities


def test_it_regresses_each_impression_s_weighted_click_on_the_features() -> None:
    given = scene(0)
    rows, targets = by_session(given)
    X = scaling.fit("standard", given.data.features).transform(given.data.features)[rows].astype(np.float64)
    extended = np.hstack([X, np.ones((len(X), 1))])
    penalty = np.diag([0.01 * len(X)] * 3 + [0.0])
    solution = np.linalg.solve(extended.T @ extended + penalty, extended.T @ targets)
    model = IPS(target="ips", model=Linear(l2=0.01)).fit(*given)
    np.testing.assert_allclose(model.coef_, solution[:-1], rtol=1e-7)
    assert model.intercept_ == pytest.approx(solution[-1])


def test_equal_propensities_make_it_naive() -> None:
    given = scene(1)
    model = IPS(target="ips").fit(given.data, given.clicks, Propensities.power(0, 3))
    np.testing.assert_allclose(model.coef_, Naive().fit(given.data, given.clicks).coef_, rtol=1e-12)


def test_clipping_is_said() -> None:
    given = scene(3)
    model = IPS(clip=0.4).fit(*given)
    assert model.propensities_.clipped == (3,)
    np.testing.assert_allclose(model.propensities_.values, [1, 0.5, 0.4])
    assert "clipped to 0.4 at position 3" in model.summary()


def test_propensities_are_needed_for_all_positions() -> None:
    given = scene(5)
    with pytest.raises(UsageError, match=r"Propensities.load\('rho.json'\), not a str"):
        IPS().fit(given.data, given.clicks, "rho.json")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"Table; .*cldrank.load\(frame\)"):
        IPS().fit(pa.table({"query_id": [1]}), given.clicks)


def test_it_regresses_each_impression_s_click_on_the_features() -> None:
    given = scene(0)._replace(propensities=Propensities.power(0, 3))
    rows, clicked = by_session(given)
    X = scaling.fit("standard", given.data.features).transform(given.data.features)[rows].astype(np.float64)
    solution = np.linalg.lstsq(np.hstack([X, np.ones((len(X), 1))]), clicked, rcond=None)[0]
    model = Naive(model=Linear(l2=0)).fit(given.data, given.clicks)
    np.testing.assert_allclose(model.coef_, solution[:-1], rtol=1e-7)
    assert model.intercept_ == pytest.approx(solution[-1])
    assert model.weight_ == len(rows)
    assert model.n_rows_ == given.clicks.shown.sum()
