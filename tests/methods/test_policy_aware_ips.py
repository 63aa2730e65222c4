import numpy as np
import pytest
from scenes import scene

from cldrank import scaling
from cldrank.clicks.simulate import PositionBased, ShuffledShare, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning
from cldrank.methods import IPS, PolicyAwareIPS
from cldrank.models import Linear
from cldrank.propensity import Propensities


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


def test_queries_without_pages_teach_nothing_whatever_could_be_shown() -> None:
    data = RankingDataset.from_arrays(np.arange(6.0)[:, None], [7, 7, 7, 8, 8, 8])
    table = ClickTable.from_arrays(
        data, position=[1, 2, 0] + [0] * 3, impressions=[9, 9, 0] + [0] * 3, clicks=[3, 2, 0] + [0] * 3
    ).with_display([[0.5, 0.4]] * 2 + [[0.0, 0.2]] + [[0.5, 0.4]] * 2 + [[0.0, 0.2]])
    model = PolicyAwareIPS().fit(data, table, Propensities.power(1, 2))
    assert (model.n_rows_, model.n_left_out_) == (3, 0)


def test_one_page_for_all_makes_it_ips() -> None:
    data = RankingDataset.from_arrays(np.arange(12.0)[:, None], np.arange(12) // 3)
    table = ClickTable.from_arrays(
        data, position=[1, 2, 3] * 4, impressions=[40] * 12, clicks=[9, 3, 1, 8, 8, 2, 30, 5, 0, 1, 1, 1]
    )
    rho = Propensities.power(1, 3)
    aware, plain = PolicyAwareIPS().fit(data, table, rho), IPS(target="ips").fit(data, table, rho)
    np.testing.assert_allclose(aware.coef_, plain.coef_, rtol=1e-9)


def test_what_cannot_be_shown_is_said() -> None:
    data = RankingDataset.from_arrays(np.arange(3.0)[:, None], [7, 7, 7])
    table = ClickTable.from_arrays(data, position=[1, 2, 0], impressions=[5, 5, 0], clicks=[2, 1, 0])
    rho = Propensities.power(1, 2)
    model = PolicyAwareIPS().fit(data, table.with_display([[1, 0], [0, 1], [0, 0]]), rho)
    assert model.n_left_out_ == 1
    assert "1 candidates that cannot be shown" in model.summary()
