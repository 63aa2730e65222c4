"""An ordered probit of where candidates were shown: the first stage of Heckman's correction."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.likelihood import log_cdf
from cldrank.models.linear.design import Block, Design
from cldrank.models.linear.row_blocks import added
from cldrank.optimise import Derivatives

Floats = NDArray[np.float64]

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)


def chosen_columns(wide: Floats, columns: IntArray) -> Floats:
    """Some columns of a block, not copied if they are the first columns."""
    if len(columns) and columns[-1] == len(columns) - 1:
        return wide[:, : len(columns)]
    return wide[:, columns]


class GaussianInterval(NamedTuple):
    """log(Φ(b) - Φ(a)), its derivatives by a and b, and its second derivatives."""

    value: Floats
    a: Floats
    b: Floats
    aa: Floats
    ab: Floats
    bb: Floats

    @property
    def correction(self) -> Floats:
        """E[ε | a < ε ≤ b], the inverse Mills ratio of an interval: (φ(a) - φ(b)) / (Φ(b) - Φ(a))."""
        return -(self.a + self.b)

    @property
    def shrinkage(self) -> Floats:
        """1 - Var(ε | a < ε ≤ b), which lies in 0 … 1."""
        return np.clip(-(self.aa + 2 * self.ab + self.bb), 0.0, 1.0)


def log_interval(a: Floats, b: Floats) -> GaussianInterval:
    """The log-probability of a < ε ≤ b for a standard Gaussian ε; either end may be infinite.

    >>> interval = log_interval(np.array([-np.inf, -1.0, 0.0]), np.array([0.0, 1.0, np.inf]))
    >>> np.exp(interval.value), interval.correction
    (array([0.5  , 0.6827, 0.5 ]), array([-0.7979,  0. ,  0.7979]))
    """
    from scipy.special import log_ndtr

    interval = GaussianInterval(*np.zeros((6, len(a))))
    left, right = np.isneginf(a) & ~np.isposinf(b), np.isposinf(b) & ~np.isneginf(a)
    inner = ~(np.isneginf(a) | np.isposinf(b))
    tail = log_cdf(b[left])
    interval.value[left], interval.b[left], interval.bb[left] = tail.value, tail.slope, -tail.curvature
    tail = log_cdf(-a[right])
    interval.value[right], interval.a[right], interval.aa[right] = tail.value, -tail.slope, -tail.curvature
    low, high = a[inner], b[inner]
    turned = low + high > 0  # by symmetry, take the tail on the left, where Φ has all its digits
    near = log_ndtr(np.where(turned, -low, high))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # an empty interval is not finite
        value = near + np.log(-np.expm1(log_ndtr(np.where(turned, -high, low)) - near))
        at_low = np.exp(-0.5 * low**2 - _LOG_SQRT_2PI - value)
        at_high = np.exp(-0.5 * high**2 - _LOG_SQRT_2PI - value)
        interval.value[inner], interval.a[inner], interval.b[inner] = value, -at_low, at_high
        interval.aa[inner], interval.bb[inner] = at_low * (low - at_low), -at_high * (high + at_high)
        interval.ab[inner] = at_low * at_high
    return interval


class PlaceRule(NamedTuple):
    """How the places of candidates depend on their features, with sums over a block.

        place k  if  t_k < ω·x + ε ≤ t_{k-1},    ε standard Gaussian,    ∞ = t_0 > t_1 > … > t_K

    and not shown below t_K. Parameters are ω over `columns`, then the thresholds.

    columns        of the design, with a coefficient each
    n_levels       how many places there are
    n_thresholds   how many thresholds part them
    """

    columns: IntArray
    n_levels: int
    n_thresholds: int

    def sums(self, parameters: Floats, block: Block) -> tuple[Floats, ...]:
        """The value, its gradient by ω and by the thresholds, and minus the first, the mixed and the last part of its
        Hessian.
        """
        count = self.n_thresholds + 2  # with the infinite thresholds, which fall away in the end
        x = chosen_columns(block.wide, self.columns)
        owner, level, interval = self.seen(block, x, parameters)
        absent = block.own.absent
        weight = np.append(block.own.weight, absent[absent > 0])
        upper = level - 1  # the upper threshold of a place is that before it
        mixed, own, ends = np.zeros((len(x), count)), np.zeros((count, count)), np.zeros(count)
        for end, by, twice in ((upper, interval.b, interval.bb), (upper + 1, interval.a, interval.aa)):
            ends += np.bincount(end, weight * by, count)
            own[np.diag_indices(count)] += np.bincount(end, weight * twice, count)
            both = np.bincount(owner * count + end, weight * (interval.ab + twice), mixed.size)
            mixed -= both.reshape(mixed.shape)
        between = np.bincount(upper, weight * interval.ab, count - 1)
        own += np.diag(between, 1) + np.diag(between, -1)
        root = x * np.sqrt(np.bincount(owner, weight * interval.shrinkage, len(x)))[:, None]
        slope = np.bincount(owner, weight * interval.correction, len(x))
        value = np.asarray(weight @ interval.value)
        return value, x.T @ slope, ends[1:-1], root.T @ root, x.T @ mixed[:, 1:-1], own[1:-1, 1:-1]

    def seen(self, block: Block, x: Floats, parameters: Floats) -> tuple[IntArray, IntArray, GaussianInterval]:
        """Rows and places of the entries, and behind them of the candidates not shown; and what these places say."""
        owner, level = self.places(block.own)
        split = len(self.columns)
        thresholds = np.concatenate([[np.inf], parameters[split:], [-np.inf]])
        index = (x @ parameters[:split])[owner]
        return owner, level, log_interval(thresholds[level] - index, thresholds[level - 1] - index)

    def places(self, observed: Any) -> tuple[IntArray, IntArray]:
        """Rows and places of the entries, and behind them of the candidates not shown, a level below all others."""
        absent = np.flatnonzero(observed.absent > 0)
        owner = np.append(observed.shown[observed.owner], absent)
        return owner, np.append(observed.level, np.full(len(absent), self.n_levels + 1))

    def ends(self, parameters: Floats, block: Block) -> tuple[float, float]:
        """The lowest index of what was shown, and the highest of what was not."""
        index = chosen_columns(block.wide, self.columns) @ parameters[: len(self.columns)]
        owner, level = self.places(block.own)
        shown = level <= self.n_levels
        lowest = index[owner[shown]].min(initial=np.inf)
        return float(lowest), float(index[owner[~shown]].max(initial=-np.inf))


class OrderedProbit:
    """Mean log-likelihood of where candidates were shown, less a ridge penalty on ω: concave, so with a unique optimum.

    With a single place this is the probit of shown, with intercept -t_1. Where every candidate was shown there is
    nothing to learn, and there are no parameters.
    """

    def __init__(self, design: Design, columns: IntArray, penalty: Floats) -> None:
        observed = design.observed
        self.design, self.observed = design, observed
        if not observed.n_thresholds:
            columns, penalty = columns[:0], penalty[:0]
        self.places = PlaceRule(columns, observed.n_levels, observed.n_thresholds)
        self.penalty = np.append(penalty, np.zeros(observed.n_thresholds))

    def start(self) -> Floats:
        """No effect of any feature, and the thresholds that give each place its share."""
        from scipy.special import ndtri

        observed = self.observed
        by_level = np.bincount(observed.level, observed.weight, observed.n_levels + 1)[1:][: observed.n_thresholds]
        return np.append(np.zeros(len(self.places.columns)), -ndtri(np.cumsum(by_level) / observed.total))

    def evaluate(self, parameters: Floats) -> Derivatives:
        """Value, gradient and Hessian in a single pass; not finite where the thresholds are out of order."""
        if not np.all(np.diff(parameters[len(self.places.columns) :]) < 0):
            nothing = np.full(len(parameters), np.nan)
            return Derivatives(np.nan, nothing, np.diag(nothing))
        sums = self.design.fold(partial(self.places.sums, parameters), added)
        value, slope, ends, curvature, mixed, own = (np.asarray(part) for part in sums)
        total = self.observed.total
        hessian = np.block([[-curvature, mixed], [mixed.T, own]]) / total - np.diag(2 * self.penalty)
        gradient = np.append(slope, ends) / total - 2 * self.penalty * parameters
        return Derivatives(float(value) / total - float(self.penalty @ parameters**2), gradient, hessian)
