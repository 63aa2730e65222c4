"""`BordaRanker`: several rankers vote on the order of each query's candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.rankers.group import GroupRanker


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BordaRanker(GroupRanker):
    """Borda count: score = Σ weight * candidates of the query that the member ranks below. It depends on the query.

    >>> from cldrank import scaling
    >>> from cldrank.rankers.linear import LinearRanker
    >>> one = scaling.fit(None, [[1, 1]])
    >>> members = [LinearRanker(feature_names="ab", scaling=one, coefficients=c) for c in ([1, 0], [0, 1])]
    >>> BordaRanker(feature_names="ab", members=members, weights=(2, 1)).predict([[3, 1], [2, 2], [1, 3]])
    array([4., 3., 2.])
    """

    kind = "borda"
    by_row = False
    shares = "votes"

    def score_rows(
        self,
        table: NDArray[Any],
        offsets: IntArray | None = None,
        *,
        block_rows: int | None = None,
        device: str | None = None,
        first_query: int = 0,
    ) -> NDArray[np.float64]:
        """The votes of each row among those of its query; ties depend on the number of the query among all."""
        spans = np.array([0, len(table)]) if offsets is None else offsets
        sizes = np.repeat(np.diff(spans), np.diff(spans))
        total = np.zeros(len(table))
        for ranker, weight in zip(self.members, self.weights, strict=True):
            scores = ranker.score_rows(table, offsets, block_rows=block_rows, device=device)
            total += weight * (sizes - segments.descending_ranks(scores, spans, first_query))
        return total
