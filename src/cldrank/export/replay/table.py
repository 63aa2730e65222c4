"""`NamedTable`: the features of some candidates, as an engine meets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class NamedTable:
    """Features by name; NaN where a feature is missing, or does not match, as engines say.

    >>> NamedTable(("bm25", "age"), np.array([[1, 2], [3, 4]], dtype=np.float32)).column("age")
    array([2., 4.], dtype=float32)
    """

    names: Sequence[str]
    values: NDArray[np.float32]

    def column(self, name: str) -> NDArray[np.float32]:
        """The values of one feature."""
        return self.values[:, list(self.names).index(name)]
