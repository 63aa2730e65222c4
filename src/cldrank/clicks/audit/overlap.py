"""What cells tell of propensities: whether positions can be compared on equal candidates, and how precisely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from cldrank._typing import IntArray
from cldrank.clicks.audit.positions import Position
from cldrank.clicks.table import ClickTable

Floats = NDArray[np.float64]
Looks = Literal["random", "mixed", "fixed", "unknown"]

DEEPEST = 200  # positions that are compared pair by pair; a table of all pairs of more helps nobody
_RANDOM, _FIXED = 0.02, 0.98
_CHANCE = 1e-3
_FIT_STEPS = 30


@dataclass(frozen=True)
class Overlap:
    """Candidates that were shown at several positions, which is what intervention harvesting lives on.

    candidates    that were shown at all
    moving        of those, shown at several positions
    impressions   of the moving ones
    pairs         pairs of positions with a candidate in common, of `possible_pairs`
    components    sets of positions that such pairs connect; one set means that all can be compared
    positions     the positions of `common`, the upper 200 at most
    common        candidates that positions have in common, as a square table
    """

    candidates: int
    moving: int
    impressions: int
    pairs: int
    possible_pairs: int
    components: tuple[tuple[int, ...], ...]
    positions: tuple[int, ...]
    common: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Order:
    """How far the candidate determines its position: 0 in a random order, 1 where each has one position.

        strength = sum_q (X2_q - I_q (P_q - 1)) / sum_q (N_q - I_q) (P_q - 1)

    X2 is the chi-square statistic of candidates against positions in the N impressions of query q, of the I candidates
    shown at least twice, over P positions. In a random order E[X2] = I (P - 1); where each candidate has one position,
    X2 = N (P - 1). A page shows each candidate once, so in a random order X2 (I - 1) / I, not X2, is chi-square
    distributed with (I - 1) (P - 1) degrees of freedom.
    """

    strength: float | None
    error: float | None  # the standard error of the strength in a random order
    p_value: float | None  # how often a random order looks this ordered, or more
    impressions: int  # that could be tested
    looks: Looks


@dataclass(frozen=True)
class Precision:
    """The standard error of the log propensity of a position against the top one, by method; None: impossible.

    candidates, clicks   that this position and the one above have in common, and the clicks of those at the two
    step                 error of the log ratio of the two
    """

    position: int
    candidates: int
    clicks: int
    step: float | None
    randomised: float | None
    pivot: float | None
    adjacent_chain: float | None
    all_pairs: float | None


def overlap(table: ClickTable) -> Overlap:
    """Count the candidates that positions have in common.

    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> cells = {"row": [0, 0, 1, 2], "position": [1, 2, 2, 3], "impressions": [5, 1, 4, 5], "clicks": [3, 0, 1, 0]}
    >>> found = overlap(ClickTable.from_arrays(data, **cells))
    >>> found.moving, found.components
    (1, ((1, 2), (3,)))
    """
    positions, place = np.unique(table.position, return_inverse=True)
    several = _several(table.row)
    joined = (table.row[1:] == table.row[:-1]).nonzero()[0]
    size = len(positions)
    edges = sparse.coo_matrix((np.ones(len(joined)), (place[joined], place[joined + 1])), shape=(size, size))
    count, label = connected_components(edges, directed=False) if size else (0, np.empty(0, np.int64))
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=count))
    near = several & (place < DEEPEST)
    common = _gram(table.row[near], place[near], np.ones(int(near.sum())), min(size, DEEPEST))
    above = common[np.triu_indices(len(common), 1)]
    return Overlap(
        candidates=len(np.unique(table.row)),
        moving=len(np.unique(table.row[several])),
        impressions=int(table.impressions[several].sum()),
        pairs=int((above > 0).sum()),
        possible_pairs=len(above),
        components=tuple(tuple(part.tolist()) for part in np.split(positions[order], ends) if len(part)),
        positions=tuple(positions[:DEEPEST].tolist()),
        common=tuple(tuple(int(entry) for entry in line) for line in common),
    )


def display_order(table: ClickTable) -> Order:
    """Measure how far the candidate determines its position."""
    total = table.row_impressions
    tested = total[table.row] > 1
    row, position, n = table.row[tested], table.position[tested], table.impressions[tested].astype(np.float64)
    if not len(row):
        return Order(None, None, None, 0, "unknown")
    query = table.candidates.row_queries[row]
    column, column_of = np.unique(query * (table.depth + 1) + position, return_inverse=True)
    column_total = np.bincount(column_of, n)[column_of]
    share = n**2 / (total[row] * column_total)
    rows = np.unique(row)
    queries = table.n_queries
    all_n = np.bincount(query, n, queries)
    fit = np.bincount(query, share, queries)
    candidates = np.bincount(table.candidates.row_queries[rows], minlength=queries)
    places = np.bincount(column // (table.depth + 1), minlength=queries)
    fair = (candidates > 1) & (places > 1)
    statistic, expected = all_n * (fit - 1), candidates * (places - 1.0)
    room = float(((all_n - candidates) * (places - 1))[fair].sum())
    if room <= 0:
        return Order(None, None, None, 0, "unknown")
    strength = float((statistic - expected)[fair].sum()) / room
    lost = (candidates[fair] - 1) / candidates[fair]
    error = float(np.sqrt(2 * (expected[fair] / lost).sum())) / room
    p_value = float(chi2.sf((statistic[fair] * lost).sum(), (expected[fair] * lost).sum()))
    return Order(strength, error, p_value, int(all_n[fair].sum()), _looks(strength, error, p_value))


def _looks(strength: float, error: float, p_value: float) -> Looks:
    if strength > _FIXED:
        return "fixed"
    if strength > _RANDOM and p_value < _CHANCE:
        return "mixed"
    return "random" if error < 0.05 else "unknown"


def precision(table: ClickTable, curve: tuple[Position, ...]) -> tuple[Precision, ...]:
    """How precisely propensities can be estimated, position by position, from as many clicks as there are.

    The errors of harvesting are those of the position-based model, clicks_ik ~ Poisson(n_ik rho_k r_i), conditional on
    the clicks of each candidate i. Its information is a network of positions, with a conductance between k and l of

        w_kl = sum_i clicks_i p_ik p_il,   p_ik = n_ik rho_k / sum_l n_il rho_l

    and the variance of log(rho_k / rho_1) is the resistance between k and 1.
    """
    if not curve:
        return ()
    several = _several(table.row) & (table.position <= curve[min(len(curve), DEEPEST) - 1].position)
    row, position = table.row[several], table.position[several]
    n, c = table.impressions[several].astype(np.float64), table.clicks[several].astype(np.float64)
    places = np.array([entry.position for entry in curve[:DEEPEST]])
    place = np.searchsorted(places, position)
    weight = n * _fitted(row, place, n, c, curve)[place]
    size = len(places)
    below = np.flatnonzero((row[1:] == row[:-1]) & (place[1:] == place[:-1] + 1)) + 1
    step, candidates, clicks = _pairs(below - 1, below, place, weight, c, size)
    top = np.full(table.candidates.n_rows, -1, dtype=np.int64)
    top[row[place == 0]] = np.flatnonzero(place == 0)
    under = np.flatnonzero((top[row] >= 0) & (place > 0))
    direct, _, _ = _pairs(top[row[under]], under, place, weight, c, size)
    chain = np.cumsum(np.where(np.arange(size) > 0, step, 0.0))
    every = _resistance(row, place, weight, c, size)
    randomised = _randomised(curve[:DEEPEST])
    return tuple(
        Precision(
            int(places[k]),
            int(candidates[k]),
            int(clicks[k]),
            *(_error(values[k]) for values in (step, randomised, direct, chain, every)),
        )
        for k in range(1, size)
    )


def _randomised(curve: tuple[Position, ...]) -> Floats:
    """The variance of log(rate_k / rate_1)."""
    rate = np.array([entry.rate for entry in curve])
    clicks = np.array([entry.clicks for entry in curve], dtype=np.float64)
    with np.errstate(divide="ignore"):
        variance = np.maximum(1 - rate, 0.0) / clicks
    variance[clicks == 0] = np.inf
    against_top: Floats = variance + variance[0]
    return against_top


def _several(row: IntArray) -> NDArray[np.bool_]:
    """Of cells sorted by row, those whose row has more than one."""
    same = np.concatenate([[False], row[1:] == row[:-1], [False]]) if len(row) else np.zeros(1, dtype=bool)
    several: NDArray[np.bool_] = same[1:] | same[:-1]
    return several


def _fitted(row: IntArray, place: IntArray, n: Floats, c: Floats, curve: tuple[Position, ...]) -> Floats:
    """Examination by place, fitted to the clicks of candidates at several positions; good enough to weigh them."""
    rho = np.array([max(entry.clicks, 0.5) / entry.impressions for entry in curve[:DEEPEST]])  # half a click for none
    if not len(row):
        return rho
    _, code = np.unique(row, return_inverse=True)
    clicks, found = np.bincount(code, c), np.bincount(place, c, len(rho))
    seen = found > 0
    for _ in range(_FIT_STEPS):
        relevance = clicks / np.bincount(code, n * rho[place])
        rho = np.where(seen, found / np.maximum(np.bincount(place, n * relevance[code], len(rho)), 1e-300), rho)
    return rho


def _pairs(
    one: IntArray, two: IntArray, place: IntArray, weight: Floats, c: Floats, size: int
) -> tuple[Floats, IntArray, IntArray]:
    """For pairs of cells, by the place of the second: the variance of their log ratio, candidates, clicks."""
    p = weight[one] / (weight[one] + weight[two])
    both = c[one] + c[two]
    information = np.bincount(place[two], both * p * (1 - p), size)
    with np.errstate(divide="ignore"):
        variance = 1 / information
    return variance, np.bincount(place[two], minlength=size), np.bincount(place[two], both, size).astype(np.int64)


def _resistance(row: IntArray, place: IntArray, weight: Floats, c: Floats, size: int) -> Floats:
    """The resistance between the top place and every other; infinite where nothing connects them."""
    resistance = np.full(size, np.inf)
    if not len(row):
        return resistance
    _, code = np.unique(row, return_inverse=True)
    share = weight / np.bincount(code, weight)[code]
    network = _gram(row, place, np.sqrt(np.bincount(code, c))[code] * share, size)
    np.fill_diagonal(network, 0.0)
    _, label = connected_components(sparse.csr_matrix(network > 0), directed=False)
    joined = np.flatnonzero(label == label[0])
    part = network[np.ix_(joined, joined)]
    laplacian = np.diag(part.sum(axis=1)) - part
    if len(joined) > 1:
        resistance[joined[1:]] = np.diag(np.linalg.inv(laplacian[1:, 1:]))
    return resistance


def _gram(row: IntArray, place: IntArray, values: Floats, size: int) -> Floats:
    """The sum over rows of the products of their values at any two places."""
    if not len(row):
        return np.zeros((size, size))
    _, code = np.unique(row, return_inverse=True)
    table: Any = sparse.csr_matrix((values, (code, place)), shape=(int(code.max()) + 1, size))
    product: Floats = (table.T @ table).toarray()
    return product


def _error(variance: float) -> float | None:
    return float(np.sqrt(variance)) if np.isfinite(variance) else None
