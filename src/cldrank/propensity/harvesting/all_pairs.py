"""`AllPairs`: all pairs of positions at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import PairGraph
from cldrank.errors import Spelling
from cldrank.parameters import value
from cldrank.propensity.checks.refusal import counts_every_click
from cldrank.propensity.counts import Cells
from cldrank.propensity.harvesting.harvest import Harvesting

Floats = NDArray[np.float64]

_STEPS = 100
_ENTRIES = 2_000_000  # of logs by pairs, solved at a time: bounds the memory
_TOLERANCE = 1e-10
_LONGEST = 2.0  # the most that a step may change a log propensity by
_FARTHEST = 30.0  # a log propensity beyond is that of a position without clicks


@value
class AllPairs(Harvesting):
    """All pairs of positions at once, by maximum likelihood (Agarwal et al. 2019).

        sum over k != l of  c_kl log(rho_k r_kl) + (n_kl - c_kl) log(1 - rho_k r_kl)

    c_kl are the clicks at k of the n_kl candidates shown at k and l, and r_kl = r_lk is their mean relevance. In the
    logs of rho and r this is concave; r has a closed form given rho, and rho is found by Newton's method, to the end.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[0.0]] * 60, [0] * 60)
    >>> shown = {"row": [*range(60)] * 2, "position": [1] * 60 + [2] * 60, "impressions": [100] * 120}
    >>> clicks = cr.ClickTable.from_arrays(data, **shown, clicks=[40] * 60 + [10] * 60)
    >>> AllPairs().fit(clicks)
    Propensities(1, 0.25; AllPairs, 60 candidates)
    """

    name = "all-pairs"
    label = "All pairs"
    sentence = "Several rankers, or one that changes; all pairs of positions at once"
    order = 20

    @property
    def against(self) -> str:
        """What a position must be compared with."""
        return "one that leads to the first"

    def _cells(self, clicks: ClickTable) -> Cells:
        if clicks.every_click and (clicks.clicks > clicks.impressions).any():
            raise counts_every_click(self.spelling, Spelling("Pivot", "pivot"))
        return super()._cells(clicks)

    def _links(self, size: int) -> tuple[IntArray, IntArray]:
        upper, lower = np.triu_indices(size, 1)
        return upper, lower

    def _solve(self, sums: Floats) -> Floats:
        above, below, total = np.split(sums, 3, axis=1)
        size = (1 + math.isqrt(1 + 8 * above.shape[1])) // 2  # the number of positions that have this many pairs
        used = np.flatnonzero((above + below).sum(axis=0) > 0)  # a pair without clicks adds nothing
        upper, lower = self._links(size)
        graph = PairGraph(upper[used], lower[used], size)
        above, below, total = (part[:, used] for part in (above, below, total))
        blocks = np.array_split(np.arange(len(sums)), math.ceil(above.size / _ENTRIES))
        likelihoods = (Likelihood(above[at], below[at], total[at], graph) for at in blocks)
        found: Floats = np.exp(np.concatenate([maximise(likelihood) for likelihood in likelihoods]))
        return found


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of several logs at once: sums are (logs, pairs), parameters (logs, size) with log rho_1 = 0."""

    above: Floats
    below: Floats
    total: Floats
    graph: PairGraph

    def start(self) -> Floats:
        """Log propensities by least squares on the log ratios of clicks, weighted by how much they tell."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(self.below / self.above)
            weight = self.above * self.below / (self.above + self.below)
        known = np.isfinite(ratio)
        weight = np.where(known, weight, 0.0)
        gradient = self.graph.scatter(weight * np.where(known, ratio, 0.0))
        return self.graph.potentials(self.graph.laplacian(weight), gradient)

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
        p, q = rho[:, self.graph.upper], rho[:, self.graph.lower]
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
        return value, self.graph.scatter((slopes[1] - slopes[0]) / 2), self.graph.laplacian(conductance)

    def step(self, gradient: Floats, curvature: Floats) -> Floats:
        """Newton's step, not too long."""
        step = self.graph.potentials(curvature, gradient)
        longest = np.abs(step).max(axis=1, keepdims=True)
        shortened: Floats = step * np.minimum(1.0, _LONGEST / np.maximum(longest, 1e-300))
        return shortened

    def of(self, chosen: NDArray[np.bool_]) -> Likelihood:
        """The same of some logs."""
        return replace(self, above=self.above[chosen], below=self.below[chosen], total=self.total[chosen])


def maximise(likelihood: Likelihood) -> Floats:
    """(logs, size) the log propensities of the largest likelihood, each log to its own end."""
    logs = likelihood.start()
    value, gradient, curvature = likelihood.climb(logs)
    active = np.ones(len(logs), dtype=bool)
    for _ in range(_STEPS):
        part = likelihood.of(active)
        step = part.step(gradient[active], curvature[active])
        here = logs[active]
        moved, (new, slope, curve) = here + step, part.climb(here + step)
        for _ in range(30):  # halve what does not gain; the first whole step nearly always does
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
