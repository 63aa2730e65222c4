"""What cells can say about propensities: whether positions share candidates, and how precisely these compare them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.clicks.audit.positions import Position
from cldrank.clicks.table import ClickTable
from cldrank.clicks.units import PairGraph, cell_pairs, deal, draw_weights, many_queries

Floats = NDArray[np.float64]
Looks = Literal["random", "mixed", "fixed", "unknown"]

DEEPEST = 200  # positions that are compared pair by pair; a table of all pairs of more would help nobody
COMPARISONS = ("randomised", "all_pairs", "adjacent_chain", "pivot")  # the best founded first
_RANDOM, _FIXED = 0.02, 0.98
_CHANCE = 1e-3
_FEWEST_UNITS = 5  # behind a comparison; the estimators refuse fewer
_REPLICATES = 200
_LOST = 0.05  # the share of replicates that may be without an estimate, as for the estimators


@dataclass(frozen=True)
class Overlap:
    """Candidates that were shown at several positions, the raw material of intervention harvesting.

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
    """The standard error of the log propensity of a position relative to the top one, by comparison; None: unknown.

    candidates, clicks   the candidates in common with the position above, and their clicks at both
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
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    positions, place = np.unique(table.position, return_inverse=True)
    segment_row = table.segment_row
    several = _several(segment_row)
    joined = (segment_row[1:] == segment_row[:-1]).nonzero()[0]
    size = len(positions)
    edges = sparse.coo_matrix((np.ones(len(joined)), (place[joined], place[joined + 1])), shape=(size, size))
    count, label = connected_components(edges, directed=False) if size else (0, np.empty(0, np.int64))
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=count))
    near = several & (place < DEEPEST)
    common = _gram(segment_row[near], place[near], np.ones(int(near.sum())), min(size, DEEPEST))
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
    """Measure how far the candidate determines its position, on the surface that it was shown on."""
    from scipy.stats import chi2

    segment_row, segment_query = table.segment_row, table.segment_query
    total = np.bincount(segment_row, table.impressions)
    tested = total[segment_row] > 1
    row, position, n = segment_row[tested], table.position[tested], table.impressions[tested].astype(np.float64)
    if not len(row):
        return Order(None, None, None, 0, "unknown")
    query = segment_query[tested]
    column, column_of = np.unique(query * (table.depth + 1) + position, return_inverse=True)
    column_total = np.bincount(column_of, n)[column_of]
    share = n**2 / (total[row] * column_total)
    _, first = np.unique(row, return_index=True)
    queries = table.n_queries * table.n_segments
    all_n = np.bincount(query, n, queries)
    fit = np.bincount(query, share, queries)
    candidates = np.bincount(query[first], minlength=queries)
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
    """How precisely propensities can be estimated, position by position: what the estimators' intervals will show.

    The clicks at two positions of the candidates shown at both, with the weights of `cldrank.propensity`, make a log
    ratio of propensities. Pivot uses the ratios with the top position, the chain adds up those of neighbours, and all
    pairs weight every ratio by its information. Errors come from resampling what the estimators resample, queries or
    candidates.
    """
    if not curve:
        return ()
    places = np.array([entry.position for entry in curve[:DEEPEST]])
    size = len(places)
    near = (table.position <= places[-1]) & (table.impressions > 0)
    row, place = table.segment_row[near], np.searchsorted(places, table.position[near])
    n, c = table.impressions[near].astype(np.float64), table.clicks[near].astype(np.float64)
    query = table.segment_query[near]
    own = query // table.n_segments
    group, n_groups, _ = deal(own if many_queries(own) else row // table.n_segments, size)
    weights = draw_weights(n_groups, _REPLICATES)
    pairs = _Pairs.of(row, place, n, c, group, weights, size)
    steps, direct = pairs.lower == pairs.upper + 1, pairs.upper == 0
    found = {
        "step": _errors(pairs.ratios[:, steps], pairs.known[steps]),
        "randomised": _errors(*_randomised(query, place, n, c, group, weights, size)),
        "pivot": _errors(pairs.ratios[:, direct], pairs.known[direct]),
        "adjacent_chain": _errors(
            np.cumsum(pairs.ratios[:, steps], axis=1), np.logical_and.accumulate(pairs.known[steps])
        ),
        "all_pairs": _errors(pairs.together(size), pairs.joined(size)),
    }
    return tuple(
        Precision(
            int(places[k + 1]),
            int(pairs.candidates[steps][k]),
            int(pairs.clicks[steps][k]),
            **{name: errors[k] for name, errors in found.items()},
        )
        for k in range(size - 1)
    )


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The clicks of candidates shown at two places, for all pairs of places.

    ratios       (replicates, pairs) the log of the clicks at the lower over those at the upper, resampled
    weight       (replicates, pairs) the information in each
    known        (pairs,) whether enough units have clicks, at both, for an estimate
    candidates   (pairs,) how many, and their clicks at both
    """

    upper: IntArray
    lower: IntArray
    ratios: Floats
    weight: Floats
    known: NDArray[np.bool_]
    candidates: IntArray
    clicks: IntArray

    @classmethod
    def of(
        cls, row: IntArray, place: IntArray, n: Floats, c: Floats, group: IntArray, weights: Floats, size: int
    ) -> _Pairs:
        """Add up all pairs of cells of the same candidate; cells are sorted by row and place."""
        groups = weights.shape[1]
        upper, lower = np.triu_indices(size, 1)
        count = len(upper)
        sums, plain = np.zeros((3, groups * count)), np.zeros((2, count))
        for one, two, pair in cell_pairs(row, place, size):
            weight = n[one] * n[two] / (n[one] + n[two])
            key = group[one] * count + pair
            for at, values in enumerate((weight * c[one] / n[one], weight * c[two] / n[two], weight)):
                sums[at] += np.bincount(key, values, groups * count)
            for at, values in enumerate((np.ones(len(one)), c[one] + c[two])):
                plain[at] += np.bincount(pair, values, count)
        above, below, total = sums.reshape(3, groups, count)
        known = ((total > 0).sum(axis=0) >= _FEWEST_UNITS) & (above.sum(axis=0) > 0) & (below.sum(axis=0) > 0)
        above, below, total = (weights @ part for part in (above, below, total))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.log(below / above)
            # the information of binomial clicks on the log of their rate; with several clicks it may be above 1
            ends = [part / (1 - np.minimum(part / total, 0.99)) for part in (above, below)]
            weight = ends[0] * ends[1] / (ends[0] + ends[1])
        finite = np.isfinite(ratios)
        ratios, weight = np.where(finite, ratios, np.nan), np.where(finite, weight, 0.0)
        candidates, clicks = plain.astype(np.int64)
        return cls(upper, lower, ratios, weight, known, candidates, clicks)

    def joined(self, size: int) -> NDArray[np.bool_]:
        """(size - 1,) the places below the top one that pairs connect with it."""
        from scipy import sparse
        from scipy.sparse.csgraph import connected_components

        ends = (self.upper[self.known], self.lower[self.known])
        graph = sparse.coo_matrix((np.ones(len(ends[0])), ends), shape=(size, size))
        _, label = connected_components(graph, directed=False)
        joined: NDArray[np.bool_] = label[1:] == label[0]
        return joined

    def together(self, size: int) -> Floats:
        """(replicates, size - 1) the log propensities that fit all pairs best, weighted by their information."""
        graph = PairGraph(self.upper, self.lower, size)
        flow = graph.scatter(self.weight * np.where(self.weight > 0, self.ratios, 0.0))
        return graph.potentials(graph.laplacian(self.weight), flow)[:, 1:]


def _randomised(
    query: IntArray, place: IntArray, n: Floats, c: Floats, group: IntArray, weights: Floats, size: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """(replicates, size - 1) log(rate_k / rate_1), within queries that show both; and where it is known."""
    groups = weights.shape[1]
    found = np.full((len(weights), size - 1), np.nan)
    by_place = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place, minlength=size))[:-1])
    at_top = by_place[0]
    shown = np.bincount(query[at_top], n[at_top], int(query.max(initial=0)) + 1)
    for k, here in enumerate(by_place[1:]):
        there = np.bincount(query[here], n[here], len(shown))
        rates = []
        for cells, other in ((here, shown), (at_top, there)):
            own = query[cells]
            share = other[own] / (shown + there)[own]  # the weight of a query, over its impressions here
            clicks, seen = (weights @ np.bincount(group[cells], share * part[cells], groups) for part in (c, n))
            with np.errstate(divide="ignore", invalid="ignore"):
                rates.append(np.log(clicks / seen))
        with np.errstate(invalid="ignore"):
            found[:, k] = rates[0] - rates[1]
    found = np.where(np.isfinite(found), found, np.nan)
    return found, np.isfinite(found).any(axis=0)


def _errors(draws: Floats, known: NDArray[np.bool_]) -> list[float | None]:
    """The standard error of each column; None where too many replicates have no estimate."""
    usable = np.isfinite(draws)
    count = np.maximum(usable.sum(axis=0), 1)
    mean = np.where(usable, draws, 0.0).sum(axis=0) / count
    errors = np.sqrt(np.where(usable, (draws - mean) ** 2, 0.0).sum(axis=0) / count)
    kept = known & (usable.mean(axis=0) >= 1 - _LOST)
    return [float(error) if keep else None for error, keep in zip(errors, kept, strict=True)]


def _several(row: IntArray) -> NDArray[np.bool_]:
    """Of cells sorted by row, those whose row has more than one."""
    same = np.concatenate([[False], row[1:] == row[:-1], [False]]) if len(row) else np.zeros(1, dtype=bool)
    several: NDArray[np.bool_] = same[1:] | same[:-1]
    return several


def _gram(row: IntArray, place: IntArray, values: Floats, size: int) -> Floats:
    """The sum over rows of the products of their values at any two places."""
    from scipy import sparse

    if not len(row):
        return np.zeros((size, size))
    _, code = np.unique(row, return_inverse=True)
    table: Any = sparse.csr_matrix((values, (code, place)), shape=(int(code.max()) + 1, size))
    product: Floats = (table.T @ table).toarray()
    return product
