from __future__ import annotations

import struct

import numpy as np
import pytest

from cldrank.service.layout import FeatureLayout, check_candidate_ids, packed
from cldrank.service.request_error import RequestError

LAYOUT = FeatureLayout(("a", "b", "c"))
GAPS = FeatureLayout(("a", "b", "c"), takes_missing=True)


def test_rows_are_packed_as_numpy_rounds_them() -> None:
    rows = np.random.default_rng(0).lognormal(0, 15, (50, 7))
    np.testing.assert_array_equal(packed(rows.tolist(), 7), rows.astype(np.float32))
    assert packed([], 7).shape == (0, 7)


@pytest.mark.parametrize("row", [[1, 2], [1, 2, 3, 4], [1, 2, "3"], [1, 2, None], [1, 2, [3]]])
def test_a_row_of_another_length_or_of_other_things_is_not_packed(row: list[object]) -> None:
    with pytest.raises(struct.error):
        packed([[1, 2, 3], row], 3)


def test_one_feature_is_picked_like_many() -> None:
    assert FeatureLayout(("a",)).of_mappings([{"a": 2}, {"a": 3}]).tolist() == [[2], [3]]


def test_columns_in_another_order_are_put_in_the_rankers() -> None:
    places = LAYOUT.places(("c", "a", "b"))
    assert LAYOUT.spread(np.array([[3, 1, 2]]), places).tolist() == [[1, 2, 3]]
    assert np.isnan(GAPS.spread(np.array([[3, 1]]), GAPS.places(("c", "a")))[0]).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a", "b"), "the feature 'c' is missing."),
        (("b",), "the features 'a', 'c' are missing."),
        (("a", "b", "c", "d"), "the ranker does not know the feature 'd'"),
        (("a", "b", "b"), "the feature 'b' is given twice."),
    ],
)
def test_names_that_do_not_fit_are_refused(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        LAYOUT.places(names)


def test_infinite_values_are_refused_and_missing_ones_where_none_may_be() -> None:
    table = np.array([[1, 2, 3], [1, np.nan, 3]], dtype=np.float32)
    assert GAPS.check(table, ["x", "y"]) is table
    with pytest.raises(RequestError, match="the feature 'b' of candidate 'y' is NaN"):
        LAYOUT.check(table, ["x", "y"])
    with pytest.raises(RequestError, match="the feature 'c' of candidate 'x' is infinite, or larger than float32"):
        GAPS.check(np.array([[1, 2, np.inf]], dtype=np.float32), ["x"])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a"], "1 id for 2 rows"),
        (["a", "a"], "the id 'a' appears twice"),
        ([1, 1], "the id 1 appears twice"),
        (["a", 1], "some are texts, others not"),
        (["a", 1.5], "candidate 2 has the id 1.5"),
        ([1, True], "candidate 2 has the id true"),
        ([None, "a"], "candidate 1 has the id null"),
        ([1, 2**63], "must fit into 64 bits"),
    ],
)
def test_ids_that_cannot_be_told_apart_are_refused(ids: list[object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        check_candidate_ids(ids, 2)
    check_candidate_ids([-(2**63), 2**63 - 1], 2)
    check_candidate_ids(["", "a"], 2)
