from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import cldrank as cr
from cldrank import RankingDataset, segments
from cldrank.errors import DataError
from cldrank.methods.svm_rank import SVMRank, label_pairs, separated


def example(queries: int = 60, size: int = 10, seed: int = 0) -> RankingDataset:
    random = np.random.default_rng(seed)
    features = random.normal(size=(queries * size, 4))
    labels = np.clip(np.rint(features @ [1.0, -0.5, 0, 0] + random.normal(0, 0.3, len(features)) + 1), 0, 4)
    return RankingDataset.from_arrays(features, np.repeat(np.arange(queries), size), labels)


class TestPairs:
    @given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=5))
    def test_all_pairs_of_one_query_with_different_labels(self, queries: list[list[int]]) -> None:
        labels = np.array([label for query in queries for label in query], dtype=float)
        offsets = segments.from_lengths(np.array([len(query) for query in queries]))
        better, worse = label_pairs(labels, offsets, 10_000, np.random.default_rng(0))
        expected = {
            (i, j)
            for start, stop in itertools.pairwise(offsets.tolist())
            for i, j in itertools.permutations(range(start, stop), 2)
            if labels[i] > labels[j]
        }
        found = list(zip(better.tolist(), worse.tolist(), strict=True))
        assert len(found) == len(set(found))
        assert set(found) == expected

    def test_a_cap_draws_evenly(self) -> None:
        labels, offsets = np.array([2, 1, 0, 1, 0.0]), np.array([0, 3, 5])
        seen: dict[tuple[int, int], int] = {}
        for seed in range(500):
            better, worse = label_pairs(labels, offsets, 2, np.random.default_rng(seed))
            assert len(better) == 2
            for pair in zip(better.tolist(), worse.tolist(), strict=True):
                seen[pair] = seen.get(pair, 0) + 1
        assert set(seen) == {(0, 1), (0, 2), (1, 2), (3, 4)}
        assert all(abs(times - 250) < 4.5 * np.sqrt(125) for times in seen.values())


class TestSolution:
    def test_it_is_the_optimum(self) -> None:
        """Against a general-purpose optimiser of the same objective."""
        differences = np.random.default_rng(0).normal(0.4, 1, (80, 3))

        def objective(beta: Any) -> float:
            return float(0.5 * beta @ beta + 0.3 * (np.maximum(0, 1 - differences @ beta) ** 2).sum())

        expected = minimize(objective, np.zeros(3), tol=1e-12).x
        np.testing.assert_allclose(separated(differences, 0.3), expected, atol=1e-5)

    def test_it_ranks(self) -> None:
        data = example()
        model = SVMRank(fraction=1).fit(data)
        assert cr.evaluate(model, data, "nDCG@5")["nDCG@5"] > 0.95
        assert model.intercept_ == 0
        assert model.n_rows_ == 600
        weak = SVMRank(fraction=0.02).fit(data)
        assert cr.evaluate(weak, data, "nDCG@5")["nDCG@5"] > 0.5


class TestSample:
    def test_whole_queries_until_the_fraction(self) -> None:
        model = SVMRank(fraction=0.11).fit(example())  # 66 of 600 rows: seven queries of ten
        assert model.n_rows_ == 70

    def test_max_pairs(self) -> None:
        assert SVMRank(fraction=1, max_pairs=50).fit(example()).n_pairs_ == 50
        assert SVMRank(fraction=1, max_pairs=1).fit(example()).n_pairs_ == 1

    def test_no_pair_is_told(self) -> None:
        with pytest.raises(DataError, match="`fraction=0.01`"):
            SVMRank().fit(example(queries=600, size=1))
