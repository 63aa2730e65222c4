from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scenes import Scene, by_session, scene
from scipy.optimize import minimize
from scipy.special import log_ndtr

from cldrank import scaling
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import ConvergenceWarning, DataError, UsageError
from cldrank.methods import CLD, IPS
from cldrank.methods.registry import configured
from cldrank.models import MLP, Linear
from cldrank.propensity import Propensities
from cldrank.rankers import LinearRanker

Floats = NDArray[np.float64]


def cld(**settings: Any) -> CLD:
    """A CLD from flat settings."""
    found = configured(CLD, settings)
    assert isinstance(found, CLD)
    return found


def all_parameters(model: CLD) -> Floats:
    ends = [model.intercept_, model.selection_intercept_]
    return np.concatenate([model.coef_, model.selection_coef_, ends])


def written_out(given: Scene, model: CLD) -> tuple[Any, int]:
    """Minus the objective of the paper, from the definition, over single impressions; and how many parameters."""
    rows, targets = by_session(given)
    if model.target == "ips":
        inverse = 1 / given.propensities.at(given.clicks.position)
        rate = given.clicks.clicks / given.clicks.impressions * inverse
        rows, targets = np.repeat(given.clicks.row, given.clicks.impressions), np.repeat(rate, given.clicks.impressions)
    scaled = scaling.fit(model.get_params()["model__scaling"], given.data.features).transform(given.data.features)
    X = np.hstack([scaled.astype(np.float64), np.ones((len(scaled), 1))])
    away = np.flatnonzero(~given.clicks.shown)
    pages = given.clicks.query_impressions[given.data.row_queries[away]]
    away = np.repeat(away, pages)
    total, width, gamma = len(rows) + len(away), X.shape[1], float(model.gamma)

    def loss(parameters: Floats) -> float:
        beta, omega = parameters[:width], parameters[width : 2 * width]
        residual = targets - X[rows] @ beta
        seen = log_ndtr((X[rows] @ omega + gamma * residual) / np.sqrt(1 - gamma**2)) - residual**2
        value = (seen.sum() + log_ndtr(-X[away] @ omega).sum()) / total
        return float(model.get_params()["model__l2"] * (beta[:-1] @ beta[:-1] + omega[:-1] @ omega[:-1]) - value)

    return loss, 2 * width


@pytest.mark.parametrize(
    "parameters",
    [
        {"target": "ips"},
        {"gamma": 0.8, "target": "ips", "scaling": "minmax"},
        {"gamma": -0.5, "target": "ips"},
        {"gamma": 0.8, "target": "clicks"},
    ],
)
def test_an_independent_optimiser_finds_the_same_optimum(parameters: Any) -> None:
    given = scene(1, queries=15)
    model = cld(l2=0.01, **parameters).fit(*given)
    loss, count = written_out(given, model)

    def slopes(point: Floats, step: float = 1e-5) -> Floats:
        moves = np.eye(count) * step
        return np.array([loss(point + move) - loss(point - move) for move in moves]) / (2 * step)

    def curvatures(point: Floats, step: float = 1e-4) -> Floats:
        moves = np.eye(count) * step
        found = np.array([slopes(point + move, step) - slopes(point - move, step) for move in moves]) / (2 * step)
        return (found + found.T) / 2

    found = minimize(loss, np.zeros(count), jac=slopes, hess=curvatures, method="trust-exact", options={"gtol": 1e-9})
    ours: list[Any] = [model.coef_, [model.intercept_], model.selection_coef_, [model.selection_intercept_]]
    own = np.concatenate(ours)
    np.testing.assert_allclose(own, found.x, rtol=1e-6, atol=1e-6)
    assert loss(own) <= found.fun + 1e-12


# -- extremes --------------------------------------------------------------------------------------------------------


def only(given: Scene, kept: Any, clicks: Any = None) -> ClickTable:
    table = given.clicks
    counts = table.clicks if clicks is None else clicks
    return ClickTable(table.candidates, table.row[kept], table.position[kept], table.impressions[kept], counts[kept])


def test_nothing_shown_and_nothing_clicked_are_refused() -> None:
    given = scene(9)
    with pytest.raises(DataError, match="no impressions"):
        CLD().fit(given.data, only(given, slice(0, 0)), given.propensities)
    with pytest.raises(DataError, match="no clicks"):
        CLD().fit(given.data, only(given, slice(None), np.zeros_like(given.clicks.clicks)), given.propensities)


def test_where_everything_was_shown_it_is_ips_and_says_so() -> None:
    given = scene(10, candidates=3, shown=3)
    with pytest.warns(ConvergenceWarning, match="every candidate was shown"):
        model = CLD(gamma=0.3).fit(*given)
    assert model.status_ == "boundary"
    assert model.selection_intercept_ == np.inf
    np.testing.assert_allclose(model.coef_, IPS().fit(*given).coef_, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:the clicks refute")  # as they do, on purpose
@pytest.mark.parametrize("target", ["ips", "clipped", "clicks"])
def test_one_click_and_tiny_propensities_stay_finite(target: Any) -> None:
    given = scene(11)
    one = np.zeros_like(given.clicks.clicks)
    one[np.flatnonzero(given.clicks.impressions > 0)[5]] = 1
    steep = Propensities(np.array([1.0, 1e-3, 1e-6]))
    for table in (only(given, slice(None), one), given.clicks):
        for gamma in (0.1, 0.95, -0.95):
            model = CLD(gamma=gamma, target=target).fit(given.data, table, steep)
            assert model.status_ == "converged"
            assert np.isfinite(all_parameters(model)).all()


def test_separation_is_handled_by_the_penalty_and_said() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 2))
    data = RankingDataset.from_arrays(features, np.arange(200) // 4)
    shown = features[:, 0] > 0.2
    table = ClickTable.from_arrays(
        data, position=shown * 1, impressions=shown * 10, clicks=shown * random.integers(0, 5, 200)
    )
    rho = Propensities.power(1, 1)
    model = CLD().fit(data, table, rho)
    assert model.separated_
    assert model.status_ == "converged"
    with pytest.warns(ConvergenceWarning, match="raise l2"):
        CLD(model=Linear(l2=0)).fit(data, table, rho)


# -- what it refuses -------------------------------------------------------------------------------------------------


def test_clicks_and_propensities_that_do_not_fit_are_refused() -> None:
    given = scene(0)
    with pytest.raises(UsageError, match="is for a linear model"):
        CLD(model=MLP(), target="clicks").fit(*given)
    constant = RankingDataset.from_arrays(np.ones((given.data.n_rows, 2)), given.data.row_queries)
    with pytest.raises(DataError, match="all features .* are constant"):
        CLD().fit(constant, given.clicks, given.propensities)


# -- with a network ------------------------------------------------------------------------------------------------


def test_a_network_without_hidden_layers_finds_the_linear_fit() -> None:
    given, gamma = scene(2, queries=40), 0.4
    table = given.clicks
    first = np.unique(table.row, return_index=True)[1]  # a network knows a candidate by all its positions together
    cells: Any = (column[first] for column in (table.row, table.position, table.impressions, table.clicks))
    given = given._replace(clicks=ClickTable(table.candidates, *cells))
    full = MLP(hidden=(), l2=0.0, epochs=250, learning_rate=0.1, batch_queries=1000, validation=0.0, clip_norm=None)
    network = CLD(gamma=gamma, unshown_ratio=100.0, model=full).fit(*given)
    exact = CLD(gamma=gamma, model=Linear(l2=0.0)).fit(*given)
    assert isinstance(network.ranker_, LinearRanker)
    np.testing.assert_allclose(network.ranker_.coefficients, exact.coef_, atol=0.01)
    np.testing.assert_allclose(network.selection_coef_, exact.selection_coef_, atol=0.01)
    assert network.selection_intercept_ == pytest.approx(exact.selection_intercept_, abs=0.01)
    assert network.history_[-1].loss == pytest.approx(-exact.log_likelihood_ / exact.weight_, rel=1e-3)


def test_unshown_that_are_drawn_stand_for_all_and_lists_that_are_cut_count_them_once() -> None:
    given = scene(2, queries=120)
    exact = CLD(model=Linear(l2=0.0)).fit(*given)
    for size in (2, 128):
        own = MLP(hidden=(), l2=0.0, epochs=100, learning_rate=0.02, list_size=size, validation=0.0, batch_queries=64)
        network = CLD(model=own).fit(*given)
        np.testing.assert_allclose(network.selection_coef_, exact.selection_coef_, atol=0.1)
        assert network.selection_intercept_ == pytest.approx(exact.selection_intercept_, abs=0.1)
