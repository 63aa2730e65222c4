"""`LinearRanker`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.rankers.base import Config, ScalingRanker, Weights
from cldrank.rankers.explaining import Contributions


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinearRanker(ScalingRanker):
    """score = intercept + Σ coefficient * scaled feature.

    >>> from cldrank import scaling
    >>> names = ("bm25", "pagerank")
    >>> ranker = LinearRanker(feature_names=names, scaling=scaling.fit(None, [[1, 1]]), coefficients=[2, -1])
    >>> ranker
    LinearRanker(2 features, scaling Unscaled(), of unknown origin)
    >>> ranker.predict([[1, 0], [3, 1]])
    array([2., 5.])
    """

    kind = "linear"
    coefficients: NDArray[np.float64]
    intercept: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        coefficients = np.array(self.coefficients, dtype=np.float64)
        if coefficients.shape != (len(self.feature_names),):
            raise DataError(f"coefficients have shape {coefficients.shape} for {len(self.feature_names)} features.")
        if not np.isfinite(coefficients).all():
            at = np.flatnonzero(~np.isfinite(coefficients))[0]
            raise DataError(f"the coefficient of feature {self.feature_names[at]!r} is {coefficients[at]}.")
        if not np.isfinite(self.intercept):
            raise DataError(f"the intercept is {self.intercept}; it must be finite.")
        coefficients.flags.writeable = False
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "intercept", float(self.intercept))

    def score_scaled(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        """Intercept + Σ coefficient * scaled feature."""
        # not `block @ coefficients`: BLAS adds up a row in an order that depends on where the row lies in the block,
        # and equal rows must get equal scores
        total: NDArray[np.float64] = np.einsum("ij,j->i", block.astype(np.float64), self.coefficients)
        return total + self.intercept

    def contributions(self, table: NDArray[Any]) -> Contributions:
        """Coefficient times scaled value; the base is the intercept.

        >>> from cldrank import scaling
        >>> names = ("bm25", "pagerank")
        >>> ranker = LinearRanker(feature_names=names, scaling=scaling.fit(None, [[1, 1]]), coefficients=[2, -1])
        >>> ranker.explain([[1, 0], [3, 1]]).values
        array([[ 2., -0.], [ 6., -1.]])
        """
        values = np.empty(table.shape)
        for rows, block in self.scaling.blocks(table, names=self.feature_names):
            values[rows] = block.astype(np.float64) * self.coefficients
        return Contributions(self.feature_names, values, np.full(len(table), self.intercept))

    def scorer_state(self) -> tuple[Config, Weights]:
        """`coefficients`, one per feature, and `intercept`."""
        return {}, {"coefficients": self.coefficients, "intercept": np.array([self.intercept])}

    @classmethod
    def from_scorer(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker with these coefficients and this intercept."""
        del config
        for name, shape in (("coefficients", (len(parts["feature_names"]),)), ("intercept", (1,))):
            if name not in weights:
                raise DataError(f"the array {name!r} of a linear ranker is missing.")
            if weights[name].dtype != np.float64 or weights[name].shape != shape:
                given = f"{weights[name].dtype} {weights[name].shape}"
                raise DataError(f"the array {name!r} of the ranker must be float64 {shape}, not {given}.")
        if extra := weights.keys() - {"coefficients", "intercept"}:
            raise DataError(f"a linear ranker has no array {min(extra)!r}.")
        return cls(coefficients=weights["coefficients"], intercept=weights["intercept"].item(), **parts)
