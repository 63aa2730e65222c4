import numpy as np
import pytest
from scenes import scene

import cldrank as cr
from cldrank import scaling
from cldrank.clicks.simulate import PositionBased, ShuffledShare, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.methods import IPS, PolicyAwareIPS
from cldrank.models import MLP, Linear, Model
from cldrank.propensity import Propensities

RHO = Propensities.power(1, 5)


def selected(seed: int, sessions: float) -> tuple[RankingDataset, RankingDataset, ClickTable]:
    """Clicks on pages of a ranker that knows of relevance what the features do not, with noise in its scores."""
    random = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        features = random.normal(size=(200 * 15, 5))
        noisy = features @ np.array([1, 0.8, -0.6, 0.4, 0]) + 0.7 * random.normal(size=len(features))
        parts.append(RankingDataset.from_arrays(features, np.arange(len(features)) // 15, (noisy > 1).astype(int)))
    train, test = parts
    assert train.labels is not None
    production = 3 * train.labels + train.features @ np.array([-0.5, -0.4, 0.3, 0, 1])
    pages = 300
    noisy_scores = (production + random.gumbel(scale=0.5, size=train.n_rows) for _ in range(pages))
    logs = [
        Simulation(train, scores, PositionBased(1, 0.1), depth=5, relevant_from=1).draw(sessions // pages, seed=number)
        for number, scores in enumerate(noisy_scores)
    ]
    return train, test, ClickTable.merged(logs)


@pytest.mark.parametrize("clip", [None, 0.6])
def test_it_regresses_clicks_over_the_chance_of_being_seen(clip: float | None) -> None:
    given = scene(0)
    seen = np.bincount(
        given.clicks.row, given.clicks.impressions * given.propensities.at(given.clicks.position), given.data.n_rows
    )
    kept = np.flatnonzero(seen > 0)
    pages = given.clicks.query_impressions[given.data.row_queries[kept]]
    chance = seen[kept] / pages
    target = given.clicks.row_clicks[kept] / (pages * np.maximum(chance, clip or 0.0))
    X = scaling.fit("standard", given.data.features).transform(given.data.features)[kept].astype(np.float64)
    extended = np.hstack([X, np.ones((len(X), 1))])
    solution = np.linalg.solve(extended.T @ (extended * pages[:, None]), extended.T @ (pages * target))
    with pytest.warns(CldrankWarning, match="were never shown, and are left out"):
        model = PolicyAwareIPS(clip=clip, model=Linear(l2=0)).fit(*given)
    assert model.n_clipped_ == (chance < (clip or 0.0)).sum()
    assert (model.n_clipped_ > 0) == (clip is not None)
    np.testing.assert_allclose(model.coef_, solution[:-1], rtol=1e-7)
    displayed = int((given.clicks.query_impressions[given.data.row_queries] > 0).sum())
    assert model.n_left_out_ == displayed - len(kept)


@pytest.mark.parametrize("model", [Linear(), MLP(hidden=(16,), epochs=6)], ids=repr)
def test_it_beats_ips_where_pages_are_drawn(model: Model) -> None:
    gains = []
    for seed in range(3):
        train, test, clicks = selected(seed, 1e5)
        aware, plain = (kind(model=model).fit(train, clicks, RHO) for kind in (PolicyAwareIPS, IPS))
        gains.append(_ap(aware, test) - _ap(plain, test))
    assert min(gains) > 0.02


def test_known_display_counts_what_was_never_shown() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 50 * 10)
    data = RankingDataset.from_arrays(np.column_stack([labels, random.normal(size=500)]), np.arange(500) // 10, labels)
    policy = ShuffledShare(1.0, shuffle="candidates")
    clicks = Simulation(data, np.zeros(500), PositionBased(1, 0.1), policy, 3, relevant_from=1).draw(300, seed=1)
    rho, display = Propensities.power(1, 3), np.full((500, 3), 0.1)
    known = PolicyAwareIPS(model=Linear(scaling=None, l2=0)).fit(data, clicks.with_display(display), rho)
    estimated = PolicyAwareIPS(model=Linear(scaling=None, l2=0)).fit(data, clicks, rho)
    assert known.n_left_out_ == 0
    assert estimated.n_left_out_ > 0
    assert known.n_rows_ > estimated.n_rows_
    assert abs(known.coef_[0] - 0.9) < 0.1  # 1 if relevant, else 0.1
    assert abs(known.intercept_ - 0.1) < 0.1


def test_its_targets_have_no_bias() -> None:
    train, _, clicks = selected(0, 2e6)
    model = PolicyAwareIPS(clip=0.05).fit(train, clicks, RHO)
    assert model.n_clipped_ > 0
    labels = train.labels
    assert labels is not None
    chance = np.bincount(clicks.row, clicks.impressions * RHO.at(clicks.position), train.n_rows)
    often = chance > 500
    told = clicks.row_clicks[often] / chance[often]
    np.testing.assert_allclose(told[labels[often] > 0].mean(), 1.0, atol=0.02)
    np.testing.assert_allclose(told[labels[often] == 0].mean(), 0.1, atol=0.02)


def test_one_page_for_all_makes_it_ips() -> None:
    data = RankingDataset.from_arrays(np.arange(12.0)[:, None], np.arange(12) // 3)
    table = ClickTable.from_arrays(
        data, position=[1, 2, 3] * 4, impressions=[40] * 12, clicks=[9, 3, 1, 8, 8, 2, 30, 5, 0, 1, 1, 1]
    )
    rho = Propensities.power(1, 3)
    aware, plain = PolicyAwareIPS().fit(data, table, rho), IPS(target="ips").fit(data, table, rho)
    np.testing.assert_allclose(aware.coef_, plain.coef_, rtol=1e-9)


def test_what_it_needs_is_said() -> None:
    data = RankingDataset.from_arrays(np.arange(3.0)[:, None], [7, 7, 7])
    table = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[5, 5, 0], clicks=[2, 1, 0])
    rho = Propensities.power(1, 2)
    with pytest.raises(UsageError, match="Policy-aware-IPS needs `propensities`"):
        PolicyAwareIPS().fit(data, table)
    with pytest.raises(DataError, match=r"display has shape \(3,\)"):
        table.with_display([1, 1, 1])
    with pytest.raises(DataError, match="row 0 of display.*at most 1"):
        table.with_display([[1, 1], [0, 1], [0, 0]])
    with pytest.raises(DataError, match="row 1 was shown at position 2"):
        table.with_display([[1, 0], [0, 0], [0, 0]])
    with pytest.raises(UsageError, match="`clip` must be"):
        PolicyAwareIPS(clip=0).fit(data, table, rho)
    model = PolicyAwareIPS().fit(data, table.with_display([[1, 0], [0, 1], [0, 0]]), rho)
    assert model.n_left_out_ == 1
    assert "1 candidates that cannot be shown" in model.summary()


def _ap(model: PolicyAwareIPS | IPS, test: RankingDataset) -> float:
    return cr.evaluate(model, test, ["AP"])["AP"]
