"""All measures of one ranking against one `numpy.lexsort` of the same rows, in one run. Prints one JSON line."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cldrank import measures, segments

NAMES = "nDCG@1 nDCG@3 nDCG@5 nDCG@10 nDCG DCG@10 AP RR P@1 P@5 P@10 ERR@10 ERR"
GOAL = 6.0
GRADE_SHARES = [0.52, 0.32, 0.13, 0.02, 0.01]  # about those of WEB10K


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    times = timed(candidates(options.rows, options.queries), options.repeats)
    reference = times["lexsort"]
    ratios = {name: round(seconds / reference, 3) for name, seconds in times.items() if name != "lexsort"}
    result = {
        "benchmark": "measures",
        "rows": options.rows,
        "queries": options.queries,
        "measures": NAMES.split(),
        "milliseconds": {name: round(1000 * seconds, 2) for name, seconds in times.items()},
        "reference": "numpy.lexsort((-scores, query))",
        "ratio": ratios["numpy"],
        "ratio_tied_scores": ratios["numpy, tied scores"],
        "goal": GOAL,
        "met": ratios["numpy"] <= GOAL,
    }
    print(json.dumps(result))


def candidates(rows: int, queries: int) -> dict[str, Callable[[], Any]]:
    """What is timed: the reference, measures with distinct and with tied scores."""
    generator = np.random.default_rng(0)
    sizes = 1 + generator.multinomial(rows - queries, generator.dirichlet(np.full(queries, 4.0)))
    offsets = segments.from_lengths(sizes)
    query = segments.segment_of_rows(offsets)
    scores = generator.normal(size=rows)
    few_scores = np.round(scores, 1)
    labels = generator.choice(len(GRADE_SHARES), p=GRADE_SHARES, size=rows).astype(np.float32)
    return {
        "lexsort": lambda: np.lexsort((-scores, query)),
        "numpy": lambda: measures.compute(NAMES, scores, labels, offsets),
        "numpy, tied scores": lambda: measures.compute(NAMES, few_scores, labels, offsets),
    }


def timed(functions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each; the repeats take turns, so that a slow moment of the machine meets all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn:  # the first turn only warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


if __name__ == "__main__":
    main()
