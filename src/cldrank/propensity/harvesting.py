"""Intervention harvesting: positions compared on the candidates that were shown at both."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cldrank._typing import Bools, Floats, IntArray
from cldrank.parameters import parameter, value
from cldrank.propensity.cells import Cells, PairSums, Weighting, pair_number
from cldrank.propensity.estimator import CellEstimator, Sample
from cldrank.propensity.identifiability import cannot_estimate
from cldrank.wording import count

_FEWEST_COMPARED = 5  # queries behind a comparison; resampling fewer does not show their spread
_STEPS = 100
_ENTRIES = 2_000_000  # of logs by pairs, solved at a time: bounds the memory
_TOLERANCE = 1e-10
_LONGEST = 2.0  # the most that a step may change a log propensity by
_FARTHEST = 30.0  # a log propensity beyond is that of a position without clicks


@value
class Harvesting(CellEstimator):
    """Estimators of pairs of positions, by the clicks of S_kl, the candidates shown at both (Agarwal et al. 2019)."""

    weighting: Weighting = parameter(
        default="impressions",
        about="Weight of a candidate shown at two positions: by its `impressions` there, for the least variance, or "
        "equal for all `candidates`, as in the paper",
    )

    assumes = "a candidate's position did not depend on its relevance"

    against: ClassVar[str]  # what a position must be compared with, in words

    @abstractmethod
    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        """The pairs of places (upper, lower) that are used."""

    @abstractmethod
    def _solve(self, sums: Floats, size: int) -> Floats:
        """(logs, size) the propensities of several logs at once, given (logs, …) sums; NaN where there is none."""

    def _sample(self, cells: Cells) -> Sample:
        pairs = PairSums.of(cells, self.weighting)
        used = pair_number(*self._links(cells.size), cells.size)
        require_overlap(self.name, self.against, pairs, used, cells, self.confidence)
        sums = np.concatenate([pairs.above[:, used], pairs.below[:, used], pairs.total[:, used]], axis=1)
        shared = (
            f"{(pairs.candidates > 0).sum():,} of {len(pairs.upper):,} pairs of positions have candidates in common"
        )
        grounds = f"{shared}, and every position has clicked ones in common with {self.against}"
        return Sample(self._solved(lambda sums: self._solve(sums, cells.size), sums, cells), grounds, pairs)


@value
class Pivot(Harvesting):
    """Each position against the first, on the candidates shown at both (Agarwal et al. 2019).

    rho_k = sum_i w_i c_ik / n_ik / sum_i w_i c_i1 / n_i1,   i in S_k1
    """

    name = "pivot"
    sentence = "Several rankers; each position against the first"
    order = 21
    against = "the first"

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        return np.zeros(size - 1, dtype=np.int64), np.arange(1, size)

    def _solve(self, sums: Floats, size: int) -> Floats:
        del size
        return np.concatenate([np.ones((len(sums), 1)), _ratios(sums)], axis=1)


@value
class AdjacentChain(Harvesting):
    """Each position against the one above, on the candidates shown at both, multiplied up (Agarwal et al. 2019).

        rho_k / rho_1 = product over l = 2 … k of rho_l / rho_(l-1)

    It needs swaps of neighbours only, but errors add up along the chain.
    """

    name = "adjacent-chain"
    sentence = "Several rankers; each position against the one above, so errors add up"
    order = 22
    against = "the position above"

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        return np.arange(size - 1), np.arange(1, size)

    def _solve(self, sums: Floats, size: int) -> Floats:
        del size
        return np.cumprod(np.concatenate([np.ones((len(sums), 1)), _ratios(sums)], axis=1), axis=1)


@value
class AllPairs(Harvesting):
    """All pairs of positions at once, by maximum likelihood (Agarwal et al. 2019).

        sum over k != l of  c_kl log(rho_k r_kl) + (n_kl - c_kl) log(1 - rho_k r_kl)

    c_kl are the clicks at k of the n_kl candidates shown at k and l, and r_kl = r_lk is their mean relevance. In the
    logs of rho and r this is concave; r has a closed form given rho, and rho maximises it by Newton's method.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> AllPairs().fit(clicks)
    Propensities(1, 0.25; AllPairs, 60 candidates)
    """

    name = "all-pairs"
    sentence = "Several rankers, or one that changes; all pairs of positions at once"
    order = 20
    against = "a position compared with the first"

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        return np.triu_indices(size, 1)

    def _solve(self, sums: Floats, size: int) -> Floats:
        above, below, total = np.split(sums, 3, axis=1)
        used = np.flatnonzero((above + below).sum(axis=0) > 0)  # a pair without clicks adds nothing
        upper, lower = (place[used] for place in self._links(size))
        above, below, total = (part[:, used] for part in (above, below, total))
        blocks = np.array_split(np.arange(len(sums)), math.ceil(above.size / _ENTRIES))
        likelihoods = (PairLikelihood(above[at], below[at], total[at], upper, lower, size) for at in blocks)
        with np.errstate(over="ignore", invalid="ignore"):  # of replicates that leave a position without clicks
            return np.asarray(np.exp(np.concatenate([maximise(likelihood) for likelihood in likelihoods])))


def _ratios(sums: Floats) -> Floats:
    """(logs, pairs) the ratio of clicks, lower over upper position, of the same candidates."""
    above, below, _ = np.split(sums, 3, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above > 0, below / above, np.nan)


# -- the likelihood of all pairs -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairLikelihood:
    """The likelihood of several logs at once: sums are (logs, pairs), parameters (logs, size) with log rho_1 = 0.

    Places are the nodes of a graph, the pairs (upper, lower) its edges.
    """

    above: Floats
    below: Floats
    total: Floats
    upper: IntArray
    lower: IntArray
    size: int

    def scatter(self, flow: Floats) -> Floats:
        """(logs, size) the net flow into each place, where each pair carries its flow from upper to lower."""
        places = np.eye(self.size)
        return np.asarray(flow @ (places[self.lower] - places[self.upper]))

    def laplacian(self, weight: Floats) -> Floats:
        """(logs, size, size) the Laplacian of the graph, with these weights."""
        laplacian = np.zeros((len(weight), self.size, self.size))
        laplacian[:, self.upper, self.lower] = -weight
        laplacian += np.swapaxes(laplacian, 1, 2)
        places = np.arange(self.size)
        laplacian[:, places, places] = -laplacian.sum(axis=2)
        return laplacian

    def potentials(self, laplacian: Floats, flow: Floats) -> Floats:
        """(logs, size) the potentials with this flow, 0 at the first place; unconnected places stay at 0."""
        inner = laplacian[:, 1:, 1:].copy()
        places = np.arange(self.size - 1)
        largest = np.maximum(inner[:, places, places].max(axis=1, keepdims=True, initial=0.0), 1e-300)
        inner[:, places, places] += 1e-13 * largest
        solved = np.linalg.solve(inner, flow[:, 1:, None])[:, :, 0]
        return np.concatenate([np.zeros((len(flow), 1)), solved], axis=1)

    def relevance(self, rho_upper: Floats, rho_lower: Floats) -> Floats:
        """(logs, pairs) the mean relevance that is most likely, given both propensities.

        The root of (A + B) (1 - p r) (1 - q r) = r (a p (1 - q r) + b q (1 - p r)), with A, B clicked and a, b not.
        """
        clicks = self.above + self.below
        linear = clicks * (rho_upper + rho_lower)
        linear += (self.total - self.above) * rho_upper + (self.total - self.below) * rho_lower
        square = 2 * self.total * rho_upper * rho_lower
        root = np.sqrt(np.maximum(linear**2 - 4 * square * clicks, 0.0))
        return 2 * clicks / np.where(clicks > 0, linear + root, 1.0)

    def climb(self, logs: Floats) -> tuple[Floats, Floats, Floats]:
        """The value, the gradient and the negative Hessian in log rho, all of relevance at its best."""
        rho = np.exp(logs)
        p, q = rho[:, self.upper], rho[:, self.lower]
        relevance = self.relevance(p, q)
        value = np.zeros(len(logs))
        slopes, curves = [], []
        for clicks, mean in ((self.above, p * relevance), (self.below, q * relevance)):
            mean = np.clip(mean, 1e-300, 1 - 1e-12)
            missed = self.total - clicks
            value += (clicks * np.log(mean) + missed * np.log1p(-mean)).sum(axis=1)
            slopes.append(clicks - missed * mean / (1 - mean))
            curves.append(missed * mean / (1 - mean) ** 2)
        both = curves[0] + curves[1]
        conductance = curves[0] * curves[1] / np.where(both > 0, both, 1.0)
        return value, self.scatter((slopes[1] - slopes[0]) / 2), self.laplacian(conductance)

    def of(self, chosen: Bools) -> PairLikelihood:
        """The same of some logs."""
        return replace(self, above=self.above[chosen], below=self.below[chosen], total=self.total[chosen])


def maximise(likelihood: PairLikelihood) -> Floats:
    """(logs, size) the log propensities of the largest likelihood, each log to its own end."""
    logs = np.zeros((len(likelihood.total), likelihood.size))
    value, gradient, curvature = likelihood.climb(logs)
    active = np.ones(len(logs), dtype=bool)
    for _ in range(_STEPS):
        part, here = likelihood.of(active), logs[active]
        step = part.potentials(curvature[active], gradient[active])
        longest = np.abs(step).max(axis=1, keepdims=True)
        step = step * np.minimum(1.0, _LONGEST / np.maximum(longest, 1e-300))
        moved, (new, slope, curve) = here + step, part.climb(here + step)
        for _ in range(30):  # halve steps that lose; a whole step nearly always gains
            lost = ~(new >= value[active] - 1e-12 * np.abs(value[active]))
            if not lost.any():
                break
            step[lost] /= 2
            moved[lost] = here[lost] + step[lost]
            new[lost], slope[lost], curve[lost] = part.of(lost).climb(moved[lost])
        logs[active] = np.clip(moved, -_FARTHEST, _FARTHEST)
        value[active], gradient[active], curvature[active] = new, slope, curve
        active[active] = np.abs(step).max(axis=1) > _TOLERANCE
        if not active.any():
            break
    return logs


# -- which positions can be compared -------------------------------------------------------------------------------


def require_overlap(
    estimator: str, against: str, pairs: PairSums, used: IntArray, cells: Cells, confidence: float
) -> None:
    """Raise UnidentifiableError where the used pairs do not lead from the first position to all others."""
    if not pairs.candidates.any():
        why = (
            "each candidate was shown at one position only, as by a single ranker that never changes, so no two "
            "positions can be compared on equal candidates"
        )
        raise cannot_estimate(estimator, why, range(1, cells.size + 1), cells.rates(), confidence)
    reached = _reached(pairs, used, cells.size)
    if not reached.all():
        lacking = (np.flatnonzero(~reached) + 1).tolist()
        why = _broken(against, pairs, used, reached, cells.units)
        raise cannot_estimate(estimator, why, lacking, cells.rates(), confidence)


def _reached(pairs: PairSums, used: IntArray, size: int) -> Bools:
    """The places that a chain of used pairs compares with the top.

    A pair shows that l is not infinitely below k if there are clicks at l, and the other way around; all estimates are
    finite only where such pairs lead from the top to each place, and back.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    upper, lower = pairs.upper[used], pairs.lower[used]
    known = pairs.units[used] >= _FEWEST_COMPARED
    down, up = known & (pairs.clicks_lower[used] > 0), known & (pairs.clicks_upper[used] > 0)
    tails, heads = np.concatenate([upper[down], lower[up]]), np.concatenate([lower[down], upper[up]])
    graph = csr_matrix((np.ones(len(tails)), (tails, heads)), shape=(size, size))
    _, label = connected_components(graph, directed=True, connection="strong")
    return np.asarray(label == label[0])


def _broken(against: str, pairs: PairSums, used: IntArray, reached: Bools, units: str) -> str:
    """Why the first place that cannot be compared cannot, in words."""
    across = reached[pairs.upper[used]] != reached[pairs.lower[used]]
    candidates, counted = (int(part[used][across].sum()) for part in (pairs.candidates, pairs.units))
    first = int(np.flatnonzero(~reached)[0]) + 1
    if not candidates:
        return f"no candidate was shown both at position {first} and at {against}"
    of_queries = f", of {counted:,} queries," if units == "queries" else ""
    shared = f"{count(candidates, 'candidate')}{of_queries} shown both there and at {against}"
    if (pairs.units[used][across] >= _FEWEST_COMPARED).any():
        return f"there are {shared}, but not with clicks at both"
    return f"there are only {shared}, too few to know how far an estimate could be trusted"
