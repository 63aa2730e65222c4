"""Events beside clicks: what logs say of them, what cells keep, and what they are worth."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank import ClickTable, RankingDataset
from cldrank.clicks.aggregate import aggregate
from cldrank.clicks.days import DayFolder
from cldrank.clicks.events import checked_weights, squares_of, value_of
from cldrank.clicks.simulate import PositionBased, ShuffledShare, Simulation
from cldrank.errors import CldrankError, DataError, FormatError, UsageError

WEIGHTS = {"click": 1.0, "cart": 3.0, "purchase": 10.0}
EVENTS = {"purchase": 0.1, "cart": 0.5}
DATA = RankingDataset.from_arrays([[1], [2], [3], [4]], [7, 7, 8, 8], labels=[0, 4, 2, 1], doc_ids=list("abab"))


def drawn_log(pages: int = 200, days: int = 0) -> pa.Table:
    """Pages of three results, where carts and purchases follow clicks, in forms that logs have."""
    random = np.random.default_rng(5)
    rows = []
    for session in range(pages):
        for position in (1, 2, 3):
            clicked = random.random() < 0.6 / position
            cart = clicked and random.random() < 0.4
            bought = cart and random.random() < 0.5
            at = datetime(2026, 11, 13, tzinfo=UTC) + timedelta(days=session % max(days, 1))
            rows.append(
                (session, session % 2, f"d{position}", position, clicked, 2 * cart, "yes" if bought else None, at)
            )
    names = ("session_id", "query_id", "doc_id", "position", "clicked", "cart", "purchase", "timestamp")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def counted(table: ClickTable) -> dict[tuple[Any, Any, int], tuple[int, ...]]:
    """Impressions, clicks and events of each cell."""
    candidates = table.candidates
    queries = candidates.query_ids[candidates.row_queries[table.row]].tolist()
    counts = [table.impressions, table.clicks, *table.events.values()]
    keys = zip(queries, candidates.doc_ids[table.row].tolist(), table.position.tolist(), strict=True)
    return dict(zip(keys, map(tuple, np.stack(counts, axis=1).tolist()), strict=True))


def plainly(log: pa.Table) -> dict[tuple[Any, Any, int], tuple[int, ...]]:
    """The same, one row after the other."""
    sums: dict[Any, Counter[str]] = {}
    for row in log.to_pylist():
        own = sums.setdefault((row["query_id"], row["doc_id"], row["position"]), Counter())
        own.update(n=1, clicks=row["clicked"], cart=row["cart"] > 0, purchase=row["purchase"] == "yes")
    return {key: (own["n"], own["clicks"], own["cart"], own["purchase"]) for key, own in sums.items()}


class TestWeights:
    @pytest.mark.parametrize(
        ("weights", "words"),
        [
            ({"click": -1}, "at least 0"),
            ({"purchase": float("nan")}, "number"),
            ({"add to cart": 3}, "add to cart"),
            ({"click": 0, "cart": 0}, "all 0"),
            ({"Cart": 1, "cart": 2}, "twice"),
            (["click"], "must name events"),
        ],
    )
    def test_senseless_ones_are_refused(self, weights: Any, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            checked_weights(weights)

    @given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=30))
    def test_sums_of_squares(self, clicks: list[tuple[bool, bool, bool]]) -> None:
        """Exact for a funnel, otherwise an upper bound; value is exact anyway."""
        for is_funnel in (False, True):
            each = [(True, a, a and b if is_funnel else b) for a, b, _ in clicks]
            counts = {name: np.array([sum(row[at] for row in each)]) for at, name in enumerate(WEIGHTS)}
            worth = [sum(w * e for w, e in zip(WEIGHTS.values(), row, strict=True)) for row in each]
            assert value_of(counts, WEIGHTS)[0] == pytest.approx(sum(worth))
            exact = sum(value**2 for value in worth)
            bound = squares_of(counts, WEIGHTS)[0]
            assert bound == pytest.approx(exact) if is_funnel else bound >= exact - 1e-9


class TestCounting:
    def test_each_event_by_cell(self, engine: Any) -> None:
        log = drawn_log()
        result = aggregate(log, engine=engine, event_weights=WEIGHTS)
        assert counted(result.clicks) == plainly(log)
        assert (result.account.found, result.account.rejected) == ((), {})
        assert result.clicks.event_weights == WEIGHTS
        alone = aggregate(log, engine=engine).clicks
        assert alone.events == {}
        assert alone.contexts is not None
        assert result.clicks.contexts is not None
        for name in ("row", "last_click", "impressions", "clicks"):
            assert np.array_equal(getattr(alone.contexts, name), getattr(result.clicks.contexts, name))

    def test_a_log_of_pages_has_lists(self) -> None:
        pages = {
            "session_id": [1, 2], "query_id": ["q", "q"], "documents": [["a", "b"], ["a", "b"]],
            "clicked_positions": [[1], []], "purchase": [[True, False], [False, False]],
        }  # fmt: skip
        table = aggregate(pa.table(pages), event_weights={"click": 1, "purchase": 10}).clicks
        assert table.value.tolist() == [11, 0]
        with pytest.raises(FormatError, match="purchase"):
            aggregate(pa.table({**pages, "purchase": [True, False]}), event_weights={"purchase": 1})

    def test_acting_without_a_click_counts_as_a_click_and_is_told(self) -> None:
        log = {"session_id": [1, 2, 3], "query_id": ["q"] * 3, "doc_id": ["a"] * 3, "position": [1, 1, 0]}
        log |= {"clicked": [0, 1, 0], "orders": [1, 0, 1]}
        options: dict[str, Any] = {"columns": {"purchase": "orders"}, "event_weights": {"purchase": 5}}
        result = aggregate(pa.table(log), first_position=1, max_rejected=1, **options)
        assert (result.clicks.clicks.tolist(), result.clicks.value.tolist()) == ([2], [5])
        assert "1 result with other events but no click" in result.account.found[0]
        assert result.account.rejected == {"click never shown": 1}

    def test_of_repeated_rows_the_one_with_the_event_counts(self) -> None:
        log = {"session_id": [1] * 3, "query_id": ["q"] * 3, "doc_id": ["a", "a", "b"], "position": [1, 1, 2]}
        log |= {"clicked": [1, 1, 0], "purchase": [0, 1, 0]}
        result = aggregate(pa.table(log), max_rejected=1, event_weights={"purchase": 1})
        assert (counted(result.clicks)["q", "a", 1], result.account.n_rejected) == ((1, 1, 1), 1)

    @pytest.mark.parametrize(
        ("weights", "error", "words"),
        [
            ({"refund": 1}, FormatError, "refund"),
            ({"position": 1}, UsageError, "role of another column"),
            ({"click": 1, "doc_id": 2}, UsageError, "role of another column"),
            ({"Position": 1}, UsageError, "role of another column"),  # in SQL the same name
        ],
    )
    def test_unknown_events_are_refused(self, weights: Any, error: type[CldrankError], words: str) -> None:
        with pytest.raises(error, match=words):
            aggregate(drawn_log(2), event_weights=weights)

    def test_numbers_that_are_none_are_set_aside(self) -> None:
        log = {"session_id": [1, 2], "query_id": ["q"] * 2, "doc_id": ["a"] * 2, "position": [1, 1]}
        log |= {"clicked": [0, 1], "purchase": ["often", "-1"]}
        result = aggregate(pa.table(log), max_rejected=1, event_weights={"purchase": 1})
        assert result.account.rejected == {"not a number": 2}
        assert "'purchase'" in result.account.details["not a number"]


class TestCells:
    @pytest.fixture
    def table(self) -> ClickTable:
        return aggregate(drawn_log(), event_weights=WEIGHTS).clicks

    def test_on_disk_they_keep_everything(self, table: ClickTable, tmp_path: Path) -> None:
        table.save(tmp_path / "cells.parquet")
        again = ClickTable.read(tmp_path / "cells.parquet")
        assert (counted(again), again.event_weights) == (counted(table), WEIGHTS)
        assert again.contexts is not None
        other = ClickTable.read(tmp_path / "cells.parquet", event_weights={"purchase": 2})
        assert np.array_equal(other.value, 2.0 * table.events["purchase"])
        with pytest.raises(UsageError, match="click, cart and purchase"):
            ClickTable.read(tmp_path / "cells.parquet", event_weights={"refund": 1})

    def test_parts_and_sums(self, table: ClickTable) -> None:
        halves = [table[[0]], table[[1]]]
        assert {**counted(halves[0]), **counted(halves[1])} == counted(table)
        assert counted(ClickTable.merged(halves)) == counted(table)
        top = table.where(table.position == 1)
        assert np.array_equal(top.value, table.value[table.position == 1])
        assert table.clicks_alone().value.tolist() == table.clicks.tolist()
        assert table.credit.sum() == pytest.approx(table.clicks.sum())
        assert "cart (" in table.events_in_words
        with pytest.raises(DataError, match="other weights"):
            halves[0].merge(halves[1].weighted({"click": 1}))
        with pytest.raises(DataError, match="other events"):
            halves[0].merge(halves[1].clicks_alone())

    def test_more_events_than_clicks_are_refused(self) -> None:
        shown = {"position": [1, 2, 1, 2], "impressions": [9] * 4, "clicks": [2, 0, 1, 1]}
        with pytest.raises(DataError, match="after 0 clicks"):
            ClickTable.from_arrays(DATA, **shown, events={"purchase": [1, 1, 0, 0]})
        for name in ("click", "add to cart"):
            with pytest.raises(DataError, match="a word such as add_to_cart"):
                ClickTable.from_arrays(DATA, **shown, events={name: [0] * 4})
        with pytest.raises(UsageError, match="counts by event"):
            ClickTable.from_arrays(DATA, **shown, events=[1])
        with pytest.raises(DataError, match="purchase has 1 entries"):
            ClickTable.from_arrays(DATA, **shown, events={"purchase": [1]})

    def test_days_add_up(self, tmp_path: Path) -> None:
        log = drawn_log(days=3)
        pq.write_table(log, tmp_path / "log.parquet")
        days = DayFolder(tmp_path / "days")
        days.add(tmp_path / "log.parquet", event_weights=WEIGHTS)
        assert counted(days.read()) == plainly(log)
        assert days.read(event_weights={"cart": 1}).value.sum() == days.read().events["cart"].sum()
        pq.write_table(log.set_column(0, "session_id", pa.array(range(1000, 1600))), tmp_path / "more.parquet")
        for weights, words in (({**WEIGHTS, "cart": 2}, "other weights"), ({"click": 1}, "count other events")):
            with pytest.raises(DataError, match=words):
                days.add(tmp_path / "more.parquet", event_weights=weights)


class TestSimulation:
    def simulation(self, events: Any, **options: Any) -> Simulation:
        return Simulation(DATA, [4, 3, 2, 1], PositionBased(0.5, 0.3), depth=2, events=events, **options)

    def test_events_follow_clicks_the_more_the_better_the_result(self) -> None:
        table = self.simulation(EVENTS).draw(1e6, seed=1)
        assert np.array_equal(table.clicks, self.simulation({}).draw(1e6, seed=1).clicks)
        share = (np.asarray(DATA.labels) + 1) / 5
        for name, chance in EVENTS.items():
            assert np.allclose(table.events[name] / table.clicks, (chance * share)[table.row], atol=0.005)
        assert (table.events["purchase"] <= table.events["cart"]).all()

    def test_an_event_is_not_called_like_a_column_of_the_log(self) -> None:
        with pytest.raises(UsageError, match="names 'clicked', which is the role of another column"):
            self.simulation({"clicked": 0.2})

    def test_a_log_has_what_its_cells_have(self, tmp_path: Path) -> None:
        simulation = self.simulation(EVENTS, policy=ShuffledShare(0.5))
        table = simulation.save_log(tmp_path / "log.parquet", 5000, seed=2)
        again = aggregate(tmp_path / "log.parquet", DATA, event_weights=WEIGHTS).clicks
        assert counted(again) == counted(table)
        assert again.events["purchase"].sum() > 0

    def test_a_click_does_not_follow_a_click(self) -> None:
        with pytest.raises(UsageError, match="leave 'click' out"):
            self.simulation({"click": 0.5})
