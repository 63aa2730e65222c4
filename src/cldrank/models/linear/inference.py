"""What a statistician expects of a fit: standard errors, which features add nothing, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.optimise import Matrix, Vector, inverse

INTERCEPT = "(intercept)"
COLLINEAR = 1e-12  # of a feature's variance; float32 rounding of the features leaves about 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Parameters by name with their covariance, printed as a table.

    parts         the part of the model that each parameter belongs to: `relevance`, `selection`, `noise`
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
        kept = np.array([own == part for own in self.parts], dtype=bool)
        names = tuple(name for name, keep in zip(self.names, kept, strict=True) if keep)
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


def covariance(information: Matrix, clustered: Matrix | None = None, clusters: int = 0) -> Matrix:
    """The covariance of estimates from their information; robust to dependence within clusters if their sum is given.

        observed:  I⁻¹        clustered:  m/(m-1) I⁻¹ (Σ g gᵀ) I⁻¹, over m clusters

    >>> covariance(np.array([[4.0]]), np.array([[8.0]]), clusters=2)
    array([[1.]])
    """
    bread = inverse(information)
    if clustered is None:
        return bread
    correction = clusters / (clusters - 1) if clusters > 1 else np.nan
    return correction * (bread @ clustered @ bread)


class QuerySquares(NamedTuple):
    """Σ g gᵀ over queries, where g is the sum of the gradients of a query's rows.

    middle    of the queries that are complete
    ends      the first and the last query, or the only one, with their sums: they may go on in neighbouring rows

    >>> upper, lower = (QuerySquares.of(np.array(queries), np.ones((2, 1))) for queries in ([0, 1], [1, 2]))
    >>> upper.joined(lower).total
    array([[6.]])
    """

    middle: Matrix
    ends: tuple[tuple[int, Vector], ...]

    @classmethod
    def of(cls, queries: IntArray, gradients: Matrix) -> QuerySquares:
        """Those of some rows, the rows of a query together."""
        starts = np.flatnonzero(np.diff(queries, prepend=queries[0] - 1))
        sums = np.add.reduceat(gradients, starts, axis=0)
        ends = [0, len(sums) - 1] if len(sums) > 1 else [0]
        return cls(sums[1:-1].T @ sums[1:-1], tuple((int(queries[starts[end]]), sums[end]) for end in ends))

    def joined(self, other: QuerySquares) -> QuerySquares:
        """Those of these rows and of the rows that follow."""
        (query, tail), (following, head) = self.ends[-1], other.ends[0]
        between = ((query, tail + head),) if query == following else ((query, tail), (following, head))
        ends = (*self.ends[:-1], *between, *other.ends[1:])
        middle = self.middle + other.middle
        for _, done in ends[1:-1]:
            middle += np.outer(done, done)
        return QuerySquares(middle, (ends[0], ends[-1]) if len(ends) > 1 else ends)

    @property
    def total(self) -> Matrix:
        """The sum, now that no rows follow."""
        total: Matrix = self.middle + sum(np.outer(sums, sums) for _, sums in self.ends)
        return total


def determined(gram: Matrix, tolerance: float = COLLINEAR) -> NDArray[np.bool_]:
    """Which columns the ones before them determine linearly, all but a small share of their square.

    A Cholesky factorisation, scaled to a unit diagonal, that leaves out each column as it turns out to be determined.

    >>> determined(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
    array([False,  True, False])
    """
    diagonal = np.diag(gram)
    size = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    correlation = gram / np.outer(size, size)
    dependent = np.zeros(len(size), dtype=bool)
    factor = np.zeros_like(correlation)  # row j: the part of column j that each earlier, independent one explains
    for index in range(len(size)):
        unexplained = correlation[index, index] - factor[index] @ factor[index]
        if unexplained <= tolerance:
            dependent[index] = True
            continue
        factor[:, index] = (correlation[:, index] - factor @ factor[index]) / np.sqrt(unexplained)
    return dependent


def block_diagonal(parts: list[Matrix]) -> Matrix:
    """Matrices along a diagonal; empty ones take no place."""
    from scipy.linalg import block_diag

    whole: Matrix = block_diag(*(part for part in parts if part.size))
    return whole
