"""From a click table to weighted rows: what was seen of each candidate, however many sessions saw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, UsageError
from cldrank.models.linear.least_squares import Rows
from cldrank.propensity import Propensities
from cldrank.propensity.checks.refuted import warn_if_refuted

Target = Literal["expected", "clicks"]
TARGETS: tuple[Target, ...] = ("expected", "clicks")


@dataclass(frozen=True, eq=False)
class Observations:
    """The candidates of all queries that were displayed, and what was seen of them.

    rows       (rows,) the dataset row of each candidate, rising
    queries    (rows,) the query of each
    absent     (rows,) float64: the weight of a candidate that was not shown, the impressions of its query; else 0
    shown      (shown,) which of the rows were shown, rising
    offsets    (shown + 1,) entries offsets[i] … offsets[i+1]-1 are those of shown row i
    target     (entries,) float64: relevance as the clicks tell it
    weight     (entries,) float64: how many impressions say so
    spread     (entries,) float64: the variance of the clicks' own targets around `target`
    """

    rows: IntArray
    queries: IntArray
    absent: NDArray[np.float64]
    shown: IntArray
    offsets: IntArray
    target: NDArray[np.float64]
    weight: NDArray[np.float64]
    spread: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The weight of all rows, W."""
        return float(self.absent.sum() + self.weight.sum())

    @property
    def n_rows(self) -> int:
        """How many weighted rows there are: the candidates not shown, and the entries of those shown."""
        return len(self.absent) - len(self.shown) + len(self.target)

    def by_row(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Of each shown row: the mean target of its impressions, their number, and the variance around that mean."""
        weight = segments.sums_of_segments(self.weight, self.offsets)
        mean = segments.sums_of_segments(self.weight * self.target, self.offsets) / weight
        away = self.target - np.repeat(mean, np.diff(self.offsets))
        return mean, weight, segments.sums_of_segments(self.weight * (self.spread + away**2), self.offsets) / weight

    @property
    def all_shown(self) -> bool:
        """Whether nothing is left that was not shown."""
        return not self.absent.any()


def observe(
    dataset: RankingDataset, clicks: ClickTable, propensities: Propensities | None = None, target: Target = "expected"
) -> Observations:
    """The weighted rows of a click table; without propensities, all positions count as examined.

        expected:  one entry per cell, target c / (n ρ), weight n
        clicks:    two entries per cell, target 1/ρ with weight c and target 0 with weight n - c

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> table = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> found = observe(data, table, Propensities.power(1, 2))
    >>> found.target, found.weight, found.absent
    (array([0.2, 0.4]), array([10., 10.]), array([ 0., 0., 10.]))
    """
    pages = clicks.query_impressions
    queries = dataset.row_queries
    rows = np.flatnonzero(pages[queries] > 0)
    shown_rows, first = np.unique(clicks.row, return_index=True)
    absent = pages[queries[rows]].astype(np.float64)
    shown = np.searchsorted(rows, shown_rows)
    absent[shown] = 0.0
    inverse = np.ones(clicks.n_cells) if propensities is None else 1 / propensities.at(clicks.position)
    n, c = clicks.impressions.astype(np.float64), clicks.clicks.astype(np.float64)
    offsets = np.append(first, clicks.n_cells).astype(np.int64)
    if target == "expected":
        rate = c / n
        spread = np.maximum(rate * (1 - rate), 0.0) * inverse**2
        return Observations(rows, queries[rows], absent, shown, offsets, rate * inverse, n, spread)
    pair = np.stack([c, n - c], axis=1).ravel()
    targets = np.stack([inverse, np.zeros_like(inverse)], axis=1).ravel()
    kept = pair > 0
    cell_offsets = segments.from_lengths(kept.reshape(-1, 2).sum(axis=1))
    nothing = np.zeros(int(kept.sum()))
    return Observations(rows, queries[rows], absent, shown, cell_offsets[offsets], targets[kept], pair[kept], nothing)


def regression_rows(dataset: RankingDataset, clicks: ClickTable, propensities: Propensities | None) -> Rows:
    """The shown candidates, each once, for a regression of their targets."""
    observed = observe(dataset, clicks, propensities)
    mean, weight, spread = observed.by_row()
    return Rows(observed.rows[observed.shown], mean, weight, spread, observed.queries[observed.shown])


def check_clicks(clicks: Any, dataset: RankingDataset, user: str, target: str = "expected") -> ClickTable:
    """Refuse what is not a click table of this dataset with anything in it."""
    if not isinstance(clicks, ClickTable):
        raise UsageError(
            f"{user} learns from a ClickTable, not from a {type(clicks).__name__}; "
            "read one with ClickTable.read(path, dataset)."
        )
    clicks.check_same(dataset)
    if not clicks.n_cells:
        raise DataError(f"{clicks!r} has no impressions; {user} needs candidates that were shown.")
    if not clicks.clicks.any():
        raise DataError(f"{clicks!r} has no clicks; nothing tells {user} what is relevant.")
    if (clicks.impressions < 1).any():
        raise DataError("a cell has clicks but no impressions; aggregate the log with its impressions.")
    if target not in TARGETS:
        raise UsageError(f"target must be 'expected' or 'clicks', not {target!r}.")
    if target == "clicks" and (clicks.clicks > clicks.impressions).any():
        raise DataError(
            "target='clicks' needs at most one click per impression; count first clicks, or use 'expected'."
        )
    return clicks


def check_propensities(propensities: Any, clicks: ClickTable, user: str, clip: Any = None) -> Propensities:
    """The propensities, clipped if asked to, that cover all positions of the table."""
    if not isinstance(propensities, Propensities):
        raise UsageError(
            f"{user} needs Propensities, not {propensities!r}; known ones are made by Propensities.power(eta, k)."
        )
    propensities.at(np.array([clicks.depth]))
    number = isinstance(clip, int | float | np.integer | np.floating) and not isinstance(clip, bool)
    if clip is not None and not (number and 0 < clip <= 1):
        raise UsageError(f"clip must be a number above 0 and up to 1, or None, not {clip!r}.")
    used = propensities if clip is None else propensities.clip(float(clip))
    warn_if_refuted(used, clicks, stacklevel=3)
    return used
