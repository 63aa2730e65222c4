from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scenes import Scene, scene
from scipy.optimize import minimize
from scipy.special import log_expit
from small_models import GIVEN, SMALL, scores, small_pair

from cldrank import scaling
from cldrank.clicks.simulate import PositionBased, Simulation
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.evaluation import evaluate
from cldrank.methods import IPS, CLDPair, Naive, Oracle
from cldrank.methods.evidence import needed
from cldrank.models import MLP, Linear
from cldrank.propensity import Propensities
from cldrank.rankers import LinearRanker

Floats = NDArray[np.float64]


def written_out(given: Scene, selection_weight: float, ratio: float) -> Any:
    """The objective with linear models, by plain loops over all pairs of each query: per unit of preference."""
    X = scaling.fit("standard", given.data.features).transform(given.data.features).astype(np.float64)
    table, n = given.clicks, np.zeros(given.data.n_rows)
    weighed = np.zeros(given.data.n_rows)
    for row, place, times, clicks in zip(table.row, table.position, table.impressions, table.clicks, strict=True):
        n[row] += times
        weighed[row] += clicks / given.propensities.values[place - 1]
    target = np.divide(weighed, n, out=np.zeros_like(n), where=n > 0)
    pairs: list[tuple[int, int, float, bool]] = []
    for start, stop in zip(given.data.offsets[:-1], given.data.offsets[1:], strict=True):
        shown = [row for row in range(start, stop) if n[row]]
        away = [row for row in range(start, stop) if not n[row]]
        own = [
            (i, j, (target[i] - target[j]) * min(n[i], n[j]), True)
            for i in shown
            for j in shown
            if target[i] > target[j]
        ]
        whole = sum(weight for _, _, weight, _ in own)
        each = ratio * whole / max(1, len(shown) * len(away))
        pairs += own + [(i, j, each, False) for i in shown for j in away if own and each]
    i, j, weight, both = (np.array(values) for values in zip(*pairs, strict=True))
    width = X.shape[1]

    def loss(parameters: Floats) -> float:
        beta, omega = parameters[:width], parameters[width:-1]
        f, chosen = X @ beta, X @ omega + parameters[-1]
        apart = f[i] - f[j]
        order = both * log_expit(apart)
        other = np.where(both, log_expit(chosen[j] + apart), log_expit(-chosen[j]))
        value = order + selection_weight * (log_expit(chosen[i] + apart) + other)
        return float(-(weight * value).sum() / weight[both].sum())

    return loss, width


@pytest.mark.parametrize("selection_weight", [0.0, 0.5])
def test_an_independent_optimiser_finds_the_same_optimum(selection_weight: float) -> None:
    given, ratio = scene(1, queries=60), 20.0  # so many draws that each epoch has all that were not shown
    loss, width = written_out(given, selection_weight, ratio)
    whole = MLP(hidden=(), l2=0.0, epochs=400, learning_rate=0.3, batch_queries=1000, validation=0.0, clip_norm=None)
    model = CLDPair(selection_weight=selection_weight, unshown_ratio=ratio, target="ips", model=whole)
    model.fit(*given)
    assert isinstance(model.ranker_, LinearRanker)
    found = np.concatenate([model.ranker_.coefficients, model.selection_coef_, [model.selection_intercept_]])
    best = minimize(loss, np.zeros(2 * width + 1))
    assert loss(found) == pytest.approx(best.fun, rel=1e-5)
    assert model.history_[-1].loss == pytest.approx(loss(found), rel=1e-4)
    np.testing.assert_allclose(found[:width], best.x[:width], atol=0.02)
    line = CLDPair(selection_weight=selection_weight, unshown_ratio=ratio, target="ips", model=Linear(l2=0)).fit(*given)
    intercept = (
        line.selection_intercept_ if selection_weight else 0.0
    )  # which is infinite where selection has no weight
    assert loss(np.concatenate([line.coef_, line.selection_coef_, [intercept]])) <= best.fun + 1e-8


def test_without_selection_it_is_ips() -> None:
    pair = small_pair(selection_weight=0.0, unshown_ratio=0.0, epochs=2).fit(*GIVEN)
    ips = IPS(model=replace(SMALL, epochs=2)).fit(*GIVEN)
    np.testing.assert_allclose(scores(pair), scores(ips), rtol=1e-4, atol=1e-6)
    assert (pair.selection_coef_ == 0).all()


def test_a_linear_model_leaves_coefficients_and_a_network_none() -> None:
    linear, network = CLDPair(model=Linear()).fit(*GIVEN), small_pair(epochs=1).fit(*GIVEN)
    scaled = scaling.fit("standard", GIVEN.data.features).transform(GIVEN.data.features)
    np.testing.assert_allclose(scores(linear), scaled @ linear.coef_, atol=1e-6)
    assert not hasattr(network, "coef_")
    assert not hasattr(linear.set_params(model=SMALL).fit(*GIVEN), "coef_")  # an earlier fit is forgotten


# -- quality -------------------------------------------------------------------------------------------------------


def world(queries: int, seed: int, candidates: int = 15) -> RankingDataset:
    """Relevance that no linear model can follow."""
    random = np.random.default_rng(seed)
    rows = queries * candidates
    x = random.normal(size=(rows, 6))
    relevance = 1.2 * x[:, 0] + 1.5 * np.abs(x[:, 1]) - 1.2 + x[:, 2] * x[:, 3] + 0.5 * random.normal(size=rows)
    return RankingDataset.from_arrays(x, np.arange(rows) // candidates, labels=(relevance > 1.2).astype(int))


def quality(model: Any, seed: int, eta: float = 1.5) -> float:
    """NDCG@3 on other queries, after clicks on the top 4 of a production ranker that looks elsewhere."""
    train, test = world(200, seed), world(200, 1000 + seed)
    x = train.features
    production = 0.8 * x[:, 4] + 0.5 * x[:, 0] - 0.3 * np.abs(x[:, 1])
    clicks = Simulation(train, production, PositionBased(eta=eta, noise=0.1), depth=4, relevant_from=1).draw(
        1e5, seed=seed
    )
    model.set_params(run__seed=seed)
    fitted = model.fit(train, *needed(model.needs, clicks, Propensities.power(eta, 4)))
    return float(evaluate(fitted, test, ["nDCG@3"])["nDCG@3"])


def test_correcting_for_bias_ranks_better_than_taking_clicks_for_relevance() -> None:
    network = MLP(hidden=(32, 16), dropout=0.1, batch_queries=16)
    naive, ips, pair, ceiling = (quality(kind(model=network), 0) for kind in (Naive, IPS, CLDPair, Oracle))
    assert naive + 0.05 < min(ips, pair) < max(ips, pair) < ceiling


# -- what it refuses -----------------------------------------------------------------------------------------------


def test_without_a_pair_to_learn_from_it_says_so() -> None:
    table = GIVEN.clicks
    equal = type(table)(table.candidates, table.row, table.position, table.impressions, table.impressions)
    with pytest.raises(DataError, match="CLD-pair with a network"):
        CLDPair(target="ips").fit(GIVEN.data, equal, Propensities.power(0, 3))
