"""Estimates of a linear fit with their covariance, printed as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

INTERCEPT = "(intercept)"


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Parameters by name with their covariance, printed as a table.

    parts         the part of the model that each parameter belongs to: `relevance`, `selection`
    names         (parameters,)
    values        (parameters,)
    covariance    (parameters, parameters); NaN where there is none to be had

    >>> Estimates(("relevance",) * 2, ("bm25", "(intercept)"), np.array([2.0, 0.5]), np.diag([1.0, 0.25]))
    relevance     estimate  std. error        z          p
    bm25                 2           1     2.00     0.0455
    (intercept)        0.5         0.5     1.00      0.317
    """

    parts: tuple[str, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def standard_errors(self) -> NDArray[np.float64]:
        """The standard error of each parameter; 0 where the data hold nothing about it, up to rounding."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def z(self) -> NDArray[np.float64]:
        """Estimate over standard error; NaN without one."""
        errors = self.standard_errors
        return np.divide(self.values, errors, out=np.full_like(errors, np.nan), where=errors > 0)

    @property
    def p(self) -> NDArray[np.float64]:
        """How often a parameter that is 0 would be estimated this far from it, or farther (two-sided, Gaussian)."""
        from scipy.special import ndtr

        probabilities: NDArray[np.float64] = 2 * ndtr(-np.abs(self.z))
        return probabilities

    def of(self, part: str) -> Estimates:
        """Those of one part."""
        kept = np.flatnonzero([own == part for own in self.parts])
        names = tuple(self.names[place] for place in kept)
        return Estimates((part,) * len(names), names, self.values[kept], self.covariance[np.ix_(kept, kept)])

    def error_of(self, part: str, names: Sequence[str]) -> NDArray[np.float64]:
        """The standard errors of the named parameters of a part; NaN for those it does not have."""
        own = self.of(part)
        known = dict(zip(own.names, own.standard_errors, strict=True))
        return np.array([known.get(name, np.nan) for name in names])

    def __repr__(self) -> str:
        width = max((len(name) for name in (*self.names, *self.parts)), default=0)
        lines: list[str] = []
        rows = zip(self.parts, self.names, self.values, self.standard_errors, self.z, self.p, strict=True)
        last = ""
        for part, name, value, error, z, p in rows:
            if part != last:
                lines += [""] * bool(lines)
                lines.append(f"{part:<{width}}  {'estimate':>9}  {'std. error':>10}  {'z':>7}  {'p':>9}")
                last = part
            lines.append(f"{name:<{width}}  {value:>9.4g}  {error:>10.3g}  {z:>7.2f}  {p:>9.3g}")
        return "\n".join(lines)
