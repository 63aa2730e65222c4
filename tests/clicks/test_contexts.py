from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click_tables import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_worlds import TINY, TINY_SCORES, by_session, dense, every_world, small_world

from cldrank import ClickTable
from cldrank.clicks.contexts import Contexts
from cldrank.clicks.days import DayFolder
from cldrank.clicks.simulate import DependentClicks, ShuffledShare, Simulation
from cldrank.errors import DataError, FormatError

Key = tuple[int, str, int, int]  # row, segment, position, last click


@st.composite
def entries(draw: st.DrawFn) -> dict[Key, tuple[int, int]]:
    keys = st.tuples(st.integers(0, 5), st.sampled_from(["a", "b"]), st.integers(1, 4), st.integers(0, 3))
    counts = st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
    return {key: value for key, value in draw(st.dictionaries(keys, counts, max_size=12)).items() if key[3] < key[2]}


def table_of(counts: dict[Key, tuple[int, int]]) -> ClickTable:
    columns = zip(*((*key, *value) for key, value in counts.items()), strict=True) if counts else [()] * 6
    row, segment, position, last_click, impressions, clicks = map(list, columns)
    codes = [["b", "a"].index(name) for name in segment]  # a table sorts the names of its segments
    contexts = Contexts(*map(np.array, (row, codes, position, last_click, impressions, clicks)))
    return ClickTable(DATA_CANDIDATES, **contexts.cells(), segment_names=("b", "a"), contexts=contexts)


DATA_CANDIDATES = ClickTable.from_arrays(DATA, position=[0] * 6, impressions=[0] * 6, clicks=[0] * 6).candidates


def counts_of(table: ClickTable) -> Counter[tuple[Any, ...]]:
    """Impressions and clicks by document, segment, position and last click."""
    own = table.contexts
    assert own is not None
    segment = np.array(table.segment_names)[own.segment]
    query = table.candidates.query_ids[table.candidates.row_queries[own.row]]
    keys = (query, table.candidates.doc_ids[own.row], segment, own.position, own.last_click)
    counts: Counter[tuple[Any, ...]] = Counter()
    for *key, n, c in zip(*(values.tolist() for values in (*keys, own.impressions, own.clicks)), strict=True):
        counts[*key, "impressions"], counts[*key, "clicks"] = n, c
    return counts


def only(counts: Counter[tuple[Any, ...]], kept: Any) -> Counter[tuple[Any, ...]]:
    return Counter({key: n for key, n in counts.items() if kept(key)})


class TestTables:
    @settings(max_examples=30)
    @given(entries(), entries())
    def test_merging_adds(self, first: Any, second: Any) -> None:
        one, two = table_of(first), table_of(second)
        assert counts_of(one.merge(two)) == counts_of(one) + counts_of(two)

    @settings(max_examples=30)
    @given(entries(), st.sets(st.integers(0, 2), min_size=1), st.integers(1, 4))
    def test_parts(self, counts: Any, queries: set[int], depth: int) -> None:
        table = table_of(counts)
        all_counts = counts_of(table)
        chosen = sorted(queries, reverse=True)
        assert counts_of(table[chosen]) == only(all_counts, lambda key: key[0] - 1 in queries)
        assert counts_of(table.first(depth)) == only(all_counts, lambda key: key[3] <= depth)
        assert counts_of(table.where(table.clicks > 1)) == only(
            all_counts, lambda key: all_counts_of_cell(all_counts, key) > 1
        )
        by_segment = [counts_of(part) for part in table.by_segment().values()]
        assert sum(by_segment, Counter()) == +all_counts

    def test_a_table_without_contexts_has_none_to_add(self) -> None:
        with_them = table_of({(0, "a", 2, 1): (3, 1)}).where(np.array([True])).as_segment("a")
        without = ClickTable.from_arrays(DATA, row=[1], position=[1], impressions=[1], clicks=[0], segment=["a"])
        nothing = without.where(np.array([False]))
        assert with_them.merge(without).contexts is None
        assert counts_of(with_them.merge(nothing)) == counts_of(with_them)

    def test_they_must_add_up_to_the_cells(self) -> None:
        table = table_of({(0, "a", 2, 1): (3, 1)})
        with pytest.raises(DataError, match="differ in impressions"):
            ClickTable(
                table.candidates,
                table.row,
                table.position,
                table.impressions + 1,
                table.clicks,
                contexts=table.contexts,
            )

    @pytest.mark.parametrize("change", [{"last_click": [2]}, {"clicks": [4]}, {"last_click": [-1]}, {"row": [0, 1]}])
    def test_refusals(self, change: dict[str, Any]) -> None:
        good = {"row": [0], "segment": [0], "position": [2], "last_click": [1], "impressions": [3], "clicks": [1]}
        with pytest.raises(DataError, match=next(iter(change)).replace("_", ".")):
            Contexts(**{**good, **change})


def all_counts_of_cell(counts: Counter[tuple[Any, ...]], key: tuple[Any, ...]) -> int:
    return sum(n for other, n in counts.items() if other[:4] == key[:4] and other[-1] == "clicks")


class TestFiles:
    @settings(max_examples=20)
    @given(entries())
    def test_round_trip(self, tmp_path_factory: pytest.TempPathFactory, counts: Any) -> None:
        path = tmp_path_factory.mktemp("cells") / "cells.parquet"
        table = table_of(counts)
        table.save(path)
        assert counts_of(ClickTable.read(path, DATA)) == counts_of(table)

    @pytest.mark.parametrize(("values", "message"), [([2], "after a click at 2"), ([None], "null"), ([-1], "is -1")])
    def test_damaged(self, tmp_path: Path, values: list[int | None], message: str) -> None:
        path = tmp_path / "cells.parquet"
        cell = {"query_id": [1], "doc_id": ["a"], "position": [2], "impressions": [5], "clicks": [1]}
        pq.write_table(pa.table({**cell, "last_click": pa.array(values, pa.int64())}), path)
        with pytest.raises(FormatError, match=message) as error:
            ClickTable.read(path)
        assert str(path) in str(error.value)

    def test_days_keep_them_and_older_files_have_none(self, tmp_path: Path) -> None:
        folder = tmp_path / "days"
        folder.mkdir()
        for day in (1, 2):
            table_of({(0, "a", 2, 1): (3, day)}).save(folder / f"2026-11-0{day}.parquet")
        assert counts_of(DayFolder(folder).read())[1, "a", "a", 2, 1, "clicks"] == 3
        cells = pq.read_table(folder / "2026-11-01.parquet").drop_columns("last_click")
        pq.write_table(cells, folder / "2026-11-01.parquet")
        assert DayFolder(folder).read().contexts is None
        assert DayFolder(folder).read(last="1d").contexts is not None


class TestSimulated:
    @every_world
    def test_a_log_and_its_contexts(self, world: dict[str, Any], tmp_path: Path) -> None:
        simulation = Simulation(TINY, TINY_SCORES, depth=3, **world)
        written = simulation.save_log(tmp_path / "log.parquet", 2_000, seed=3)
        assert counts_of(ClickTable.read(tmp_path / "log.parquet", TINY)) == counts_of(written)
        assert counts_of(by_session(simulation, 2_000, 3)) == counts_of(written)
        assert counts_of(simulation.draw(2_000, seed=3, contexts=True)) == counts_of(written)

    @pytest.mark.parametrize("policy", [None, ShuffledShare(0.5)])
    def test_cells_have_the_same_distribution(self, policy: Any) -> None:
        simulation = small_world(model=DependentClicks(0.3, 0.6), **({} if policy is None else {"policy": policy}))
        drawn = [simulation.draw(100_000, seed=seed, contexts=seed == 1) for seed in (0, 1)]
        assert drawn[0].contexts is None
        counts = np.stack([dense(table, 5) for table in drawn])
        difference = (counts[0] - counts[1]) ** 2 / np.maximum(counts.sum(axis=0), 1)
        assert difference.sum() < 1.3 * (counts.sum(axis=0) > 0).sum()
