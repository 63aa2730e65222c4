"""What the audit computes from cells, against brute force and independent estimates."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click_tables import Cells, some_cells, table_of
from hypothesis import given
from numpy.typing import NDArray

from cldrank.clicks.audit import audit_table
from cldrank.clicks.audit.overlap import display_order, overlap, precision
from cldrank.clicks.audit.positions import curve
from cldrank.clicks.audit.ways import USABLE
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import UnidentifiableError
from cldrank.propensity import AdjacentChain, AllPairs, Pivot, Randomised, applicable


def counts(n: NDArray[np.int64], clicks: NDArray[np.int64]) -> ClickTable:
    """Candidates of one query in rows, positions in columns."""
    data = RankingDataset.from_arrays(np.zeros((len(n), 1)), np.zeros(len(n), dtype=int))
    row, place = np.nonzero(n)
    return ClickTable.from_arrays(
        data, row=row, position=place + 1, impressions=n[row, place], clicks=clicks[row, place]
    )


class TestOverlap:
    @given(some_cells)
    def test_equals_brute_force(self, cells: Cells) -> None:
        found = overlap(table_of(cells, 12))
        shown: dict[int, set[int]] = {}
        for row, position in cells:
            shown.setdefault(row, set()).add(position)
        assert found.candidates == len(shown)
        assert found.moving == sum(len(places) > 1 for places in shown.values())
        assert found.impressions == sum(cells[key][0] for key in cells if len(shown[key[0]]) > 1)
        common = {
            pair: sum(set(pair) <= places for places in shown.values()) for pair in combinations(found.positions, 2)
        }
        assert found.pairs == sum(count > 0 for count in common.values())
        for (one, two), count in common.items():
            assert found.common[found.positions.index(one)][found.positions.index(two)] == count
        sets = [{position} for position in found.positions]
        for places in shown.values():
            touched = [group for group in sets if group & places]
            sets = [group for group in sets if not group & places] + [set().union(*touched)]
        assert sorted(map(sorted, found.components)) == sorted(map(sorted, sets))

    @given(some_cells)
    def test_every_number_is_finite(self, cells: Cells) -> None:
        cut = table_of(cells, 12)
        for entry in precision(cut, curve(cut)):
            for error in (entry.step, entry.randomised, entry.pivot, entry.adjacent_chain, entry.all_pairs):
                assert error is None or 0 <= error < 100
        order = display_order(cut)
        assert order.strength is None or np.isfinite(order.strength)

    def test_more_positions_than_are_compared(self) -> None:
        n = np.zeros((2, 300), dtype=np.int64)
        n[0] = 5
        found = overlap(counts(n, n // 2))
        assert len(found.positions) == len(found.common) == 200
        assert found.components == (tuple(range(1, 301)),)


def permuted(pages: int, candidates: int, depth: int, seed: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    n = np.zeros((candidates, depth), dtype=np.int64)
    for _ in range(pages):
        n[rng.permutation(candidates)[:depth], np.arange(depth)] += 1
    return n


class TestDisplayOrder:
    @pytest.mark.parametrize(("candidates", "depth"), [(2, 2), (5, 5), (30, 5)])
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

    def test_candidates_seen_once_tell_nothing(self) -> None:
        n = np.eye(40, dtype=np.int64)
        assert display_order(counts(n, n)).looks == "unknown"


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
    "20 queries, uneven": {"queries": 20, "sessions": 20_000, "uneven": 1.2, "seed": 1},
    "20 queries, random order": {"queries": 20, "sessions": 3_000, "shuffled": True},
    "20 queries, bursts": {"queries": 20, "sessions": 20_000, "bursts": 1.0, "shuffled": True},
    "400 queries, bursts": {"queries": 400, "sessions": 40_000, "bursts": 1.0},
    "60 queries": {"queries": 60, "sessions": 20_000},
    "400 queries": {"queries": 400, "sessions": 40_000},
    "400 queries, uneven": {"queries": 400, "sessions": 40_000, "uneven": 1.2},
    "400 queries, random order": {"queries": 400, "sessions": 20_000, "shuffled": True},
}
ESTIMATORS = {
    "Randomised": Randomised(),
    "AllPairs": AllPairs(),
    "AdjacentChain": AdjacentChain(),
    "Pivot": Pivot(),
}


def check_promises(cells: ClickTable) -> int:
    """Hold the audit to what the estimators find of the same log: ± as much, to within 30%, or both more than 25%.

    Gives how many promises were made.
    """
    made = 0
    audited = {method.name: method for method in audit_table(cells).facts.ways}
    for name, estimator in ESTIMATORS.items():
        method = audited[name]
        try:
            found = estimator.fit(cells)
        except UnidentifiableError:
            assert not method.possible
            assert method.within is None
            continue
        assert method.possible
        assert found.low is not None
        assert found.high is not None
        half = float(np.expm1(np.log(found.high / found.low).max() / 2))
        assert method.within is not None
        both_coarse = min(method.within, half) > USABLE
        assert both_coarse or method.within == pytest.approx(half, rel=0.3), f"{name}: {method.within}, found {half}"
        made += 1
    return made


class TestPrecision:
    @pytest.mark.parametrize("log", LOGS)
    def test_the_promise_is_what_the_estimators_keep(self, log: str) -> None:
        assert check_promises(simulated(**LOGS[log])) > 0  # type: ignore[arg-type]

    @pytest.mark.data
    @pytest.mark.parametrize("sessions", [300, 9_800])
    def test_the_promise_is_kept_on_real_clicks(self, real_data: Path, tmp_path: Path, sessions: int) -> None:
        log = pq.read_table(real_data / "ranklens" / "impressions.parquet", filters=[("ranking", "<", sessions)])
        pq.write_table(log, tmp_path / "log.parquet")
        names = {"session_id": "ranking", "doc_id": "item", "clicked": "click"}
        check_promises(ClickTable.read(tmp_path / "log.parquet", columns=names, one_query=True))

    def test_a_wide_interval_is_not_ok(self) -> None:
        severities = {}
        for sessions in (600, 3_000, 30_000):
            result = audit_table(simulated(60, sessions, shuffled=True))
            method = result.facts.ways[0]
            assert method.within is not None
            finding = next(entry for entry in result.verdict.findings if entry.topic == "precision")
            severities[str(finding.severity)] = method.within
            assert f"to within {method.within:.1%}, at 90% confidence" in finding.found
        assert list(severities) == ["warning", "note", "ok"]
        assert severities["warning"] > 0.25 > severities["note"] > 0.1 > severities["ok"]

    def test_no_promise_for_positions_below_one_that_was_never_shown(self) -> None:
        n = np.full((60, 4), 50)
        n[:, 2] = 0
        methods = audit_table(counts(n, n // 5)).facts.ways
        assert [method.reason for method in methods if "position 3 was never shown" in method.reason] != []
        assert {method.name for method in methods if method.possible}.isdisjoint(ESTIMATORS)

    def test_no_promise_of_all_pairs_where_impressions_have_several_clicks(self) -> None:
        n = np.full((60, 3), 50)
        cut = counts(n, n // 5)
        several = ClickTable(
            cut.candidates, cut.row, cut.position, cut.impressions, cut.impressions + 1, every_click=True
        )
        found = {method.name: method for method in audit_table(several).facts.ways}
        assert not found["AllPairs"].possible
        assert "several clicks" in found["AllPairs"].reason
        assert found["Pivot"].possible
        assert not found["Envelope"].possible
        assert "also of one person" in found["Envelope"].reason

    @pytest.mark.parametrize(("clicked", "possible"), [(19, False), (20, True)])
    def test_a_bound_needs_results_that_were_clicked(self, clicked: int, possible: bool) -> None:
        n = np.full((60, 3), 50)
        clicks = np.ones_like(n)
        clicks[clicked:, 1] = 0
        cells = counts(n, clicks)
        (found,) = [method for method in audit_table(cells).facts.ways if method.name == "Envelope"]
        assert found.possible == possible == (applicable(cells)["Envelope"] is None)
        assert found.error is None
        assert possible or found.reason == "fewer than 20 candidates were clicked at position 2"

    def test_the_step_is_what_repetition_shows(self) -> None:
        """The spread of the Mantel–Haenszel log ratio over repeated experiments."""
        rng = np.random.default_rng(5)
        n = rng.integers(50, 300, (40, 2))
        rate = 0.05 + 0.1 * rng.random((40, 1))
        weight = 1 / n.sum(axis=1)
        ratios, errors = [], []
        for _ in range(300):
            clicks = rng.binomial(n, rate * np.array([1.0, 0.6]))
            ratios.append(np.log((clicks[:, 1] * n[:, 0] * weight).sum() / (clicks[:, 0] * n[:, 1] * weight).sum()))
            cut = counts(n, clicks)
            (entry,) = precision(cut, curve(cut))
            assert entry.step == pytest.approx(entry.pivot) == pytest.approx(entry.all_pairs)
            errors.append(entry.step)
        # clicks are binomial, not Poisson, so the stated error is a few percent too large
        assert np.mean(errors) == pytest.approx(np.std(ratios), rel=0.15)  # type: ignore[arg-type]

    def test_no_clicks_no_precision(self) -> None:
        n = np.full((4, 3), 10)
        cut = counts(n, 0 * n)
        for entry in precision(cut, curve(cut)):
            assert (entry.step, entry.randomised, entry.all_pairs) == (None, None, None)
