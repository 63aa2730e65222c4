from dataclasses import replace

import numpy as np
import pytest
from scenes import by_session, scene
from small_networks import SMALL

from cldrank import scaling
from cldrank.errors import DataError, UsageError
from cldrank.methods import IPS, Naive
from cldrank.models import Linear
from cldrank.propensity import Propensities


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


def test_what_cannot_be_learned_from_is_refused() -> None:
    given = scene(3)
    with pytest.raises(UsageError, match="Naive needs `clicks`"):
        Naive().fit(given.data)
    with pytest.raises(DataError, match="not those of"):
        Naive().fit(given.data[1:], given.clicks)
    with pytest.raises(UsageError, match="call fit first"):
        Naive().summary()


def test_a_network_learns_the_order_of_click_rates() -> None:
    given = scene(4, queries=60)
    model = Naive(model=replace(SMALL, epochs=2))
    first = model.fit(given.data, given.clicks).predict(given.data)
    ips = IPS(target="ips", model=replace(SMALL, epochs=2))
    flat = ips.fit(given.data, given.clicks, Propensities.power(0, 3))
    np.testing.assert_array_equal(flat.predict(given.data), first)
    assert "NetworkRanker" in model.summary()
    assert not hasattr(model, "coef_")
    again = Naive().fit(given.data, given.clicks).set_params(model=SMALL).fit(given.data, given.clicks)
    assert not hasattr(again, "constant_features_")
