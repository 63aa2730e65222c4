from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scenes import Scene, by_session, scene
from scipy.optimize import minimize
from scipy.special import log_ndtr

from cldrank import scaling
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import ConvergenceWarning, DataError, UsageError
from cldrank.likelihood import log_cdf
from cldrank.methods import CLD, IPS
from cldrank.methods.registry import configured
from cldrank.models import MLP, Linear, Run
from cldrank.models.linear import row_blocks as rows_module
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


@given(st.integers(0, 30), st.integers(1, 60), st.sampled_from(["ips", "clipped"]), st.sampled_from([0.0, 0.3, -0.6]))
@settings(max_examples=15)
def test_blocks_order_of_rows_and_of_cells_change_nothing(
    seed: int, block_rows: int, target: Any, gamma: float
) -> None:
    given = scene(seed, queries=12)
    model = CLD(gamma=gamma, target=target).fit(*given)
    random = np.random.default_rng(seed)
    blocks = CLD(gamma=gamma, target=target, run=Run(block_rows=block_rows)).fit(*given)
    np.testing.assert_allclose(all_parameters(blocks), all_parameters(model), rtol=1e-8, atol=1e-8)
    order = np.concatenate(
        [query * 8 + random.permutation(8) for query in random.permutation(given.data.n_queries)]
    )  # rows shuffled within shuffled queries
    data = RankingDataset.from_arrays(given.data.features[order], given.data.row_queries[order])
    place = np.argsort(order)
    cells = random.permutation(given.clicks.n_cells)
    half = given.clicks.impressions // 2  # each cell in two parts
    few = np.minimum(given.clicks.clicks // 2, half)
    parts = [
        ClickTable.from_arrays(
            data, row=place[given.clicks.row[cells]], position=given.clicks.position[cells], **counts
        )
        for counts in (
            {"impressions": half[cells], "clicks": few[cells]},
            {"impressions": (given.clicks.impressions - half)[cells], "clicks": (given.clicks.clicks - few)[cells]},
        )
    ]
    merged = CLD(gamma=gamma, target=target).fit(data, parts[0].merge(parts[1]), given.propensities)
    np.testing.assert_allclose(all_parameters(merged), all_parameters(model), rtol=1e-8, atol=1e-8)
    assert merged.log_likelihood_ == pytest.approx(model.log_likelihood_, rel=1e-10)


@given(st.integers(0, 30), st.sampled_from(["ips", "clipped"]))
@settings(max_examples=10)
def test_weights_equal_repetition(seed: int, target: Any) -> None:
    given = scene(seed, queries=12)
    thrice = ClickTable(
        given.clicks.candidates,
        given.clicks.row,
        given.clicks.position,
        given.clicks.impressions * 3,
        given.clicks.clicks * 3,
    )
    once = CLD(target=target).fit(*given)
    found = CLD(target=target).fit(given.data, thrice, given.propensities)
    np.testing.assert_allclose(all_parameters(found), all_parameters(once), rtol=1e-8, atol=1e-8)
    assert found.log_likelihood_ == pytest.approx(3 * once.log_likelihood_)


def test_without_correlation_it_is_least_squares_and_probit() -> None:
    given = scene(2)
    model = CLD(gamma=0.0, model=Linear(l2=0)).fit(*given)
    ips = IPS(model=Linear(l2=0)).fit(*given)
    np.testing.assert_allclose(model.coef_, ips.coef_, rtol=1e-8, atol=1e-10)
    assert model.intercept_ == pytest.approx(ips.intercept_)
    scaled = scaling.fit("standard", given.data.features).transform(given.data.features).astype(np.float64)
    index = scaled @ model.selection_coef_ + model.selection_intercept_
    weight = np.where(
        given.clicks.shown, given.clicks.row_impressions, given.clicks.query_impressions[given.data.row_queries]
    )
    sign = np.where(given.clicks.shown, 1.0, -1.0)
    slope = weight * sign * log_cdf(sign * index).slope
    np.testing.assert_allclose(np.hstack([scaled.T @ slope, slope.sum()]) / weight.sum(), 0, atol=1e-10)


def test_summary_says_what_there_is_to_say() -> None:
    given = scene(5)
    features = np.hstack([given.data.features, given.data.features[:, :1] * 2, np.ones((given.data.n_rows, 1))])
    data = RankingDataset.from_arrays(features, given.data.row_queries, feature_names=["a", "b", "c", "a twice", "one"])
    model = CLD(clip=0.4).fit(data, given.clicks, given.propensities)
    assert model.constant_features_ == ("one",)
    assert model.propensities_.clipped == (3,)
    text = model.summary()
    for words in (
        "CLD(clip=0.4)",
        "converged",
        "clipped to 0.4",
    ):
        assert words in text
    assert model.coef_[0] == pytest.approx(model.coef_[3], rel=1e-6)
    again = CLD(gamma=0.2, model=Linear(l2=0)).fit(data, given.clicks, given.propensities)
    plain = CLD(gamma=0.2, model=Linear(l2=0)).fit(*given)
    np.testing.assert_allclose(again.predict(data), plain.predict(given.data), rtol=1e-6, atol=1e-6)


# -- extremes --------------------------------------------------------------------------------------------------------


def only(given: Scene, kept: Any, clicks: Any = None) -> ClickTable:
    table = given.clicks
    counts = table.clicks if clicks is None else clicks
    return ClickTable(table.candidates, table.row[kept], table.position[kept], table.impressions[kept], counts[kept])


def test_nothing_shown_and_nothing_clicked_are_refused() -> None:
    given = scene(9)
    with pytest.raises(DataError, match="has no impressions; CLD needs candidates that were shown"):
        CLD().fit(given.data, only(given, slice(0, 0)), given.propensities)
    with pytest.raises(DataError, match="has no clicks; CLD cannot learn what is relevant"):
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


@pytest.mark.parametrize("method", [None, "standard", "log"])
def test_features_of_any_size_stay_finite(method: Any) -> None:
    given = scene(12)
    features = given.data.features * np.array([1e30, 1e-30, 1], dtype=np.float32)
    data = RankingDataset.from_arrays(features, given.data.row_queries)
    model = CLD(model=Linear(scaling=method, l2=0)).fit(data, given.clicks, given.propensities)
    assert model.status_ == "converged"
    assert np.isfinite(model.predict(data)).all()
    if method is None:
        expected = CLD(model=Linear(scaling=None, l2=0)).fit(*given).predict(given.data)
        np.testing.assert_allclose(model.predict(data), expected, rtol=1e-4, atol=1e-4)


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


def test_too_few_steps_are_warned_of() -> None:
    with pytest.warns(ConvergenceWarning, match="has not converged after 1 steps"):
        assert CLD(model=Linear(max_steps=1)).fit(*scene(0)).status_ == "max_steps"


def test_rows_on_disk_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = scene(13)
    np.save(tmp_path / "features.npy", given.data.features)
    mapped = RankingDataset(
        np.load(tmp_path / "features.npy", mmap_mode="r"), given.data.offsets, query_ids=given.data.query_ids
    )
    expected = CLD().fit(*given)
    monkeypatch.setattr(rows_module, "_KEPT_BYTES", 0)
    found = CLD(run=Run(block_rows=16)).fit(mapped, given.clicks, given.propensities)
    np.testing.assert_allclose(all_parameters(found), all_parameters(expected), rtol=1e-8, atol=1e-8)


def test_torch_gives_the_same() -> None:
    pytest.importorskip("torch")
    given = scene(14)
    expected, found = CLD().fit(*given), CLD(run=Run(device="cpu")).fit(*given)
    np.testing.assert_allclose(all_parameters(found), all_parameters(expected), rtol=1e-8, atol=1e-8)


# -- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 1}, "`gamma` must be a number above -1 and below 1, not 1"),
        ({"gamma": "best"}, "`gamma` must be a number above -1 and below 1, not 'best'"),
        ({"target": "labels"}, "`target` must be 'ips', 'clipped', 'posterior', 'mixed' or 'clicks'"),
        ({"clip": 0}, "`clip` must be a number above 0"),
        ({"max_steps": 0}, "`max_steps` must be a whole number of at least 1"),
        ({"block_rows": 1.5}, "`block_rows` must be a whole number"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cld(**parameters).fit(*scene(0))


def test_clicks_and_propensities_that_do_not_fit_are_refused() -> None:
    given = scene(0)
    with pytest.raises(UsageError, match="is for a linear model"):
        CLD(model=MLP(), target="clicks").fit(*given)
    with pytest.raises(UsageError, match="CLD needs `clicks`, .*not None"):
        CLD().fit(given.data)
    with pytest.raises(UsageError, match="CLD needs `propensities` .*not None"):
        CLD().fit(given.data, given.clicks)
    with pytest.raises(DataError, match="no propensity for position 3"):
        CLD().fit(given.data, given.clicks, Propensities.power(1, 2))
    with pytest.raises(DataError):
        CLD().fit(given.data[:-1], given.clicks, given.propensities)
    constant = RankingDataset.from_arrays(np.ones((given.data.n_rows, 2)), given.data.row_queries)
    with pytest.raises(DataError, match="all features .* are constant"):
        CLD().fit(constant, given.clicks, given.propensities)


# -- with a network ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.4])
def test_a_network_without_hidden_layers_finds_the_linear_fit(gamma: float) -> None:
    given = scene(2, queries=40)
    table = given.clicks
    first = np.unique(table.row, return_index=True)[1]  # a network knows a candidate by all its positions together
    cells: Any = (column[first] for column in (table.row, table.position, table.impressions, table.clicks))
    given = given._replace(clicks=ClickTable(table.candidates, *cells))
    full = MLP(
        hidden=(),
        l2=0.0,
        epochs=250,
        learning_rate=0.1,
        batch_queries=1000,
        validation=0.0,
        clip_norm=None,
    )
    network = CLD(gamma=gamma, unshown_ratio=100.0, model=full).fit(*given)
    exact = CLD(gamma=gamma, model=Linear(l2=0.0)).fit(*given)
    assert isinstance(network.ranker_, LinearRanker)
    np.testing.assert_allclose(network.ranker_.coefficients, exact.coef_, atol=0.01)
    np.testing.assert_allclose(network.selection_coef_, exact.selection_coef_, atol=0.01)
    assert network.selection_intercept_ == pytest.approx(exact.selection_intercept_, abs=0.01)
    assert network.history_[-1].loss == pytest.approx(-exact.log_likelihood_ / exact.weight_, rel=1e-3)


def test_unshown_that_are_drawn_stand_for_all_and_lists_that_are_cut_count_them_once() -> None:
    given = scene(2, queries=200)
    exact = CLD(model=Linear(l2=0.0)).fit(*given)
    for size in (2, 128):
        own = MLP(hidden=(), l2=0.0, epochs=80, learning_rate=0.02, list_size=size, validation=0.0, batch_queries=64)
        network = CLD(model=own).fit(*given)
        np.testing.assert_allclose(network.selection_coef_, exact.selection_coef_, atol=0.1)
        assert network.selection_intercept_ == pytest.approx(exact.selection_intercept_, abs=0.1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_steps": 9}, "`max_steps` is not for a network; choose `model='linear'`"),
        ({"gamma": 1.0}, "`gamma` must be a number above -1 and below 1, not 1"),
        ({"unshown_ratio": -1}, "`unshown_ratio` must be a number of at least 0, not -1"),
    ],
)
def test_choices_that_a_network_does_not_have_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        cld(model=MLP(hidden=(4,)), **parameters).fit(*scene(0))
