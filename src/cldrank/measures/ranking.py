"""`Ranking`: labels in the order of the scores, with whatever several measures need computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.errors import DataError
from cldrank.segments import Array

Gain = Literal["exponential", "linear"]

LARGEST_EXPONENT = 1000  # 2^1000 is near the end of float64


class Ranking:
    """The labels of each query, best-scored candidate first.

    labels     (rows,) float64; a negative label counts as 0
    offsets    (queries + 1,) int64; rows offsets[i] … offsets[i+1]-1 belong to query i
    highest    the largest label of all the data

    >>> Ranking.of([0.1, 0.9, 0.5], [0, 1, 2], [0, 3]).labels
    array([1., 2., 0.])
    """

    def __init__(self, labels: Array, offsets: IntArray, highest: float) -> None:
        self.labels = labels
        self.offsets = offsets
        self.highest = highest
        self._made: dict[Any, Any] = {}

    @classmethod
    def of(cls, scores: Any, labels: Any, offsets: Any) -> Ranking:
        """Rank by descending score; ties are broken in a fixed order that depends on neither labels nor storage."""
        scores, labels, offsets = checked(scores, labels, offsets)
        labels = np.clip(labels, 0, None)
        highest = float(labels.max()) if len(labels) else 0.0
        return cls(labels[segments.descending_order(scores, offsets)], offsets, highest)

    @cached_property
    def ideal(self) -> Ranking:
        """The best order there is: by descending label."""
        return Ranking(segments.descending_values(self.labels, self.offsets), self.offsets, self.highest)

    def top(self, cutoff: int | None) -> Ranking:
        """The first `cutoff` candidates of each query; everything for None."""
        if cutoff is None or cutoff >= self._longest:
            return self
        key = ("top", cutoff)
        if key not in self._made:
            rows, offsets = segments.first_rows_of_segments(self.offsets, cutoff)
            self._made[key] = Ranking(self.labels[rows], offsets, self.highest)
        shorter: Ranking = self._made[key]
        return shorter

    @cached_property
    def _longest(self) -> int:
        return int((self.offsets[1:] - self.offsets[:-1]).max()) if len(self.offsets) > 1 else 0

    @cached_property
    def ranks(self) -> Array:
        """1, 2, 3 … within each query, in float64."""
        return segments.places_in_segments(self.offsets).astype(np.float64)

    @cached_property
    def discounts(self) -> Array:
        """1 / log2(rank + 1)."""
        return 1 / np.log2(self.ranks + 1)

    @cached_property
    def best_labels(self) -> Array:
        """The largest label of each query; 0 for a query without candidates."""
        return segments.maxima_of_segments(self.labels, self.offsets)

    def gains(self, gain: Gain) -> Array:
        """2^label - 1, or the label itself."""
        if gain == "linear":
            return self.labels
        self.check_exponent(self.highest)
        return self._once("gains", lambda: np.exp2(self.labels) - 1)

    def dcg(self, gain: Gain) -> Array:
        """Discounted gain, summed over each query."""
        return self._once(("dcg", gain), lambda: self.sums(self.gains(gain) * self.discounts))

    def relevant(self, threshold: float) -> Array:
        """1.0 where the label reaches the threshold, else 0.0."""
        return self._once(("relevant", threshold), lambda: (self.labels >= threshold).astype(np.float64))

    def n_relevant(self, threshold: float) -> Array:
        """How many candidates of each query reach the threshold."""
        return self._once(("n_relevant", threshold), lambda: self.sums(self.relevant(threshold)))

    def sums(self, values: Array) -> Array:
        """The sum over each query."""
        return segments.sums_of_segments(values, self.offsets)

    def maxima(self, values: Array) -> Array:
        """The largest value of each query, at least 0."""
        return segments.maxima_of_segments(values, self.offsets)

    def running_sums(self, values: Array) -> Array:
        """The sum over each candidate and those ranked before it."""
        return segments.running_sums(values, self.offsets)

    @staticmethod
    def check_exponent(grade: float) -> None:
        """Refuse a grade whose 2^grade would overflow."""
        if grade > LARGEST_EXPONENT:
            raise DataError(
                f"the largest grade is {grade:g}, and 2^{grade:g} is not a usable gain; "
                "use gain=linear, or labels on a scale of a few grades."
            )

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def checked(scores: Any, labels: Any, offsets: Any) -> tuple[Array, Array, IntArray]:
    """Scores and labels in float64, offsets in int64, checked to fit together."""
    scores, labels, given = _numbers(scores, "scores"), _numbers(labels, "labels"), _numbers(offsets, "offsets")
    rows = len(scores)
    if len(labels) != rows:
        raise DataError(f"there are {rows:,} scores for {len(labels):,} labels; each row needs both.")
    rises = len(given) and given[0] == 0 and given[-1] == rows and (given[1:] >= given[:-1]).all()
    if not rises or (given != np.floor(given)).any():
        raise DataError(f"offsets must be whole numbers that rise from 0 to the number of rows ({rows:,}).")
    offsets = given.astype(np.int64)
    _refuse(np.isnan(scores), "score", scores, offsets, "a ranker must give every candidate a number.")
    _refuse(~np.isfinite(labels), "label", labels, offsets, "labels must be finite numbers.")
    return scores, labels, offsets


def _numbers(values: Any, what: str) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{what} must be a flat array of numbers: {str(error).rstrip('.')}.") from None
    if array.ndim != 1:
        raise DataError(f"{what} have shape {tuple(array.shape)}; they need a number per row.")
    return array


def _refuse(bad: NDArray[np.bool_], what: str, values: Array, offsets: IntArray, advice: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        query = int((offsets <= row).sum()) - 1
        raise DataError(f"the {what} of row {row} (query {query}, both from 0) is {float(values[row])}; {advice}")
