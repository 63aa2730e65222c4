"""What the audit computes from cells, against brute force and independent estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click_tables import Cells, some_cells, table_of
from hypothesis import given, settings
from numpy.typing import NDArray

from cldrank.auditing import audit_table
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.propensity import AdjacentChain, AllPairs, Pivot, Randomised
from cldrank.propensity.choosing import all_requirements, choose_method
from cldrank.propensity.identifiability import display_order, overlap


def counts(n: NDArray[np.int64], clicks: NDArray[np.int64]) -> ClickTable:
    """Candidates of one query in rows, positions in columns."""
    data = RankingDataset.from_arrays(np.zeros((len(n), 1)), np.zeros(len(n), dtype=int))
    row, place = np.nonzero(n)
    return ClickTable.from_arrays(
        data, row=row, position=place + 1, impressions=n[row, place], clicks=clicks[row, place]
    )


class TestOverlap:
    @settings(max_examples=30)
    @given(some_cells)
    def test_equals_brute_force(self, cells: Cells) -> None:
        found = overlap(table_of(cells, 12))
        shown: dict[int, set[int]] = {}
        for row, position in cells:
            shown.setdefault(row, set()).add(position)
        assert found.candidates == len(shown)
        assert found.moving == sum(len(places) > 1 for places in shown.values())
        assert found.impressions == sum(cells[key][0] for key in cells if len(shown[key[0]]) > 1)

    @settings(max_examples=15)
    @given(some_cells)
    def test_every_number_is_finite(self, cells: Cells) -> None:
        cut = table_of(cells, 12)
        for need in all_requirements(cut):
            assert all(error is None or 0 <= error < 100 for error in need.errors)
        order = display_order(cut)
        assert order.strength is None or np.isfinite(order.strength)


def permuted(pages: int, candidates: int, depth: int, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    n = np.zeros((candidates, depth), dtype=np.int64)
    for _ in range(pages):
        n[rng.permutation(candidates)[:depth], np.arange(depth)] += 1
    return n


class TestDisplayOrder:
    @pytest.mark.parametrize(("candidates", "depth"), [(2, 2), (30, 5)])
    def test_a_random_order_is_near_nought(self, candidates: int, depth: int) -> None:
        found = [display_order(counts(n, 0 * n)) for n in (permuted(400, candidates, depth, s) for s in range(20))]
        scores = np.array([order.strength / order.error for order in found])  # type: ignore[operator]
        assert abs(scores.mean()) < 1.0
        assert min(order.p_value for order in found) > 1e-4  # type: ignore[type-var, operator]
        assert all(order.looks == "random" for order in found)

    def test_a_fixed_one_is_one(self) -> None:
        found = display_order(counts(np.diag([10, 20, 30]), np.zeros((3, 3), dtype=int)))
        assert found.strength == pytest.approx(1.0)
        assert found.looks == "fixed"

    def test_a_ranker_and_its_reverse_are_no_random_order(self) -> None:
        n = np.eye(6, dtype=np.int64) * 50
        found = display_order(counts(n + n[::-1], 0 * n))
        assert found.strength == pytest.approx(0.4, abs=0.05)
        assert found.looks == "mixed"


def simulated(
    queries: int, sessions: int, *, uneven: float = 0.0, bursts: float = 0.0, shuffled: bool = False, seed: int = 0
) -> ClickTable:
    """Pages of two rankers, or in random order; the r-th query is searched in proportion to r^-uneven.

    bursts   by how much the clicks of a cell vary beyond chance, as when some people click much more than others
    """
    rng = np.random.default_rng(seed)
    rows, depth = queries * 12, 5
    relevance = rng.beta(0.6, 2, (queries, 12))
    share = np.arange(1, queries + 1) ** -uneven
    searched = np.repeat(np.arange(queries), rng.multinomial(sessions, share / share.sum()))
    rankers = 2 * relevance + rng.normal(size=relevance.shape)
    rankers = np.stack([rankers, rankers + rng.normal(0, 0.7, relevance.shape)])
    scores = rng.random((sessions, 12)) if shuffled else rankers[rng.integers(0, 2, sessions), searched]
    row = 12 * searched[:, None] + np.argsort(-scores, axis=1)[:, :depth]
    n = np.zeros((rows, depth), dtype=np.int64)
    np.add.at(n, (row, np.arange(depth)), 1)
    rate = relevance.reshape(-1, 1) / np.arange(1, depth + 1) * rng.lognormal(0, bursts, n.shape)
    clicks = rng.binomial(n, np.minimum(rate, 1))
    data = RankingDataset.from_arrays(np.zeros((rows, 1)), np.arange(rows) // 12)
    at = np.nonzero(n)
    return ClickTable.from_arrays(data, row=at[0], position=at[1] + 1, impressions=n[at], clicks=clicks[at])


LOGS = {
    "20 queries": {"queries": 20, "sessions": 20_000},
    "20 queries, few sessions": {"queries": 20, "sessions": 2_000, "seed": 2},
    "20 queries, bursts": {"queries": 20, "sessions": 20_000, "bursts": 1.0, "shuffled": True},
    "400 queries, uneven": {"queries": 400, "sessions": 40_000, "uneven": 1.2},
    "400 queries, random order": {"queries": 400, "sessions": 20_000, "shuffled": True},
}
ESTIMATORS = (Randomised(), AllPairs(), AdjacentChain(), Pivot())


def check_promises(cells: ClickTable) -> int:
    """What requirements promise is what the estimators do; gives how many promises were made."""
    made, reasons = 0, []
    for estimator in ESTIMATORS:
        need = estimator.requirements(cells)
        try:
            fitted: Any = estimator.fit(cells)
        except UnidentifiableError as refusal:
            assert not need.met
            assert need.within is None
            reasons.append((need.reason, refusal.reason))
            continue
        assert need.met
        assert need.errors == pytest.approx(fitted.errors.tolist(), rel=0.01)
        made += 1
    assert all(said == meant for said, meant in reasons)
    return made


class TestRequirements:
    @pytest.mark.parametrize("log", LOGS)
    def test_the_promise_is_what_the_estimators_keep(self, log: str) -> None:
        assert check_promises(simulated(**LOGS[log])) > 0  # type: ignore[arg-type]

    def test_what_the_audit_promises_is_what_estimate_chooses(self) -> None:
        """Positions below the fourth hardly have a click, and are refused: by the audit as by the estimator."""
        random, n = np.random.default_rng(0), np.full((60, 7), 400)
        cells = counts(n, random.binomial(n, 0.3 / np.array([1, 1, 2, 2, 4000, 4000, 4000])))
        facts = audit_table(cells).facts
        assert facts.chosen is None
        with pytest.raises(UnidentifiableError) as refusal:
            choose_method(cells, None)
        pairs = next(need for need in facts.requirements if need.estimator == "all-pairs")
        assert refusal.value.depth == pairs.depth == 4
        assert pairs.errors[4:] == (None, None, None)
        assert len(AllPairs(depth=4).fit(cells)) == 4
        assert choose_method(cells, 4).estimator == "randomised"
