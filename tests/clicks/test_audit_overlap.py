"""What the audit computes from cells, against brute force and independent estimates."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from cldrank.clicks.audit.overlap import display_order, overlap, precision
from cldrank.clicks.audit.positions import curve, describe_queries, wilson
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset

Cells = dict[tuple[int, int], tuple[int, int]]


def table(cells: Cells, rows: int) -> ClickTable:
    data = RankingDataset.from_arrays(np.zeros((rows, 1)), np.arange(rows) // 4)
    keys = list(cells)
    return ClickTable.from_arrays(
        data,
        row=[row for row, _ in keys],
        position=[position for _, position in keys],
        impressions=[cells[key][0] for key in keys],
        clicks=[cells[key][1] for key in keys],
    )


def counts(n: NDArray[np.int64], clicks: NDArray[np.int64]) -> ClickTable:
    """Candidates of one query in rows, positions in columns."""
    data = RankingDataset.from_arrays(np.zeros((len(n), 1)), np.zeros(len(n), dtype=int))
    row, place = np.nonzero(n)
    return ClickTable.from_arrays(
        data, row=row, position=place + 1, impressions=n[row, place], clicks=clicks[row, place]
    )


some_cells = st.dictionaries(
    st.tuples(st.integers(0, 11), st.integers(1, 6)),
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    max_size=30,
)


class TestOverlap:
    @given(some_cells)
    def test_equals_brute_force(self, cells: Cells) -> None:
        found = overlap(table(cells, 12))
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
        cut = table(cells, 12)
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


class TestPrecision:
    def test_all_pairs_is_the_information_of_the_model(self) -> None:
        """The curvature of the conditional likelihood at its maximum, found by a general optimiser."""
        rng = np.random.default_rng(3)
        n = rng.integers(0, 300, (25, 4)) * (rng.random((25, 4)) < 0.6)
        relevance, rho = rng.random(25), np.array([1.0, 0.6, 0.4, 0.3])
        clicks = rng.binomial(n, 0.2 * relevance[:, None] * rho)
        several = (n > 0).sum(axis=1) > 1

        def loss(log_rho: NDArray[np.float64]) -> float:
            rate = n[several] * np.exp(np.concatenate([[0.0], log_rho]))
            share = rate / rate.sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                return -float(np.nansum(np.where(clicks[several] > 0, clicks[several] * np.log(share), 0.0)))

        best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10}).x
        step = 1e-3 * np.eye(3)
        curvature = np.array(
            [
                [
                    (loss(best + a + b) - loss(best + a - b) - loss(best - a + b) + loss(best - a - b)) / 4e-6
                    for b in step
                ]
                for a in step
            ]
        )
        expected = np.sqrt(np.diag(np.linalg.inv(curvature)))
        cut = counts(n, clicks)
        found = [entry.all_pairs for entry in precision(cut, curve(cut))]
        assert found == pytest.approx(expected.tolist(), rel=0.02)

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


class TestPositions:
    def test_wilson(self) -> None:
        low, high = wilson(np.array([5.0, 0.0, 20.0]), np.array([10.0, 20.0, 20.0]))
        # Newcombe (1998), and by hand: z² / (n + z²) for none of n
        assert low == pytest.approx([0.2366, 0.0, 0.8389], abs=1e-4)
        assert high == pytest.approx([0.7634, 0.1611, 1.0], abs=1e-4)

    @given(some_cells)
    def test_the_curve_has_every_impression_and_click(self, cells: Cells) -> None:
        found = curve(table(cells, 12))
        assert sum(entry.impressions for entry in found) == sum(n for n, _ in cells.values())
        assert sum(entry.clicks for entry in found) == sum(c for _, c in cells.values())
        assert all(entry.low <= entry.rate <= entry.high for entry in found)

    def test_queries(self) -> None:
        cells = {(0, 1): (8, 1), (1, 2): (8, 0), (4, 1): (3, 0), (5, 1): (2, 0)}
        found = describe_queries(table(cells, 12), knows_candidates=True)
        assert (found.queries, found.searched, found.unclicked) == (3, 2, 1)
        assert (found.candidates, found.never_shown) == (8, 4)
        assert (found.sessions["least"], found.sessions["most"]) == (5, 8)
        assert [(entry.low, entry.high, entry.count) for entry in found.histogram] == [(4, 7, 1), (8, 15, 1)]
