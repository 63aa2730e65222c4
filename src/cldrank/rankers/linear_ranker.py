"""`LinearRanker`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cldrank.errors import DataError
from cldrank.rankers.base import Config, ScalingRanker, Scorer, Weights, taken_scaling


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

    def scorer(self, device: str | None) -> Scorer:
        """Intercept + Σ coefficient * scaled feature; on the CPU, which is faster than copying features to a GPU."""
        del device
        return self._scores

    def _scores(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        # not `block @ coefficients`: BLAS adds up a row in an order that depends on where the row lies in the block,
        # and equal rows must get equal scores
        total: NDArray[np.float64] = np.einsum("ij,j->i", block.astype(np.float64), self.coefficients)
        return total + self.intercept

    def to_state(self) -> tuple[Config, Weights]:
        """`coefficients` by feature, and `intercept`."""
        config, weights = super().to_state()
        return config, {**weights, "coefficients": self.coefficients, "intercept": np.array([self.intercept])}

    @classmethod
    def from_state(cls, config: Config, weights: Weights, **parts: Any) -> Self:
        """The ranker with these coefficients and this intercept."""
        scaling = taken_scaling(config, weights, len(parts["feature_names"]))
        given = {name: (str(values.dtype), values.ndim) for name, values in weights.items()}
        if given != dict.fromkeys(("coefficients", "intercept"), ("float64", 1)) or len(weights["intercept"]) != 1:
            raise DataError(f"a linear ranker has float64 coefficients and a float64 intercept, not {given}.")
        numbers = {"coefficients": weights["coefficients"], "intercept": weights["intercept"].item()}
        return cls(scaling=scaling, **numbers, **parts)
