"""The posterior of relevance, given all that a log says about a candidate, with priors learned from the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cldrank._typing import Floats, IntArray
from cldrank.clicks.table import ClickTable
from cldrank.deconvolution import PRIOR_CANDIDATES, most_likely_mass, posterior_mass, unit_grid
from cldrank.methods.rating_quality import rated_relevance, rating_levels
from cldrank.propensity.segment_propensities import Curve, drawn_curves, slopes_and_bases

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_GRID = 200
_CURVES = 20  # drawn where the curve is uncertain
_STEPS = 100  # of EM: more would only sharpen the prior's peaks, and intervals would be too short
_MOST_GROUPS = 5_000  # that a prior is fitted to
_BLOCK = 1 << 13  # groups whose posteriors are in memory at once
_CERTAIN = 1e-12  # nothing is less probable, and no click or miss more than 1 minus this


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """Clicks and misses of the candidates that were shown, by slot: a position, of a segment where there are several.

    Candidates with the same clicks and misses at the same slots, rated alike, form a group, which is judged once.

    rows, group       (shown,) the candidates, and the group of each
    size, main_slot   (groups,) how many candidates are in each, and the slot where they were shown most often
    level             (groups,) that of their ratings; 0 without ratings
    slot_cell         (slots,) a cell at each slot, to look up its propensity
    clicked, missed   (groups, slots) sparse: clicks, and impressions without a click
    """

    rows: IntArray
    group: IntArray
    size: IntArray
    slot_cell: IntArray
    main_slot: IntArray
    level: IntArray
    clicked: csr_array
    missed: csr_array

    @classmethod
    def of(cls, clicks: ClickTable, level: IntArray | None = None) -> ClickCounts:
        """The counts of a log; `level` (rows,) is that of the rating of each candidate."""
        from scipy.sparse import csr_array

        rows = np.flatnonzero(clicks.shown)
        row = (np.cumsum(clicks.shown) - 1)[clicks.row]
        slot_cell, slot = _slots(clicks)
        levels = np.zeros(len(rows), dtype=np.int64) if level is None else level[rows]
        codes = _group_codes(row, slot, clicks.impressions, clicks.clicks)
        _, example, group, size = np.unique(
            codes * (levels.max(initial=0) + 1) + levels, return_index=True, return_inverse=True, return_counts=True
        )
        is_example = np.zeros(len(rows), dtype=bool)
        is_example[example] = True
        cells = np.flatnonzero(is_example[row])
        owner, slot = group[row[cells]], slot[cells]
        impressions, clicked = clicks.impressions[cells], clicks.clicks[cells]
        most_shown = np.lexsort((slot, -impressions, owner))
        first = most_shown[np.flatnonzero(np.diff(owner[most_shown], prepend=-1))]
        hits, misses = (
            csr_array((counts.astype(np.float64), (owner, slot)), shape=(len(size), len(slot_cell)))
            for counts in (clicked, impressions - clicked)
        )
        return cls(rows, group, size, slot_cell, slot[first], levels[example], hits, misses)

    def likelihood(self, groups: IntArray, click_probability: Floats) -> Floats:
        """(groups, grid) of all clicks and misses of some groups, over the largest of each.

        Where the (slots, grid) probability of a click lies beyond 0 or 1, a document of that relevance cannot have
        been there.
        """
        outside = (click_probability < -_CERTAIN) | (click_probability > 1 + _CERTAIN)
        certain = np.clip(click_probability, _CERTAIN, 1 - _CERTAIN)
        hit, miss = (np.where(outside, np.log(_CERTAIN), logs) for logs in (np.log(certain), np.log1p(-certain)))
        logs = self.clicked[groups] @ hit + self.missed[groups] @ miss
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))

    def click_probability(self, clicks: ClickTable, curve: Curve, grid: Floats) -> Floats:
        """(slots, grid) the probability of a click at each slot, at each relevance of a grid."""
        slope, base = slopes_and_bases(curve, clicks)
        return np.asarray(slope[self.slot_cell, None] * grid + base[self.slot_cell, None])


@dataclass(eq=False)
class RelevancePosterior:
    """Clicks as binomial draws, c ~ Binomial(n, slope_k r + base_k), with an empirical prior of r for each slot.

        P(r | all cells of a candidate) ∝ prior(r) Π_k p_k(r)^c_k (1 - p_k(r))^(n_k - c_k)

    Candidates that were mostly shown at the same slot share a prior: production's order is evidence. It is the
    distribution of relevance that makes all their clicks, at whatever slot, most likely, with a prior common to all
    slots counting as 20 more candidates, and that prior likewise with the uniform distribution. Where ratings agree
    with clicks, those of a slot that are rated alike share a prior, and that of the slot counts as 20 more.

    An estimated curve is uncertain: then the interval is that of the mean of the posteriors under curves that might
    have been estimated instead, each with its own priors.
    """

    clicks: ClickTable
    curve: Curve
    seed: int = 0

    def __post_init__(self) -> None:
        self.grid = unit_grid(_GRID)  # of relevance, from 0 to 1
        self.agreements, relevance = rated_relevance(self.clicks, self.curve)
        self.counts = ClickCounts.of(self.clicks, rating_levels(relevance))

    def posteriors(self) -> Iterator[tuple[IntArray, Floats, Floats]]:
        """Block by block: groups of candidates, and their (groups, grid) posteriors, under the curve and under others.

        Where the curve is uncertain, the latter are means over curves drawn from its distribution.
        """
        tables = [
            self.counts.click_probability(self.clicks, curve, self.grid)
            for curve in (self.curve, *drawn_curves(self.curve, _CURVES, self.seed))
        ]
        priors = [self._priors(table) for table in tables]
        for start in range(0, len(self.counts.size), _BLOCK):
            block = np.arange(start, min(start + _BLOCK, len(self.counts.size)))
            slot, level = self.counts.main_slot[block], self.counts.level[block]
            own, *others = (
                posterior_mass(self.counts.likelihood(block, table), prior[slot, level])
                for table, prior in zip(tables, priors, strict=True)
            )
            yield block, own, np.mean(others, axis=0) if others else own

    def interval(self, posterior: Floats, confidence: float) -> tuple[Floats, Floats]:
        """The ends of the equal-tailed interval, rounded outwards to the edges between points of the grid."""
        edges = np.concatenate([[0.0], (self.grid[1:] + self.grid[:-1]) / 2, [1.0]])
        running = np.cumsum(posterior, axis=1)
        tail = (1 - confidence) / 2
        low, high = (np.minimum((running < end).sum(axis=1), _GRID - 1) for end in (tail, 1 - tail))
        return edges[low], edges[high + 1]

    def _priors(self, table: Floats) -> Floats:
        """(slots, levels, grid) the prior of candidates that were mostly shown at each slot, and rated alike."""
        main_slot, level = self.counts.main_slot, self.counts.level
        # by clicks, then by misses: an order that does not depend on that of rows
        order = np.lexsort((self.counts.missed.sum(axis=1), self.counts.clicked.sum(axis=1)))
        common = self._fitted(order, table, np.full(_GRID, PRIOR_CANDIDATES / _GRID))
        levels = np.unique(level)
        priors = np.tile(common, (len(table), int(levels.max()) + 1, 1))
        for slot in np.unique(main_slot):
            alike = order[main_slot[order] == slot]
            priors[slot] = self._fitted(alike, table, PRIOR_CANDIDATES * common)
            for each in levels if len(levels) > 1 else ():
                rated = alike[level[alike] == each]
                if len(rated):
                    priors[slot, each] = self._fitted(rated, table, PRIOR_CANDIDATES * priors[slot, each])
        return priors

    def _fitted(self, groups: IntArray, table: Floats, known: Floats) -> Floats:
        """The prior of some groups, in their order; of very many, from every second candidate, third or so."""
        member = np.repeat(np.arange(len(groups)), self.counts.size[groups])
        step = 1 if len(groups) <= _MOST_GROUPS else -(-len(member) // _MOST_GROUPS)
        weight = np.bincount(member[::step], minlength=len(groups))
        used = np.flatnonzero(weight)
        number = weight[used] * (len(member) / weight.sum())
        return most_likely_mass(self.counts.likelihood(groups[used], table), number, known=known, steps=_STEPS)


def _slots(clicks: ClickTable) -> tuple[IntArray, IntArray]:
    """(slots,) the first cell at each position of each segment, and (cells,) the slot of each cell."""
    number = clicks.segment * (clicks.depth + 1) + clicks.position
    first = np.full(number.max() + 1, -1)
    first[number[::-1]] = np.arange(len(number))[::-1]
    used = first >= 0
    return first[used], (np.cumsum(used) - 1)[number]


def _group_codes(row: IntArray, slot: IntArray, impressions: IntArray, clicks: IntArray) -> IntArray:
    """(shown,) a number for all cells of each candidate together, the same for those whose cells are the same.

    row   (cells,) the candidate of each cell, rising from 0 to as many as were shown; its slots rise as well
    """
    order = np.lexsort([_short(values) for values in (clicks, impressions, slot)])
    new = np.zeros(len(order), dtype=bool)
    for values in (slot, impressions, clicks):
        new |= np.diff(values[order], prepend=-1) != 0
    cell_code = np.empty(len(order), dtype=np.int64)
    cell_code[order] = np.cumsum(new)
    length = np.bincount(row)
    start = np.cumsum(length) - length
    code = np.zeros(len(length), dtype=np.int64)
    for step in range(int(length.max(initial=0))):  # candidates of few cells keep the number that they have
        further = np.flatnonzero(length > step)
        pair = code[further] * (len(order) + 1) + cell_code[start[further] + step]
        code[further] = code.max() + 1 + np.unique(pair, return_inverse=True)[1]
    return code


def _short(values: IntArray) -> NDArray[np.integer]:
    """The same numbers in 16 bits where these are enough: NumPy sorts them several times as fast."""
    return values.astype(np.uint16) if values.max(initial=0) < 1 << 16 else values
