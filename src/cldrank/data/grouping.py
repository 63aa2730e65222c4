"""From rows that name their query to rows that lie query by query, and datasets that can be joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data.checks import check_texts
from cldrank.data.parquet_features import ParquetFeatures
from cldrank.errors import DataError

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset


def gather_queries(
    run_starts: ArrayLike, run_ids: NDArray[Any], rows: int
) -> tuple[NDArray[Any], IntArray, IntArray | None]:
    """Query ids, offsets, and the order that brings the rows of each query together (None if they lie so already).

    Rows come in runs of equal query ids; a query keeps the place of its first run, and its rows keep their order.

    >>> gather_queries([0, 2, 3], np.array([7, 8, 7]), 4)
    (array([7, 8]), array([0, 3, 4]), array([0, 1, 3, 2]))
    """
    starts = np.asarray(run_starts, dtype=np.int64)
    unique, first, inverse = np.unique(run_ids, return_index=True, return_inverse=True)
    if len(unique) == len(run_ids):
        return run_ids, np.append(starts, rows), None
    by_appearance = np.argsort(first)
    place = np.empty_like(by_appearance)
    place[by_appearance] = np.arange(len(unique))
    query_of_rows = np.repeat(place[inverse], np.diff(np.append(starts, rows)))
    order = np.argsort(query_of_rows, kind="stable")
    return unique[by_appearance], segments.from_lengths(np.bincount(query_of_rows)), order


def narrowed(tokens: Sequence[str]) -> NDArray[Any]:
    """Ids as integers where that loses nothing, else as text.

    >>> narrowed(["7", "12"]), narrowed(["007", "12"])
    (array([ 7, 12]), array(['007', '12'], dtype='<U3'))
    """
    check_texts(tokens)
    try:
        numbers = np.array([int(token) for token in tokens], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(tokens, dtype=np.str_)
    same = all(str(number) == token for number, token in zip(numbers.tolist(), tokens, strict=True))
    return numbers if same else np.array(tokens, dtype=np.str_)


def check_joinable(datasets: Sequence[RankingDataset]) -> None:
    """Refuse datasets whose features differ or are on disk, or of which some alone have labels or document ids."""
    for index, dataset in enumerate(datasets, start=1):
        features: Any = dataset.features
        if isinstance(features, ParquetFeatures):
            raise DataError(
                f"the features of dataset {index} are on disk, where they cannot be joined; load all files together, "
                "cldrank.load([one, two]), or take data.in_memory() where there is memory for that."
            )
    first = datasets[0].feature_names
    for index, other in enumerate(datasets[1:], start=2):
        if other.feature_names != first:
            raise DataError(
                f"dataset {index} has other features than the first ({_difference(first, other.feature_names)}); only "
                "equal features can be joined."
            )
    for attribute in ("labels", "doc_ids"):
        if len({getattr(dataset, attribute) is not None for dataset in datasets}) > 1:
            raise DataError(f"some of the datasets have {attribute} and some have none; they cannot be joined.")


def _difference(expected: Sequence[str], found: Sequence[str]) -> str:
    if len(expected) != len(found):
        return f"{len(found)} instead of {len(expected)}"
    place = next(i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
    return f"{found[place]!r} instead of {expected[place]!r} at place {place + 1}"
