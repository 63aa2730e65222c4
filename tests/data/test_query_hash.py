"""Queries known by hashes of their ids."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cldrank.data.query_hash import check_hashes, hashes_of, held_out
from cldrank.errors import CldrankError, DataError, UsageError

whole = st.integers(-(2**63), 2**63 - 1)
FIXED = [9407870976149377255, 2069200323341772933, 10997197268937993390]
texts = st.text(st.characters(exclude_characters="\0"), max_size=20)


@given(st.lists(texts, max_size=8))
def test_the_scheme_is_as_documented(ids: list[str]) -> None:
    digests = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in ids]
    hashes = hashes_of(np.array(ids, dtype=np.str_))
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [int.from_bytes(digest, "little") for digest in digests]


def test_files_of_old_rankers_stay_readable() -> None:
    """What rankers and hold-outs of earlier days were decided by must never change."""
    assert hashes_of(["7", "shoes", "länge"]).tolist() == FIXED


def test_other_kinds_of_ids() -> None:
    expected = hashes_of(["1", "2"])
    for ids in ([1, 2], [1.0, 2.0], np.array([1, 2], dtype=object), np.array([1, 2], np.uint8), ["1", "2"]):
        np.testing.assert_array_equal(hashes_of(ids), expected)
    assert len(hashes_of([])) == 0
    for wrong in ([1.5], [[1]], [None]):
        with pytest.raises(DataError, match="query_ids"):
            hashes_of(np.array(wrong))


class TestHeldOut:
    @pytest.mark.parametrize("share", [0.01, 0.5])
    @pytest.mark.parametrize("seed", [0, 3])
    def test_about_the_share(self, share: float, seed: int) -> None:
        n = 40_000
        held = held_out(np.arange(n), share, seed)
        assert abs(held.sum() - n * share) < 4 * np.sqrt(n * share * (1 - share))

    def test_a_query_is_held_out_whatever_else_there_is(self) -> None:
        ids = np.arange(500)
        held = held_out(ids, 0.3)
        assert not (held & ~held_out(ids, 0.4)).any()
        assert (held != held_out(ids, 0.3, seed=1)).any()
        order = np.random.default_rng(0).permutation(500)
        np.testing.assert_array_equal(held_out(ids[order], 0.3), held[order])
        np.testing.assert_array_equal(held_out(ids[:7].astype(str), 0.3), held[:7])
        np.testing.assert_array_equal(held_out(["new", *ids[:7].astype(str)], 0.3)[1:], held[:7])

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [((0,), "`share`"), ((1,), "`share`"), ((0.5, -1), "`seed`"), ((0.5, 2**64), "`seed`")],
    )
    def test_refusals(self, arguments: tuple[Any, ...], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            held_out([1, 2], *arguments)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1, 2]), "uint64, not int64"),
        (np.array([[1, 2]], np.uint64), r"of shape \(1, 2\)"),
        (np.array([2, 1], np.uint64), "sorted"),
        (np.array([1, 1], np.uint64), "each of them once"),
    ],
)
def test_hashes_that_are_not_what_a_ranker_keeps(values: Any, message: str) -> None:
    with pytest.raises(CldrankError, match=message):
        check_hashes(values)
