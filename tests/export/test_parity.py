"""Parity counts what it should, and a replay shares nothing with the writer, or it would prove nothing."""

from __future__ import annotations

import ast
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.export import Parity, replay

SCORES = st.sampled_from([-1.5, -1.0, 0.0, -0.0, 1e-9, 1.0, 1.5, 2.0])
REPLAYS = sorted(Path(replay.__path__[0]).glob("*.py"))
LISTS = st.lists(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=7), min_size=1, max_size=4)


@given(LISTS, st.sampled_from([0.0, 0.25, -3.0]))
def test_it_counts_what_a_loop_over_all_pairs_counts(queries: list[list[tuple[float, float]]], shift: float) -> None:
    swapped = tied = 0
    for query in queries:
        for (one, other), (second, another) in combinations(query, 2):
            swapped += (one > second and other < another) or (one < second and other > another)
            tied += (one == second) != (other == another)
    rows = np.array([pair for query in queries for pair in query])
    found = Parity.of(rows[:, 0], rows[:, 1], np.cumsum([0, *map(len, queries)]), shift)
    assert (found.rows, found.queries) == (len(rows), len(queries))
    assert (found.swapped, found.tied) == (swapped, tied)
    assert found.same_order == (swapped == tied == 0)
    assert found.largest == max(abs(one - (other + shift)) for one, other in rows)
    assert found.scale == max(abs(one) for one, _ in rows)


def test_pairs_of_different_queries_do_not_count() -> None:
    one, other, offsets = [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 1.0, 2.0], np.array([0, 2, 4])
    assert Parity.of(one, other, offsets).same_order
    assert Parity.of(one, other, np.array([0, 4])).swapped == 4


def test_a_score_that_is_not_a_number_is_not_taken_for_parity() -> None:
    found = Parity.of([1.0, 2.0], [1.0, np.nan], np.array([0, 2]))
    assert not found.largest <= 1e9
    assert not found.same_order


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ([3.0, 2.0, 1.0], "3 rows of 1 query: largest difference 0 (scores up to 3), no two candidates change order"),
        (
            [3.0, 1.5, 1.5],
            "largest difference 0.5 (scores up to 3), 0 pairs in opposite order, 1 pair tied by only one",
        ),
    ],
)
def test_it_says_so_in_a_sentence(engine: list[float], words: str) -> None:
    found = Parity.of([3.0, 2.0, 1.0], engine, np.array([0, 3]))
    assert str(found).endswith(words)
    assert found.as_dict() | {"same_order": found.same_order} == found.as_dict()


def test_no_rows_at_all() -> None:
    assert Parity.of([], [], np.array([0])) == Parity(
        rows=0, queries=0, largest=0, scale=0, spread=0, swapped=0, tied=0
    )


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            found.add(str(node.module))
    return found


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.stem)
def test_a_replay_imports_no_other_part_of_cldrank_than_its_errors(path: Path) -> None:
    own = {name for name in imported(path) if name.split(".")[0] == "cldrank"}
    assert all(name.startswith("cldrank.export.replay") or name == "cldrank.errors" for name in own)
