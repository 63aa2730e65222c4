"""Many measures from one sort."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from array_api_compat import array_namespace, is_torch_array

from cldrank.measures.measure import Empty, Measure, parse_all
from cldrank.measures.ranking import Ranking
from cldrank.segments import Array


def compute(
    measures: str | Measure | Iterable[str | Measure],
    scores: Array,
    labels: Array,
    offsets: Array,
    *,
    empty: Empty = "zero",
) -> dict[Measure, Array]:
    """One value per query for each measure, in float64: numpy arrays, or torch tensors if the scores are one.

    scores     (rows,) larger is better; ties are broken in a fixed order that does not depend on the labels
    labels     (rows,) grades; negative ones count as 0
    offsets    (queries + 1,) rows offsets[i] … offsets[i+1]-1 belong to query i
    empty      a query without a relevant document counts 0 ("zero") or gives NaN ("skip"); `mean` leaves NaN out.
               ARP, of which 0 would be the best value, always gives NaN.

    >>> compute(["nDCG@1", "RR"], [3, 2, 1, 1, 2], [0, 1, 2, 0, 1], [0, 3, 5])
    {nDCG@1: array([0., 1.]), RR: array([0.5, 1. ])}
    """
    wanted = parse_all(measures)
    ranking = Ranking.of(scores, labels, offsets)
    return {measure: measure.per_query(ranking, empty) for measure in wanted}


def mean(values: Array) -> float:
    """The mean over the queries that have a value, NaN if none has.

    >>> mean([0.5, float("nan"), 1.0])
    0.75
    """
    values = values.detach() if is_torch_array(values) else np.asarray(values, dtype=np.float64)
    known = values[~array_namespace(values).isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
