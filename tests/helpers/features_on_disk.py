"""Features that can be read by slices alone, as those in Parquet files."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset


class SlicedFeatures:
    """A table that gives slices, counts the rows it gave, and never becomes an array."""

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, features: Any, group: int) -> None:
        self._features = np.asarray(features, dtype=np.float32)
        self.shape: tuple[int, ...] = self._features.shape
        self.row_group_offsets = np.append(np.arange(0, len(features), group), len(features))
        self.given: list[tuple[int, int]] = []

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        assert isinstance(rows, slice)
        start, stop, _ = rows.indices(len(self))
        self.given.append((start, stop))
        return self._features[start:stop].copy()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("these features are too large for memory")


def with_features(data: RankingDataset, features: Any) -> RankingDataset:
    """The same data with features elsewhere."""
    found = copy.copy(data)
    found.__dict__.update(features=features, fingerprint=data.fingerprint)
    return found
