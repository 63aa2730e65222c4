from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.simulate import NeighbourSwaps, PositionBased, Simulation
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.measures import compute
from cldrank.online import SimulatedTest, interleave
from cldrank.online import simulated_tests as module
from cldrank.online.simulated_tests import Kind

PAGES = 100_000


@pytest.fixture(scope="module")
def data() -> RankingDataset:
    """60 queries with 12 candidates each; the second half repeats the first."""
    labels = np.random.default_rng(0).integers(0, 5, 360)
    return RankingDataset.from_arrays(np.zeros((720, 1)), np.arange(720) // 12, np.tile(labels, 2))


def production(data: RankingDataset, scores: Any, depth: int = 5) -> Simulation:
    return Simulation(data, scores, PositionBased(eta=1.0, noise=0.1), depth=depth)


def credit(log: pa.Table) -> np.ndarray[Any, Any]:
    """Clicks on results of the new ranker, minus those on results of the old, by page."""
    sign = np.select([np.array(log["team"]) == "new", np.array(log["team"]) == "old"], [1, -1])
    return np.bincount(log["session_id"].to_numpy(), sign * log["clicked"].to_numpy())


@pytest.mark.parametrize("skill", [0.0, 0.5, 5.0])
def test_level_rankers_win_half_of_the_decided_pages(data: RankingDataset, skill: float) -> None:
    """Level by construction: in the second half of the queries, the two rankers have changed places."""
    other, skilled = np.random.default_rng(0).normal(size=(2, 360))
    skilled += skill * np.asarray(data.labels)[:360]
    new, old = np.concatenate([skilled, other]), np.concatenate([other, skilled])
    pages = credit(SimulatedTest(production(data, old), new).table(PAGES))
    won, lost = int((pages > 0).sum()), int((pages < 0).sum())
    assert won + lost > PAGES / 5
    assert abs(won - lost) < 4 * np.sqrt(won + lost)


def test_better_rankers_win_in_the_order_of_labels(data: RankingDataset) -> None:
    random = np.random.default_rng(1)
    rankers = [np.asarray(data.labels) + random.normal(0, noise, 720) for noise in (0.3, 1.0, 2.0, 4.0)]
    measures = [compute("DCG@5", scores, data.labels, data.offsets) for scores in rankers]
    quality = [float(values.mean()) for measured in measures for values in measured.values()]
    assert quality == sorted(quality, reverse=True)
    old = production(data, rankers[2])
    gains = [credit(SimulatedTest(old, new).table(20_000)).mean() for new in rankers]
    assert gains == sorted(gains, reverse=True)
    assert gains[1] > 0 > gains[3]
    assert gains[2] == 0.0  # the same ranker: all results are of both


def test_the_log_is_of_pages_as_the_service_makes_them(data: RankingDataset) -> None:
    new, old = np.random.default_rng(0).random((2, 720))
    test = SimulatedTest(production(data, old), new, people=50, interests=2, days=20, experiment="May")
    log = test.table(2000, seed=3)
    assert log.column_names == [
        "session_id", "query_id", "doc_id", "position", "clicked", "team", "new_rank", "old_rank", "user_id",
        "timestamp", "experiment",
    ]  # fmt: skip
    for page in range(0, 2000, 97):
        rows = log.slice(5 * page, 5).to_pylist()
        query, person = rows[0]["query_id"], rows[0]["user_id"]
        of_query = slice(12 * query, 12 * query + 12)
        made = interleave(new[of_query], old[of_query], 5, ("May", 3, person, query), ids=range(1, 13))
        kept = ("doc_id", "position", "team", "new_rank", "old_rank")
        assert [{name: row[name] for name in kept} for row in rows] == made.records()
    times = log["timestamp"].to_numpy()
    assert (np.diff(times) >= np.timedelta64(0)).all()
    assert len(np.unique(times.astype("datetime64[D]"))) == 20
    frame = log.to_pandas()
    assert frame.groupby("user_id")["query_id"].nunique().max() == 2
    assert frame["user_id"].value_counts().iloc[0] > 3 * frame["user_id"].value_counts().median()
    with pytest.warns(CldrankWarning, match="mixture of both rankers"):
        counts = ClickTable.read(log, data)
    assert (counts.impressions.sum(), counts.clicks.sum()) == (10_000, int(frame["clicked"].sum()))


def test_people_stay_in_their_arm(data: RankingDataset) -> None:
    better = np.asarray(data.labels) + np.random.default_rng(0).normal(0, 1, 720)
    test = SimulatedTest(production(data, np.random.default_rng(1).random(720)), better, "ab", people=2000, share=0.3)
    frame = test.table(20_000).to_pandas()
    by_person = frame.groupby("user_id", observed=True)["arm"]
    assert by_person.nunique().max() == 1
    assert (by_person.first() == "new").mean() == pytest.approx(0.3, abs=0.05)
    rate = frame.groupby("arm", observed=True)["clicked"].mean()
    assert list(rate.index) == ["new", "old"]
    assert rate["new"] > rate["old"] + 0.02
    alone = SimulatedTest(production(data, better), better, "ab").table(2000).to_pandas()
    assert "user_id" not in alone
    assert alone.drop_duplicates("session_id")["arm"].value_counts()["new"] == pytest.approx(1000, abs=150)


def test_a_log_is_reproducible_and_saved_as_it_is(
    data: RankingDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 64)
    new, old = np.random.default_rng(0).random((2, 720))
    kinds: tuple[Kind, ...] = ("interleaving", "ab")
    for kind in kinds:
        test = SimulatedTest(production(data, old), new, kind, people=20)
        log, done = test.table(200, seed=5), list[int]()
        test.save(tmp_path / "log.parquet", 200, seed=5, progress=done.append)
        assert pq.read_table(tmp_path / "log.parquet").to_pydict() == log.to_pydict()
        assert done == [64, 128, 192, 200]
        assert log != test.table(200, seed=6)
        assert len(np.unique(log["session_id"])) == 200


def test_short_pages_and_ids_of_the_data() -> None:
    data = RankingDataset.from_arrays(
        np.zeros((4, 1)), ["a", "a", "a", "b"], [1, 0, 0, 1], doc_ids=["x", "y", "z", "x"]
    )
    log = SimulatedTest(production(data, [3, 2, 1, 1], depth=2), [1, 2, 3, 1]).table(50).to_pandas()
    assert set(log[log["query_id"] == "b"]["team"]) == {"both"}
    assert log.groupby("query_id", observed=True)["position"].max().to_dict() == {"a": 2, "b": 1}


def test_what_is_refused(data: RankingDataset) -> None:
    old, scores = production(data, np.arange(720)), np.arange(720.0)
    swapping = Simulation(data, scores, policy=NeighbourSwaps(0.5))
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: SimulatedTest(old, scores, "abc"), UsageError, "`kind`"),  # type: ignore[arg-type]
        (lambda: SimulatedTest(old, scores[1:]), DataError, "719"),
        (lambda: SimulatedTest(old, scores, people=0), UsageError, "`people`"),
        (lambda: SimulatedTest(old, scores, interests=3), UsageError, "`people`"),
        (lambda: SimulatedTest(old, scores, share=1.5), UsageError, "`share`"),
        (lambda: SimulatedTest(swapping, scores), UsageError, "NeighbourSwaps"),
        (lambda: SimulatedTest(old, scores).table(0), UsageError, "`sessions`"),
    ]
    for call, error, words in cases:
        with pytest.raises(error, match=words):
            call()
