import numpy as np
import pyarrow as pa
import pytest
from scenes import by_session, scene
from scipy.optimize import minimize
from scipy.special import log_expit

from cldrank import scaling
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.methods import IPS, Naive
from cldrank.methods.observing import observe
from cldrank.models import MLP, Linear
from cldrank.models.network.lists import observed_lists
from cldrank.propensity import Propensities
from cldrank.rankers import LinearRanker


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


def test_position_bias_is_removed_where_naive_keeps_it() -> None:
    random = np.random.default_rng(0)
    given = scene(2, queries=400)
    position = np.zeros(given.data.n_rows, dtype=np.int64)
    place = random.permuted(np.tile(np.arange(1, 9), (400, 1)), axis=1).ravel()
    position[:] = np.where(place <= 3, place, 0)
    features = given.data.features.copy()
    features[:, 1] = (position == 1) + 0.1 * random.normal(size=len(position))  # says where a row was shown, no more
    data = RankingDataset.from_arrays(features, given.data.row_queries)
    chance = np.where(position > 0, 0.3 / np.maximum(position, 1), 0)
    impressions = np.where(position > 0, 200, 0)
    table = ClickTable.from_arrays(
        data, position=position, impressions=impressions, clicks=random.binomial(impressions, chance)
    )
    naive = Naive().fit(data, table)
    ips = IPS().fit(data, table, Propensities.power(1, 3))
    assert naive.coef_[1] > 0.05
    assert abs(ips.coef_[1]) < 0.02


def test_clipping_is_said() -> None:
    given = scene(3)
    model = IPS(clip=0.4).fit(*given)
    assert model.propensities_.clipped == (3,)
    np.testing.assert_allclose(model.propensities_.values, [1, 0.5, 0.4])
    assert "clipped to 0.4 at position 3" in model.summary()


@pytest.mark.filterwarnings("ignore:the clicks refute")  # as they do, on purpose
def test_tiny_propensities_stay_finite() -> None:
    given = scene(4)
    model = IPS().fit(given.data, given.clicks, Propensities(np.array([1, 1e-3, 1e-6])))
    assert np.isfinite(model.predict(given.data)).all()


def test_propensities_are_needed_for_all_positions() -> None:
    given = scene(5)
    with pytest.raises(UsageError, match="IPS needs `propensities` .*Propensities.power.*not None"):
        IPS().fit(given.data, given.clicks)
    with pytest.raises(UsageError, match=r"Propensities.load\('rho.json'\), not a str"):
        IPS().fit(given.data, given.clicks, "rho.json")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"not from a Table; make one with cldrank.load\(frame\)"):
        IPS().fit(pa.table({"query_id": [1]}), given.clicks)
    with pytest.raises(DataError, match="no propensity for position 3"):
        IPS().fit(given.data, given.clicks, Propensities.power(1, 2))
    with pytest.raises(UsageError, match="`clip` must be a number above 0"):
        IPS(clip=2).fit(*given)


def test_a_network_learns_the_order_of_corrected_clicks() -> None:
    """With linear scores: the logistic regression of all pairs, by an independent optimiser."""
    given = scene(6, queries=60)
    X = scaling.fit("standard", given.data.features).transform(given.data.features).astype(np.float64)
    lists = observed_lists(observe(*given))
    pairs = [
        (lists.rows[i], lists.rows[j], (lists.target[i] - lists.target[j]) * min(lists.weight[i], lists.weight[j]))
        for start, stop in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
        for i in range(start, stop)
        for j in range(start, stop)
        if lists.target[i] > lists.target[j]
    ]
    first, second, weight = (np.array(values) for values in zip(*pairs, strict=True))
    apart = X[first] - X[second]
    best = minimize(lambda beta: -(weight @ log_expit(apart @ beta)) / weight.sum(), np.zeros(3))
    whole = MLP(
        hidden=(),
        l2=0.0,
        epochs=300,
        learning_rate=0.3,
        batch_queries=1000,
        validation=0.0,
        clip_norm=None,
    )
    model = IPS(target="ips", model=whole).fit(*given)
    assert isinstance(model.ranker_, LinearRanker)
    np.testing.assert_allclose(model.ranker_.coefficients, best.x, rtol=0.02)
    assert model.history_[-1].loss == pytest.approx(best.fun, rel=1e-4)


def test_a_network_s_propensities_are_clipped_as_asked() -> None:
    given = scene(7)
    model = IPS(clip=0.6, model=MLP(hidden=(4,), epochs=2)).fit(*given)
    assert model.propensities_.values.min() == 0.6
    assert "completed" in model.summary()
