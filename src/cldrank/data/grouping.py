"""From rows that name their query to rows that lie query by query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.data.checks import check_texts


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
