"""Cells as estimators add them up: of the first positions, in pairs of the same candidate, and pooled over segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.deconvolution import RateCounts
from cldrank.errors import UnidentifiableError, UsageError

Weighting = Literal["candidates", "impressions"]

MOST_COMPARED = 200  # positions that are compared pair by pair
FEWEST_GROUPS = 200
FEWEST_TESTED = 20  # queries (or candidates) resampled: fewer do not show the error of a pair of positions
_FEWEST_CLICKS = 10  # at each of two positions: below, the log of a ratio of clicks is far from normal
FEW_QUERIES = 50  # below, candidates are resampled instead: few queries say little about the spread between queries
_MOST_GROUPS = 2000
_ENTRIES = 4_000_000  # sums held at a time, of groups by pairs of positions


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of the first `size` positions, sorted by row and position.

    row, query            (cells,) int64: codes of the candidate and of the query, each together with the segment, since
                          only what was shown on the same surface is compared
    place                 (cells,) int64: the position, from 0
    impressions, clicks   (cells,) float64, weighted where the estimator has weights
    seen                  (cells,) float64: the impressions, not weighted
    group                 (cells,) int64: number of the group that is resampled together, below `n_groups`
    n_units, units        how many queries or candidates the groups hold, and which of the two
    """

    row: IntArray
    query: IntArray
    place: IntArray
    impressions: Floats
    clicks: Floats
    seen: Floats
    size: int
    group: IntArray
    n_groups: int
    n_units: int
    units: str
    n_segments: int = 1

    @classmethod
    def of(cls, clicks: ClickTable, depth: int | None, seed: int) -> Cells:
        """The cells of a table down to a depth (None: all positions), grouped at random into equal parts."""
        size = _depth(clicks, depth)
        used = (clicks.position <= size) & (clicks.impressions > 0)
        kept = slice(None) if used.all() else np.flatnonzero(used)
        row = clicks.row[kept]
        query = clicks.candidates.row_queries[row]
        few = int((np.bincount(query) > 0).sum()) < FEW_QUERIES  # cheaper than sorting them
        group, n_groups, n_units = deal(row if few else query, size, seed)
        if n_units < 2:
            raise UnidentifiableError("the log has only one candidate: nothing shows how far off an estimate may be.")
        impressions = clicks.impressions[kept].astype(np.float64)
        return cls(
            row=clicks.segment_row[kept],
            query=clicks.segment_query[kept],
            place=clicks.position[kept] - 1,
            impressions=impressions,
            clicks=clicks.clicks[kept].astype(np.float64),
            seen=impressions,
            size=size,
            group=group,
            n_groups=n_groups,
            n_units=n_units,
            units="candidates" if few else "queries",
            n_segments=clicks.n_segments,
        )

    @property
    def candidate(self) -> IntArray:
        """(cells,) the row of the dataset."""
        return self.row // self.n_segments

    def unweighted(self) -> Cells:
        """The same as they were counted."""
        return replace(self, impressions=self.seen, clicks=np.rint(self.clicks * self.seen / self.impressions))

    def chosen(self, which: NDArray[np.bool_]) -> Cells:
        """Some of the cells, in the same groups."""
        names, at = ("row", "query", "place", "impressions", "clicks", "seen", "group"), np.flatnonzero(which)
        return replace(self, **{name: getattr(self, name)[at] for name in names})

    def by_group(self, key: IntArray, values: Floats, width: int, cells: IntArray | None = None) -> Floats:
        """(groups, width): the sum of values by group and key; `cells` says which cells they are of."""
        group = self.group if cells is None else self.group[cells]
        sums: Floats = np.bincount(group * width + key, values, self.n_groups * width).astype(np.float64, copy=False)
        return sums.reshape(self.n_groups, width)

    def pairs(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Pairs of cells of a candidate on the same surface: upper, lower, and the number of their pair of places."""
        for distance in range(1, self.size):  # cells of a candidate lie side by side
            upper = np.flatnonzero(self.row[distance:] == self.row[:-distance])
            if not len(upper):
                return
            lower = upper + distance
            yield upper, lower, pair_number(self.place[upper], self.place[lower], self.size)

    def rates(self) -> Floats:
        """(size,) the click-through rate of each position."""
        shown = np.bincount(self.place, self.impressions, self.size)
        return np.asarray(np.bincount(self.place, self.clicks, self.size) / np.where(shown > 0, shown, 1.0))


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over S_kl, the candidates shown at both positions k < l, for every pair of positions.

    upper, lower                 (pairs,) int64: k and l, from 0, in order
    above, below                 (groups, pairs) the weighted click-through rates at k and at l
    total                        (groups, pairs) the weights
    candidates                   (pairs,) how many candidates
    clicks_upper, clicks_lower   (pairs,) their clicks at k and at l

    Weights of a candidate, with n impressions at k and m at l: n m / (n + m), which brings the least variance (Mantel
    and Haenszel 1959), or 1, as in Agarwal et al. (2019).
    """

    upper: IntArray
    lower: IntArray
    above: Floats
    below: Floats
    total: Floats
    candidates: IntArray
    clicks_upper: Floats
    clicks_lower: Floats

    @classmethod
    def of(cls, cells: Cells, weighting: Weighting = "impressions") -> PairSums:
        """Add up all pairs of cells of the same candidate."""
        upper, lower = np.triu_indices(cells.size, 1)
        grouped, plain = np.zeros((3, cells.n_groups, len(upper))), np.zeros((3, len(upper)))
        rate = cells.clicks / cells.impressions
        for first, second, pair in cells.pairs():
            n, m, ones = cells.impressions[first], cells.impressions[second], np.ones(len(first))
            weight = n * m / (n + m) if weighting == "impressions" else ones
            for at, values in enumerate((weight * rate[first], weight * rate[second], weight)):
                grouped[at] += cells.by_group(pair, values, len(upper), first)
            for at, values in enumerate((ones, cells.clicks[first], cells.clicks[second])):
                plain[at] += np.bincount(pair, values, len(upper))
        (above, below, total), (candidates, clicks_upper, clicks_lower) = grouped, plain
        return cls(upper, lower, above, below, total, candidates.astype(np.int64), clicks_upper, clicks_lower)

    @property
    def units(self) -> IntArray:
        """(pairs,) how many queries (or whatever is resampled) the candidates belong to, or groups of such."""
        return np.asarray((self.total > 0).sum(axis=0))

    def clicked_enough(self) -> NDArray[np.bool_]:
        """(pairs,) whether the log of their ratio of clicks is nearly normal, with an error that resampling shows."""
        return (np.minimum(self.clicks_upper, self.clicks_lower) >= _FEWEST_CLICKS) & (self.units >= FEWEST_TESTED)


def _depth(clicks: ClickTable, depth: int | None) -> int:
    """How many positions to look at; each must have been shown."""
    if not clicks.n_cells:
        raise UnidentifiableError("the log is empty: nothing was shown, so nothing is known about positions.")
    size = clicks.depth if depth is None else depth
    if size > clicks.depth:
        raise UsageError(f"`depth={size}` is too deep: nothing was shown below position {clicks.depth}.")
    missing = np.flatnonzero(np.bincount(clicks.position, minlength=size + 1)[1 : size + 1] == 0) + 1
    if len(missing):
        first = int(missing[0])
        reason = f"position {first} was never shown, so its propensity is unknown"
        left = f"`depth={first - 1}` estimates the positions above it" if first > 2 else "nothing is left to compare"
        raise UnidentifiableError(
            f"{reason}; {left}. If the log counts positions from another number, read it with `first_position`.",
            positions=tuple(missing.tolist()),
            depth=first - 1,
            reason=reason,
        )
    if size > MOST_COMPARED:
        reason = f"the log shows {size:,} positions, and at most {MOST_COMPARED} are compared pair by pair"
        raise UnidentifiableError(f"{reason}; set `depth`.", depth=MOST_COMPARED, reason=reason)
    if size < 2:
        raise UnidentifiableError("only one position was shown; there is nothing to compare it with.", depth=size)
    return size


def deal(unit: IntArray, positions: int, seed: int = 0) -> tuple[IntArray, int, int]:
    """Units dealt out at random to a bounded number of groups of equal size, or each a group if they are few.

    Gives the group of each entry, the number of groups and that of units. Resampling G random groups of queries has the
    spread of resampling queries, itself known to within 1/sqrt(2 G).
    """
    present = np.bincount(unit) > 0
    code = np.cumsum(present) - 1
    count = int(present.sum())
    pairs = max(positions * (positions - 1) // 2, 1)
    groups = min(count, _MOST_GROUPS, max(FEWEST_GROUPS, _ENTRIES // pairs))
    dealt = np.arange(count)
    if groups < count:
        dealt = np.random.default_rng([seed, 0]).permutation(count) % groups
    return dealt[code][unit], groups, count


@lru_cache(maxsize=4)
def draw_weights(n_groups: int, replicates: int, seed: int = 0) -> Floats:
    """(1 + replicates, groups): how often the log has each group, once, and each replicate, drawn with replacement.

    Recent weights are kept: all estimators of a log, and the tests of their fit, use the same.
    """
    weights = np.ones((1 + replicates, n_groups))
    weights[1:] = np.random.default_rng([seed, 1]).multinomial(n_groups, np.full(n_groups, 1 / n_groups), replicates)
    weights.flags.writeable = False
    return weights


def pair_number(upper: IntArray, lower: IntArray, size: int) -> IntArray:
    """The number of each pair of places (from 0) in the order of `np.triu_indices`."""
    return upper * size - upper * (upper + 1) // 2 + lower - upper - 1


@dataclass(frozen=True, eq=False)
class PooledCells:
    """The cells of a log added up over segments, sorted by candidate and position.

        c_s ~ Binomial(n_s, ρ_s r)                  for each segment s of the pages, at the same r
        Σ c_s ~ Binomial(Σ n_s, share ρ r),         share = Σ n_s ρ_s / (ρ Σ n_s)

    to a good approximation, and exactly where segments are examined alike.

    rho     the largest propensity of any segment at the position
    share   of it, what the pages of the cell have on average; 1 where all segments are alike
    of      (cells,) the pooled cell of each cell of the log

    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[1]], [7])
    >>> shown = {"row": [0, 0], "position": [2, 2], "impressions": [10, 30], "clicks": [3, 2]}
    >>> table = ClickTable.from_arrays(data, **shown, segment=["desktop", "phone"])
    >>> pooled = PooledCells.by(table, np.array([0.8, 0.4]))
    >>> pooled.impressions, pooled.clicks, pooled.rho, pooled.share, pooled.exposure
    (array([40]), array([5]), array([0.8]), array([0.625]), array([20.]))
    """

    position: IntArray
    impressions: IntArray
    clicks: IntArray
    rho: Floats
    share: Floats
    of: IntArray

    @classmethod
    def by(cls, clicks: ClickTable, rho: Floats) -> PooledCells:
        """The cells of a log, given the propensity of each."""
        of = cells_together(clicks)
        largest = np.zeros(clicks.depth + 1)
        np.maximum.at(largest, clicks.position, rho)
        n, relative = clicks.impressions.astype(np.float64), rho / largest[clicks.position]
        shown, clicked, examined = (np.bincount(of, part) for part in (n, clicks.clicks, n * relative))
        position = clicks.position[np.unique(of, return_index=True)[1]]
        counts = shown.astype(np.int64), clicked.astype(np.int64)
        return cls(position, *counts, largest[position], examined / shown, of)

    @property
    def exposure(self) -> Floats:
        """(pooled,) Σ n ρ: in how many impressions the candidate was examined there."""
        return np.asarray(self.impressions * self.share * self.rho)

    def expected_relevance(self, chosen: IntArray, level: IntArray | None = None) -> Floats:
        """(chosen,) the posterior mean of relevance of some cells, all at the same position; `level` of each."""
        rho = float(self.rho[chosen[0]])
        counts = RateCounts.of(self.clicks[chosen], self.impressions[chosen], self.share[chosen])
        return counts.expected(min(rho, 1.0), level) / rho


def cells_together(clicks: ClickTable) -> IntArray:
    """(cells,) numbers from 0 by candidate and position: cells with the same number differ only in their segment."""
    if clicks.n_segments == 1:
        return np.arange(clicks.n_cells)
    place = clicks.row * (clicks.depth + 1) + clicks.position
    return np.asarray(np.unique(place, return_inverse=True)[1].reshape(-1))
