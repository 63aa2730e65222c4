"""Pages in random order, and pages drawn with known probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import cldrank as cr
from cldrank.clicks.simulate import NeighbourSwaps, ShuffledShare, Simulation
from cldrank.clicks.table import ClickTable
from cldrank.errors import CldrankError, CldrankWarning, UnidentifiableError
from cldrank.propensity import ClickThrough, Logged, Randomised, logged_probability


def lists_of_two_lengths() -> ClickTable:
    """Short lists of good results, long lists of bad ones, in random order, exactly at their expectation.

    Position 3 is only on long lists: plain rates mistake their bad results for a position that few look at.
    """
    rho, cells = np.array([1.0, 0.5, 0.25]), []
    for query in range(60):
        length, relevance = (2, 0.8) if query % 2 else (3, 0.2)
        for place in range(length):
            for candidate in range(length):
                shown = 600 // length
                row = query * 3 + candidate
                cells.append((row, place + 1, shown, round(shown * rho[place] * relevance)))
    data = cr.RankingDataset.from_arrays(np.zeros((180, 1)), np.repeat(np.arange(60), 3))
    row, position, impressions, clicks = np.array(cells).T
    return ClickTable.from_arrays(data, row=row, position=position, impressions=impressions, clicks=clicks)


def test_lists_of_different_lengths_do_not_bias() -> None:
    table = lists_of_two_lengths()
    np.testing.assert_allclose(Randomised().fit(table).values, [1, 0.5, 0.25])
    assert ClickThrough().fit(table).values[2] == pytest.approx(0.1)  # 0.25 * 0.2 / the mean of 0.2 and 0.8


def test_uneven_impressions_of_resampled_candidates_are_no_uncertainty() -> None:
    """Of a single query, candidates are resampled; all impressions are clicked, so nothing is left to chance."""
    random, shown = np.random.default_rng(0), np.zeros((60, 3), dtype=np.int64)
    for _ in range(200):
        shown[random.choice(60, 3, replace=False), [0, 1, 2]] += 1
    row, place = np.nonzero(shown)
    cells = {"row": row, "position": place + 1, "impressions": shown[row, place], "clicks": shown[row, place]}
    data = cr.RankingDataset.from_arrays(np.zeros((60, 1)), np.zeros(60, dtype=np.int64))
    rho: Any = Randomised().fit(ClickTable.from_arrays(data, **cells))
    np.testing.assert_allclose(rho.errors, 0, atol=1e-9)


# -- logged probabilities ---------------------------------------------------------------------------------------------


def probability(world: Any, table: ClickTable, share: float) -> Any:
    top = Simulation(world.data, world.scores, depth=world.depth).ranking.top
    own = np.zeros(world.data.n_rows, dtype=np.int64)
    own[top] = np.arange(1, world.depth + 1)
    return (1 - share) * (own[table.row] == table.position) + share / world.depth


def test_recovers_the_truth_from_a_policy_that_is_not_random(world: Any) -> None:
    table = world.log(ShuffledShare(0.3), 1e5)
    rho: Any = Logged(probability=probability(world, table, 0.3)).fit(table)
    np.testing.assert_allclose(rho.values, 1 / np.arange(1, 6), rtol=4 * rho.errors.max())
    raw = ClickThrough().fit(table).values
    assert (raw[1:] < 0.97 * rho.values[1:]).all()


def test_constant_probabilities_are_a_random_order(world: Any) -> None:
    table = world.shuffled()
    logged = Logged(probability=np.full(table.n_cells, 0.2)).fit(table)
    np.testing.assert_allclose(logged.values, Randomised().fit(table).values, rtol=1e-9)


def test_lists_of_different_lengths_may_be_drawn_with_known_probabilities() -> None:
    table = lists_of_two_lengths()
    lengths = np.where(table.candidates.row_queries[table.row] % 2, 2, 3)
    np.testing.assert_allclose(Logged(probability=1 / lengths).fit(table).values, [1, 0.5, 0.25])


def test_refuses_where_some_results_cannot_stand_everywhere(world: Any) -> None:
    table = world.log(NeighbourSwaps(0.5), 1e5)
    ends = np.isin(table.position, (1, world.depth))
    total = table.row_impressions[table.row]
    with pytest.raises(UnidentifiableError, match="every position"):
        Logged(probability=np.where(ends, 0.2, 1.0) * table.impressions / total).fit(table)


def test_probabilities_from_the_log(world: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    simulation = Simulation(world.data, world.scores, policy=ShuffledShare(0.4), depth=world.depth)
    simulation.save_log(path, 2e4)
    table = ClickTable.read(path, world.data)
    found = logged_probability(path, table)
    np.testing.assert_allclose(found, probability(world, table, 0.4))
    assert Logged(probability=found).fit(table).values[1] == pytest.approx(0.5, rel=0.1)
    with pytest.raises(CldrankError, match="row"):
        logged_probability(path, world.two_rankers())
    Simulation(world.data, world.scores).save_log(path, 10)
    with pytest.raises(CldrankError, match="no column 'propensity'"):
        logged_probability(path, table)


def test_a_cell_of_two_probabilities_has_their_harmonic_mean() -> None:
    """The mean of 1 / probability is what its impressions count: Σ n / mean is Σ 1 / probability."""
    log = {"session_id": [1, 2, 3], "query_id": [7] * 3, "doc_id": [5] * 3, "position": [1] * 3, "clicked": [0, 1, 0]}
    table = pa.table({**log, "propensity": [0.5, 0.25, 0.2]})
    np.testing.assert_allclose(logged_probability(table, ClickTable.read(table)), 3 / (2 + 4 + 5))


@pytest.mark.parametrize(
    ("chance", "message"), [(None, "needs the probability"), ("short", r"\(1,\)"), (1.5, "probability 1.5")]
)
def test_wrong_probabilities(world: Any, chance: Any, message: str) -> None:
    table = world.shuffled(1e3)
    short = np.array([0.5]) if chance == "short" else None
    given = np.full(table.n_cells, chance) if isinstance(chance, float) else short
    with pytest.raises(CldrankError, match=message):
        Logged(probability=given).fit(table)


@pytest.mark.parametrize("column", ["doc_id", "position"])
def test_a_row_without_an_id_or_a_position_changes_nothing(column: str) -> None:
    log = {"session_id": [1, 1, 2, 2, 3], "query_id": [7] * 5, "doc_id": [5, 6, 6, 5, 6], "position": [1, 2, 1, 2, 2]}
    log = {**log, column: [*log[column][:4], None]}  # type: ignore[list-item]
    table = pa.table({**log, "clicked": [1, 0, 1, 0, 0], "propensity": [0.5, 0.25, 0.5, 0.25, 0.9]})
    with pytest.warns(CldrankWarning, match="1 set aside"):
        clicks = ClickTable.read(table, max_rejected=1.0)
    np.testing.assert_allclose(logged_probability(table, clicks), [0.5, 0.25, 0.5, 0.25])
