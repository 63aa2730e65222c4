from typing import Any

import numpy as np
import pytest
from mroz import Floats, Mroz, goldens
from two_steps import two_step

from cldrank import likelihood
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.methods.heckman import HeckmanRank
from cldrank.methods.naive import Naive
from cldrank.methods.observing import observe
from cldrank.models import Linear, Run
from cldrank.scaling import fit as fit_scaling

MROZ = Mroz()
PLAIN = Linear(l2=0.0, scaling=None)


def log(
    queries: int = 30, size: int = 8, depth: int = 3, sessions: int = 20, seed: int = 0
) -> tuple[RankingDataset, ClickTable]:
    """Pages of the best candidates by a noisy ranker, clicked by chance."""
    random = np.random.default_rng(seed)
    rows = queries * size
    features = random.normal(size=(rows, 3)).astype(np.float32)
    rank = np.argsort(np.argsort(-(features @ [1, 0.5, 0] + random.normal(size=rows)).reshape(queries, size), axis=1))
    position = np.where(rank < depth, rank + 1, 0).ravel()
    pages = np.repeat(random.integers(1, sessions, queries), size)
    impressions = np.where(position > 0, pages, 0)
    chance = 1 / (1 + np.exp(-features @ [0.5, 0, 1.0])) / np.sqrt(np.maximum(position, 1))
    clicks = random.binomial(impressions, chance)
    data = RankingDataset.from_arrays(features, np.arange(rows) // size, feature_names=("a", "b", "c"))
    return data, ClickTable.from_arrays(data, position=position, impressions=impressions, clicks=clicks)


# -- two steps on plain arrays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two_step", "two_step_repeated"])
def test_two_steps_are_those_of_r(name: str) -> None:
    golden = goldens()[name]
    weights = MROZ.weights if name == "two_step_repeated" else None  # R was given each row that many times
    wage = np.where(MROZ.works, MROZ.wage, np.nan)
    found = two_step(MROZ.outcome[:, 1:], MROZ.selection[:, 1:], wage, MROZ.works, weights)
    outcome, selection = [4, 0, 1, 2, 3, 5], [5, 0, 1, 2, 3, 4]  # R puts the intercept first
    np.testing.assert_allclose(found.selection[selection], golden["selection"]["coefficients"], rtol=1e-9)
    errors = np.sqrt(np.diag(found.selection_covariance))
    np.testing.assert_allclose(errors[selection], golden["selection"]["standard_errors"], rtol=1e-9)
    np.testing.assert_allclose(found.outcome[outcome], golden["outcome"]["coefficients"], rtol=1e-9)
    np.testing.assert_allclose(found.log_likelihood, golden["probit_log_likelihood"], rtol=1e-12)


# -- HeckmanRank -------------------------------------------------------------------------------------------------


def single_impressions(data: RankingDataset, clicks: ClickTable) -> tuple[Floats, Floats, Any]:
    """The log spelt out: a row for each impression of a candidate, and for each page that left it out."""
    features, targets, shown = [], [], []
    pages = clicks.query_impressions[data.row_queries]
    for row in range(data.n_rows):
        n, c = clicks.row_impressions[row], clicks.row_clicks[row]
        count = n or pages[row]
        features.append(np.repeat(data.features[row : row + 1].astype(np.float64), count, axis=0))
        targets.append(np.append(np.ones(c), np.zeros(count - c)))
        shown.append(np.full(count, n > 0))
    return np.concatenate(features), np.concatenate(targets), np.concatenate(shown)


def test_cells_say_what_single_impressions_say() -> None:
    data, clicks = log()
    model = HeckmanRank(model=PLAIN).fit(data, clicks)
    X, y, shown = single_impressions(data, clicks)
    expected = two_step(X, X, y, shown)
    np.testing.assert_allclose(model.coef_, expected.outcome[:3], rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, expected.outcome[3], rtol=1e-8)
    np.testing.assert_allclose(model.mills_coefficient_, expected.outcome[4], rtol=1e-8)
    np.testing.assert_allclose(model.selection_coef_, expected.selection[:3], rtol=1e-8)
    np.testing.assert_allclose(model.selection_intercept_, expected.selection[3], rtol=1e-8)
    np.testing.assert_allclose(model.log_likelihood_, expected.log_likelihood, rtol=1e-10)
    assert (model.status_, model.weight_) == ("converged", len(y))


def test_the_first_stage_is_the_probit_of_the_selection_objective() -> None:
    data, clicks = log()
    model = HeckmanRank(model=Linear(l2=0.01)).fit(data, clicks)
    observed, scaling = observe(data, clicks), fit_scaling("standard", data.features)
    scaled = scaling.transform(data.features).astype(np.float64)
    X = np.hstack([scaled, np.ones((len(scaled), 1))])[observed.rows]
    weight = observed.absent.copy()
    weight[observed.shown] = observed.by_row()[1]
    sign = np.where(observed.absent > 0, -1.0, 1.0)
    penalty, omega = 0.01 * weight.sum() * np.array([1.0, 1.0, 1.0, 0.0]), np.zeros(4)
    for _ in range(50):  # a textbook's Newton method
        terms = likelihood.log_cdf(sign * (X @ omega))
        information = (X.T * (weight * terms.curvature)) @ X + 2 * np.diag(penalty)
        gradient = X.T @ (weight * sign * terms.slope) - 2 * penalty * omega
        omega = omega + np.linalg.solve(information, gradient)
    np.testing.assert_allclose(model.selection_coef_, omega[:3], rtol=1e-8)
    np.testing.assert_allclose(model.selection_intercept_, omega[3], rtol=1e-8)
    np.testing.assert_allclose(model.log_likelihood_, weight @ terms.value, rtol=1e-10)


def test_neither_blocks_nor_split_cells_nor_undisplayed_queries_change_anything() -> None:
    data, clicks = log()
    expected = HeckmanRank().fit(data, clicks)
    halves = [clicks.impressions // 2, clicks.impressions - clicks.impressions // 2]
    first = np.minimum(clicks.clicks, halves[0])
    parts = [
        ClickTable(clicks.candidates, clicks.row, clicks.position, n, c)
        for n, c in zip(halves, (first, clicks.clicks - first), strict=True)
    ]
    split = HeckmanRank(run=Run(block_rows=13)).fit(data, parts[0].merge(parts[1]))
    for name in ("coef_", "intercept_", "mills_coefficient_", "selection_coef_", "selection_intercept_"):
        np.testing.assert_allclose(getattr(split, name), getattr(expected, name), rtol=1e-9)
    features = np.vstack([data.features, data.features[:8] * 0 + 9])
    more = RankingDataset.from_arrays(features, np.append(data.row_queries, [99] * 8), feature_names=data.feature_names)
    table = ClickTable.from_arrays(
        more, row=clicks.row, position=clicks.position, impressions=clicks.impressions, clicks=clicks.clicks
    )
    longer = HeckmanRank(model=PLAIN).fit(more, table)
    np.testing.assert_allclose(longer.coef_, HeckmanRank(model=PLAIN).fit(data, clicks).coef_, rtol=1e-7)


def test_with_everything_shown_it_is_naive() -> None:
    data, clicks = log(depth=8)
    model, naive = HeckmanRank().fit(data, clicks), Naive().fit(data, clicks)
    np.testing.assert_allclose(model.coef_, naive.coef_, rtol=1e-8)
    assert (model.mills_coefficient_, model.selection_intercept_) == (0.0, np.inf)
    assert model.status_ == "converged"
