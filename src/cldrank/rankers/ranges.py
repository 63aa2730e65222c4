"""Features unlike those of the training data: the fit keeps the range of each, to compare candidates to score with.

A feature in another unit (a hundred times as large, say) is a fault that scores alone do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.feature_blocks import RemoteFeatures

Ranges = NDArray[np.float32]  # (2, features): 1% of the values lie below, 1% above; NaN where unknown

_BLOCK_ROWS = 128  # of the training data
_LEAST_BLOCKS, _MOST_BLOCKS = 8, 128
_SAMPLE_VALUES = 1 << 20  # what is looked at takes 4 MiB, but for very many features
_TAIL = 0.01
_FAR = 10  # times the range: what lies further outside of it is far
_FAR_SHARE = 2 * _TAIL  # of the values: more of them far outside are another distribution
_NARROW = 20  # times as narrow as the range
_NARROW_ROWS = 1000  # before narrowness means anything
_MOST = 5  # features that are named


def training_ranges(features: Any) -> Ranges | None:
    """The range of each feature, from blocks spread over the rows; None for features that are not on this machine."""
    if isinstance(features, RemoteFeatures):
        return None
    rows, width = features.shape
    blocks = min(max(_SAMPLE_VALUES // (_BLOCK_ROWS * max(width, 1)), _LEAST_BLOCKS), _MOST_BLOCKS)
    starts = np.unique(np.linspace(0, max(rows - _BLOCK_ROWS, 0), blocks).astype(np.int64))
    if rows <= blocks * _BLOCK_ROWS:
        starts = np.arange(0, rows, _BLOCK_ROWS)
    parts = [features[start : start + _BLOCK_ROWS] for start in starts]
    sample = np.concatenate(parts, dtype=np.float32)
    sample.sort(axis=0)  # missing values come last
    last = np.isfinite(sample).sum(axis=0) - 1
    places = np.floor(_TAIL * last), np.ceil((1 - _TAIL) * last)
    return np.stack([sample[place.astype(np.int64), np.arange(width)] for place in places])


def check_ranges(ranges: NDArray[Any], n_features: int) -> Ranges:
    """Refuse what `training_ranges` cannot have made."""
    if ranges.dtype != np.float32 or ranges.shape != (2, n_features) or (ranges[0] > ranges[1]).any():
        raise DataError(f"the ranges of features must be float32 (2, {n_features}), each from its low to its high end.")
    return ranges


class RangeWatch:
    """What is known of the rows that were looked at, against the ranges in training.

    >>> watch = RangeWatch(["bm25"], np.array([[0], [20]], dtype=np.float32))
    >>> watch.look(np.array([[0.0], [1500.0], [900.0]]))
    >>> watch.differences()
    {'bm25': 'the feature bm25 goes from 0 to 1.5e+03 here, from 0 to 20 in 98% of the training data'}
    """

    def __init__(self, feature_names: Sequence[str], ranges: Ranges | None) -> None:
        width = len(feature_names)
        self._names = feature_names
        self._ranges = np.full((2, width), np.nan) if ranges is None else ranges.astype(np.float64)
        self._span = self._ranges[1] - self._ranges[0]
        with np.errstate(over="ignore"):  # nothing is further than infinity
            self._least, self._most = (self._ranges + np.array([[-_FAR], [_FAR]]) * self._span).astype(np.float32)
        self._watched = bool((self._span > 0).any())
        self._random = np.random.default_rng(0)  # every 65th row may always be the last of its query
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.rows, self._far = 0, np.zeros(len(self._names), dtype=np.int64)
        self._low, self._high = np.full((2, len(self._names)), np.nan, dtype=np.float32)

    def look(self, table: NDArray[Any], most: int = 1000) -> None:
        """Take in about `most` rows of a table."""
        if not self._watched or not len(table):
            return
        rows = table if len(table) <= most else table[self._random.integers(len(table), size=most)]
        self.rows += len(rows)
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
        if (low < self._least).any() or (high > self._most).any():
            self._far += ((rows < self._least) | (rows > self._most)).sum(axis=0)
        self._low, self._high = np.fmin(self._low, low), np.fmax(self._high, high)

    def differences(self, *, narrow: bool = True) -> dict[str, str]:
        """A sentence for each feature that is unlike what it was in training, by its name; at most five.

        narrow   whether a much narrower range counts, too; not where the same rows may come again and again
        """
        seen = self._high - self._low
        is_narrow = (seen > 0) & (seen * _NARROW < self._span) if narrow and self.rows >= _NARROW_ROWS else False
        unlike = (self._span > 0) & ((self._far > _FAR_SHARE * self.rows) | is_narrow)
        return {
            self._names[at]: f"the feature {self._names[at]} goes from {self._low[at]:.3g} to {self._high[at]:.3g} "
            f"here, from {self._ranges[0, at]:.3g} to {self._ranges[1, at]:.3g} in 98% of the training data"
            for at in np.flatnonzero(unlike)[:_MOST]
        }
