"""Rankers made of others: votes and weighted sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_rankers import FEATURES, NAMES, ORIGIN, SCALING, borda, dataset, in_blocks, linear, network, trees, voter

from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.rankers import BlendRanker, LinearRanker, TreeRanker, blended, load_ranker

WEIGHTS = (0.7, 0.4)


def added(members: tuple[Any, ...], weights: tuple[float, ...] = WEIGHTS) -> Any:
    """The scores that a blend is to have."""
    return sum(weight * one.predict(FEATURES) for one, weight in zip(members, weights, strict=True))


class TestOneRankerOfTheSameKind:
    def test_linear(self) -> None:
        members = (linear(), linear(coefficients=np.array([1.0, 2.0, -3.0, 1e-3]), intercept=-2.0))
        found = blended(members, WEIGHTS)
        assert isinstance(found, LinearRanker)
        np.testing.assert_allclose(found.predict(FEATURES), added(members), rtol=1e-9, atol=1e-9)

    def test_trees(self) -> None:
        members = (trees(3), trees(4, seed=1))
        found = blended(members, WEIGHTS)
        assert isinstance(found, TreeRanker)
        assert len(found.trees) == 7
        features = np.where(np.random.default_rng(5).random(FEATURES.shape) < 0.2, np.nan, FEATURES)
        for table in (FEATURES, features):
            expected = sum(w * one.predict(table) for one, w in zip(members, WEIGHTS, strict=True))
            np.testing.assert_allclose(found.predict(table), expected, rtol=1e-6, atol=1e-6)  # leaves are float32

    def test_a_weight_of_0_leaves_the_other_as_it_is(self) -> None:
        one, other = linear(), trees()
        assert blended((one, other), (0.0, 0.3)) is other
        assert blended((one, other), (1.0, 0.0)) is one


class TestOthers:
    @pytest.mark.parametrize(
        "members",
        [
            lambda: (linear(), trees()),
            lambda: (linear(), network()),
            lambda: (linear("log"), linear("log:clip=3")),  # another scaling
            lambda: (network("elu"), network("relu")),
        ],
    )
    def test_are_added_up(self, members: Any, tmp_path: Path) -> None:
        both = members()
        found = blended(both, WEIGHTS)
        assert isinstance(found, BlendRanker)
        expected = added(both)
        np.testing.assert_allclose(found.predict(FEATURES), expected, rtol=1e-12)
        np.testing.assert_array_equal(in_blocks(found, FEATURES, 7), found.predict(FEATURES))
        found.save(tmp_path / "ranker")
        again = load_ranker(tmp_path / "ranker")
        assert isinstance(again, BlendRanker)
        assert again.weights == found.weights
        np.testing.assert_array_equal(again.predict(dataset()), found.predict(dataset()))

    def test_what_it_remembers_is_of_the_last(self) -> None:
        own = linear().with_queries(np.array([3, 5], dtype=np.uint64))
        for other in (linear(provenance=ORIGIN), trees()):
            found = blended((other, own), WEIGHTS)
            assert found.provenance == own.provenance
            np.testing.assert_array_equal(found.trained_on, own.trained_on)


def test_what_cannot_be_blended() -> None:
    with pytest.raises(UsageError, match="cannot be a part of a blend"):
        blended((linear(), borda()), WEIGHTS)


@pytest.mark.parametrize("weights", [(0.0, 0.0), (-1.0, 1.0), (np.nan, 1.0)])
def test_weights_that_are_none(weights: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="weights must be from 0 to"):
        blended((linear(), linear()), weights)


def test_members_must_know_the_same_features() -> None:
    with pytest.raises(DataError, match="the same features"):
        blended((linear(), linear(feature_names=("x", *NAMES[1:]))), WEIGHTS)


def test_votes_count_the_candidates_below() -> None:
    members = network(), voter(1.0, -2.0, 0.5, 0.0)
    data = dataset()
    scores = borda(*members, weights=(2.0, 0.5)).predict(data)
    expected = np.zeros(data.n_rows)
    for weight, ranker in zip((2.0, 0.5), members, strict=True):
        found = ranker.predict(data)
        for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
            for row in range(start, stop):
                expected[row] += weight * sum(found[row] > found[other] for other in range(start, stop))
    np.testing.assert_allclose(scores, expected)


def test_a_plain_table_is_one_query_for_voters() -> None:
    ranker = borda()
    whole = RankingDataset.from_arrays(FEATURES, np.zeros(len(FEATURES), dtype=int), feature_names=NAMES)
    np.testing.assert_array_equal(ranker.predict(FEATURES), ranker.predict(whole))
    np.testing.assert_array_equal(in_blocks(ranker, dataset(), 3), ranker.predict(dataset()))
    assert ranker.predict(FEATURES[:0]).shape == (0,)


def test_voters_must_know_the_same_features() -> None:
    other = LinearRanker(feature_names="abcd", scaling=SCALING, coefficients=np.ones(4))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the same features"):
        borda(network(), other)
