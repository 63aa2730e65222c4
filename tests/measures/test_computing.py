from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from cldrank import measures
from cldrank.errors import DataError, UsageError


def test_results_share_no_memory() -> None:
    values = measures.compute("DCG DCG@2 DCG@5 nDCG P@2 P@9 RR", [2, 1, 1, 2], [0, 1, 2, 0], [0, 2, 4]).values()
    assert not any(np.shares_memory(one, other) for one, other in itertools.combinations(values, 2))


def test_inputs_stay_as_they_are() -> None:
    scores, labels, offsets = np.array([1.0, 1.0, 2.0]), np.array([-1.0, 2.0, 0.0]), np.array([0, 3])
    for array in (scores, labels, offsets):
        array.flags.writeable = False
    measures.compute("nDCG AP ERR", scores, labels, offsets, empty="skip")
    assert labels.tolist() == [-1, 2, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.int8, bool])
def test_any_kind_of_number_will_do(dtype: Any) -> None:
    scores, labels, offsets = np.array([0, 1]).astype(dtype), np.array([1, 0]).astype(dtype), np.array([0, 2], np.int32)
    assert measures.compute("RR", scores, labels, offsets)[measures.RR()].tolist() == [0.5]
    tensors = [torch.as_tensor(array) for array in (scores, labels, offsets)]
    assert measures.compute("RR", *tensors)[measures.RR()].tolist() == [0.5]


@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "message"),
    [
        ([1.0, np.nan, 2], [0, 1, 0], [0, 1, 3], r"score of row 1 \(query 1, both from 0\) is nan; a ranker must give"),
        ([1.0, 2, 3], [0, np.nan, 0], [0, 3], "label of row 1 .* is nan; labels must be finite"),
        ([1.0, 2], [0, 1, 0], [0, 3], "2 scores for 3 labels"),
        ([[1.0, 2, 3]], [0, 1, 0], [0, 3], r"scores have shape \(1, 3\)"),
        *(([1.0, 2, 3], [0, 1, 0], offsets, r"\(3\)") for offsets in ([], [1, 3], [0, 2], [0, 2, 1, 3], [0, 1.5, 3])),
        ([1.0, 2, 3], [0, 1, 0], [0, np.nan, 3], "offsets"),
    ],
)
def test_bad_arrays_are_refused(scores: Any, labels: Any, offsets: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        measures.compute("nDCG", scores, labels, offsets)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match="labels must be a flat array of numbers"):
        measures.compute("nDCG", [1.0], ["good"], [0, 1])


def test_unknown_handling_of_empty_queries_is_refused() -> None:
    with pytest.raises(UsageError, match="`empty` .*'drop'"):
        measures.compute("AP", [1.0], [1], [0, 1], empty="drop")  # type: ignore[arg-type]


def test_mean_leaves_out_what_was_skipped() -> None:
    assert measures.mean(np.array([0.5, np.nan, 1.0])) == 0.75
    assert np.isnan(measures.mean(np.array([np.nan])))
    assert np.isnan(measures.mean(np.array([])))
