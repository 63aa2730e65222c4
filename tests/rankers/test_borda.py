"""Rankers that vote."""

from pathlib import Path

import numpy as np
import pytest
from made_rankers import (
    FEATURES,
    NAMES,
    SCALING,
    borda,
    dataset,
    in_blocks,
    module,
    network,
    voter,
)

from cldrank import segments
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.rankers import LinearRanker


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


def test_one_voter_ranks_as_it_would_alone() -> None:
    data, alone = dataset(), network()
    ranks = [
        segments.descending_ranks(ranker.predict(data), data.offsets) for ranker in (alone, borda(alone, weights=(3,)))
    ]
    np.testing.assert_array_equal(*ranks)


def test_voters_must_know_the_same_features() -> None:
    other = LinearRanker(feature_names="abcd", scaling=SCALING, coefficients=np.ones(4))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the same features"):
        borda(network(), other)


def test_a_module_cannot_be_saved_among_voters(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="ModuleRanker cannot be saved as a member"):
        borda(module(), network()).save(tmp_path / "ranker")
    assert list(tmp_path.iterdir()) == []
