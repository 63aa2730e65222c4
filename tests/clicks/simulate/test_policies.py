from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank import segments
from cldrank.clicks.simulate import FirstSwaps, NeighbourSwaps, ShuffledShare, TopK
from cldrank.clicks.simulate.policies import Production
from cldrank.errors import UsageError


def production(scores: list[float], depth: int) -> Production:
    return Production(np.array(scores, dtype=float), np.array([0, len(scores)]), depth)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=7), min_size=1, max_size=6), st.integers(1, 5))
def test_the_top_is_the_head_of_the_order(queries: list[list[int]], depth: int) -> None:
    offsets = segments.from_lengths(np.array([len(scores) for scores in queries]))
    scores = np.concatenate(queries).astype(float)
    ranked = Production(scores, offsets, depth)
    order = segments.descending_order(scores, offsets)  # ties as everywhere else
    for query, (start, stop) in enumerate(itertools.pairwise(offsets)):
        expected = order[start:stop][:depth].tolist()
        assert ranked.top[query].tolist() == expected + [-1] * (depth - len(expected))
        assert ranked.lengths[query] == len(expected)


class TestSwaps:
    @pytest.mark.parametrize("policy", [NeighbourSwaps(0.3), FirstSwaps(0.3), FirstSwaps(0.3, positions=(2, 4))])
    def test_layouts_are_permutations_with_one_swap(self, policy: NeighbourSwaps | FirstSwaps) -> None:
        layouts = policy.layouts(4)
        assert layouts.places[0].tolist() == [0, 1, 2, 3]
        for name, places in zip(layouts.names[1:], layouts.places[1:], strict=True):
            assert sorted(places) == [0, 1, 2, 3]
            moved = np.flatnonzero(places != np.arange(4)) + 1
            assert name == f"swap-{moved[0]}-{moved[1]}"
        np.testing.assert_allclose(layouts.shares.sum(axis=1), 1)
        assert layouts.shares[4, 0] == 0.7

    def test_short_pages_swap_only_what_they_have(self) -> None:
        shares = NeighbourSwaps(0.6).layouts(4).shares
        np.testing.assert_allclose(shares[1], [1, 0, 0, 0])
        np.testing.assert_allclose(shares[2], [0.4, 0.6, 0, 0])
        np.testing.assert_allclose(shares[3], [0.4, 0.3, 0.3, 0])
        np.testing.assert_allclose(FirstSwaps(0.6, positions=(4,)).layouts(4).shares[3], [1, 0])

    def test_positions_must_be_on_the_page(self) -> None:
        with pytest.raises(UsageError, match="position 6 .* pages of 5"):
            FirstSwaps(positions=(2, 6)).check(5)
        for positions in ((1,), (2, 2)):
            with pytest.raises(UsageError, match="positions"):
                FirstSwaps(positions=positions)


class TestShuffledShare:
    @pytest.mark.parametrize("shuffle", ["page", "candidates"])
    def test_every_order_is_as_likely(self, shuffle: str) -> None:
        ranked, drawn = production([4, 3, 2, 1], 3), 24_000
        pages = ShuffledShare(1, shuffle=shuffle).draw(  # type: ignore[arg-type]
            ranked, np.zeros(drawn, dtype=np.int64), np.random.default_rng(0)
        )
        orders = list(itertools.permutations(range(3 if shuffle == "page" else 4), 3))
        for order in orders:
            seen = int((pages == order).all(axis=1).sum())
            assert abs(seen - drawn / len(orders)) < 4.5 * np.sqrt(drawn / len(orders))

    @given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 6), st.integers(0, 99))
    def test_pages_hold_different_candidates_of_their_query(self, sizes: list[int], depth: int, seed: int) -> None:
        offsets = segments.from_lengths(np.array(sizes))
        random = np.random.default_rng(seed)
        ranked = Production(random.normal(size=offsets[-1]), offsets, depth)
        queries = random.integers(0, len(sizes), 20)
        pages = ShuffledShare(1, shuffle="candidates").draw(ranked, queries, random)
        for query, page in zip(queries, pages, strict=True):
            length = min(depth, sizes[query])
            assert (page[length:] == -1).all()
            assert len(set(page[:length])) == length
            assert ((page[:length] >= offsets[query]) & (page[:length] < offsets[query + 1])).all()

    def test_parameters(self) -> None:
        with pytest.raises(UsageError, match="`share`"):
            ShuffledShare(-0.1)
        assert TopK().describe() == {"name": "top"}
        assert ShuffledShare(0.2).describe() == {"name": "shuffled", "share": 0.2, "shuffle": "page"}
