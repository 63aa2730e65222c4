"""`ClickTable`: impressions and clicks by candidate and position, all that training ever needs of a click log."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.candidates import Candidates, check_same
from cldrank.clicks.log import DEEPEST
from cldrank.clicks.sources import Source, in_both, named
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError
from cldrank.parameters import check_whole, shortened

_MOST = 1 << 62  # of impressions and clicks, one by one and in all: sums stay clear of overflow
_ROUNDING = 1e-6  # by which display probabilities may add up to more than 1


@dataclass(frozen=True, eq=False, repr=False)
class ClickTable:
    """Cells of a click log: how often each candidate was shown at each position, and clicked there.

    candidates    whose candidates these are: those of a dataset, or, without one, all that the log names
    row           (cells,) int64: the candidate of each cell
    position      (cells,) int64, from 1: where it was shown
    impressions   (cells,) int64: how often, at least 1
    clicks        (cells,) int64: how many of those were clicked
    every_click   True if several clicks on one impression were counted each; then clicks may exceed impressions
    sources       the log files that went into it, where they are known
    display       (rows, positions) float64: the known probability that a candidate is shown at a position, see
                  `with_display`; None where it is not known

    A candidate may have cells at several positions; one without any was never shown. Cells are sorted by row and
    position, no two alike; nothing can be changed.

    >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
    >>> table = ClickTable.from_arrays(data, position=[2, 1, 0], impressions=[10, 10, 0], clicks=[1, 4, 0])
    >>> table
    ClickTable(1 query, 3 candidates, 2 shown at positions 1…2; 2 cells, 20 impressions, 5 clicks)
    >>> table.shown
    array([ True,  True, False])
    """

    candidates: Candidates
    row: IntArray
    position: IntArray
    impressions: IntArray
    clicks: IntArray
    every_click: bool = False
    sources: tuple[Source, ...] = ()
    display: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        row, position = _counts(self.row, "row", 0), _counts(self.position, "position", 1, DEEPEST)
        impressions, clicks = _counts(self.impressions, "impressions", 0), _counts(self.clicks, "clicks", 0)
        if not len(row) == len(position) == len(impressions) == len(clicks):
            raise DataError("row, position, impressions and clicks must have one entry per cell each.")
        if len(row) and row.max() >= self.candidates.n_rows:
            raise DataError(f"a cell names row {row.max()}, but there are {self.candidates.n_rows:,} candidates.")
        if not self.every_click and (clicks > impressions).any():
            cell = int(np.flatnonzero(clicks > impressions)[0])
            raise DataError(
                f"row {row[cell]} at position {position[cell]} has {clicks[cell]} clicks in {impressions[cell]} "
                "impressions; an impression is clicked at most once (or say every_click=True)."
            )
        for what, values in (("impressions", impressions), ("clicks", clicks)):
            if values.sum(dtype=np.float64) > _MOST:
                raise DataError(f"the {what} add up to more than 2^62; no log is as large, so some are wrong.")
        merged = _merged(row, position, impressions, clicks)
        for key, value in zip(("row", "position", "impressions", "clicks"), merged, strict=True):
            value.flags.writeable = False
            object.__setattr__(self, key, value)
        if self.display is not None:
            object.__setattr__(self, "display", _display(self.display, self))

    # -- making one ----------------------------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        dataset: RankingDataset,
        *,
        position: ArrayLike,
        impressions: ArrayLike,
        clicks: ArrayLike,
        row: ArrayLike | None = None,
        every_click: bool = False,
    ) -> ClickTable:
        """A table from arrays with one entry a dataset row, position 0 where the row was not shown.

        With `row`, one entry per cell instead: the dataset row it belongs to, so that rows may have several positions.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> ClickTable.from_arrays(data, row=[0, 0, 1], position=[1, 2, 2], impressions=[5, 1, 4], clicks=[3, 0, 1])
        ClickTable(1 query, 2 candidates, 2 shown at positions 1…2; 3 cells, 10 impressions, 4 clicks)
        """
        positions = _counts(position, "position", 0, DEEPEST)
        if row is None and len(positions) != dataset.n_rows:
            raise DataError(
                f"position has {len(positions):,} entries for {dataset.n_rows:,} rows; it needs one entry per row "
                "(0 = not shown), or say with row= which rows the entries belong to."
            )
        rows = np.arange(dataset.n_rows) if row is None else _counts(row, "row", 0)
        counts = [_counts(impressions, "impressions", 0), _counts(clicks, "clicks", 0)]
        for what, values in zip(("row", "impressions", "clicks"), (rows, *counts), strict=True):
            if len(values) != len(positions):
                raise DataError(f"{what} has {len(values):,} entries, position {len(positions):,}.")
        shown = positions > 0
        for what, values in zip(("impressions", "clicks"), counts, strict=True):
            if values[~shown].any():
                place = int(np.flatnonzero(~shown & (values > 0))[0])
                raise DataError(f"entry {place} has {what} but position 0, which means not shown.")
        return cls(
            Candidates.of(dataset), rows[shown], positions[shown], counts[0][shown], counts[1][shown], every_click
        )

    @classmethod
    def read(
        cls,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        dataset: RankingDataset | None = None,
        engine: Any = "duckdb",
        columns: Mapping[str, str] | None = None,
        **options: Any,
    ) -> ClickTable:
        """Read cells that `write` wrote, or aggregate a raw log of impressions (see `cldrank.clicks.aggregate`).

        With a dataset, cells are aligned to its rows; without one, the candidates are those that the file names.
        """
        from cldrank.clicks.cells import is_cells, read_cells

        if is_cells(path):
            if columns or options:
                raise UsageError(f"{path} holds cells already; columns and options are for raw logs.")
            return read_cells(path, dataset)
        from cldrank.clicks.aggregate import aggregate

        done = aggregate(path, dataset, engine=engine, columns=columns, **options)
        if done.report.n_rejected:
            warnings.warn(f"of the log, {done.report}", CldrankWarning, stacklevel=2)
        clicks: ClickTable = done.clicks
        return clicks

    def write(self, path: str | PathLike[str]) -> None:
        """Write the cells to a Parquet file: query_id, doc_id, position, impressions, clicks."""
        from cldrank.clicks.cells import write_cells

        if self.display is not None:
            raise UsageError("a file of cells does not hold display probabilities; save with_display(None) instead.")
        write_cells(self, Path(path))

    def with_display(self, probabilities: ArrayLike | None) -> ClickTable:
        """The same log with known display probabilities, which a policy that draws its pages can state.

        One row per candidate and one column per position: P(candidate is shown at the position), given that its query
        is. They must not contradict the log. None takes them off.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> table = ClickTable.from_arrays(data, position=[1, 0], impressions=[10, 0], clicks=[4, 0])
        >>> table.with_display([[0.9], [0.1]]).display
        array([[0.9],
               [0.1]])
        """
        return replace(self, display=None if probabilities is None else _display(probabilities, self))

    # -- looking at it -------------------------------------------------------------------------------------------

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return len(self.row)

    @property
    def n_queries(self) -> int:
        """The number of queries, shown or not."""
        return self.candidates.n_queries

    @property
    def depth(self) -> int:
        """The lowest position at which anything was shown; 0 if nothing was."""
        return int(self.position.max(initial=0))

    @property
    def shown(self) -> NDArray[np.bool_]:
        """For each candidate, whether it was ever shown."""
        return self.row_impressions > 0

    @property
    def row_impressions(self) -> IntArray:
        """For each candidate, how often it was shown, at any position."""
        return self._by_row(self.impressions)

    @property
    def row_clicks(self) -> IntArray:
        """For each candidate, its clicks at any position."""
        return self._by_row(self.clicks)

    @property
    def query_impressions(self) -> IntArray:
        """For each query, how often a page of results was shown for it: the most impressions at any one position."""
        if not self.n_cells:
            return np.zeros(self.n_queries, dtype=np.int64)
        query = self.candidates.row_queries[self.row]
        places, inverse = np.unique(query * (self.depth + 1) + self.position, return_inverse=True)
        pages = np.zeros(len(places), dtype=np.int64)
        np.add.at(pages, inverse, self.impressions)
        most = np.zeros(self.n_queries, dtype=np.int64)
        np.maximum.at(most, places // (self.depth + 1), pages)
        return most

    def check_same(self, dataset: RankingDataset) -> None:
        """Raise DataError unless the candidates are the rows of this dataset."""
        check_same(self.candidates, dataset)

    def __len__(self) -> int:
        return self.n_queries

    def __repr__(self) -> str:
        queries, candidates = self.n_queries, self.candidates.n_rows
        shown = int(self.shown.sum())
        places = f" at positions {self.position.min()}…{self.depth}" if self.n_cells else ""
        return (
            f"ClickTable({queries:,} {'query' if queries == 1 else 'queries'}, "
            f"{candidates:,} candidate{'' if candidates == 1 else 's'}, {shown:,} shown{places}; "
            f"{self.n_cells:,} cell{'' if self.n_cells == 1 else 's'}, {self.impressions.sum():,} impressions, "
            f"{self.clicks.sum():,} clicks)"
        )

    # -- parts and sums ------------------------------------------------------------------------------------------

    def __getitem__(self, queries: int | slice | ArrayLike) -> ClickTable:
        """The cells of some queries, chosen as in a `RankingDataset`, so that both stay aligned."""
        chosen: IntArray = np.atleast_1d(
            np.arange(self.n_queries)[np.asarray(queries) if not isinstance(queries, slice) else queries]
        )
        candidates, rows = self.candidates.select(chosen)
        place = np.full(self.candidates.n_rows, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.row] >= 0
        return ClickTable(
            candidates,
            place[self.row[kept]],
            self.position[kept],
            self.impressions[kept],
            self.clicks[kept],
            self.every_click,
            self.sources,
            None if self.display is None else self.display[rows],
        )

    def split(self, fractions: float | Sequence[float], *, seed: int) -> list[ClickTable]:
        """Split at random by query: the same parts as `RankingDataset.split` with the same fractions and seed."""
        return [self[queries] for queries in segments.split_segments(self.n_queries, fractions, seed)]

    def first(self, depth: int) -> ClickTable:
        """The log of pages that end after so many positions: what was shown only below them counts as not shown.

        >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
        >>> ClickTable.from_arrays(data, position=[2, 1, 3], impressions=[10] * 3, clicks=[1, 4, 2]).first(2)
        ClickTable(1 query, 3 candidates, 2 shown at positions 1…2; 2 cells, 20 impressions, 5 clicks)
        """
        check_whole("depth", depth, least=1)
        cut = None if self.display is None else self.display[:, :depth]
        return replace(self.where(self.position <= depth), display=cut)

    def where(self, kept: NDArray[np.bool_]) -> ClickTable:
        """Only the cells that a mask, one entry per cell, tells to keep; the candidates stay all.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> table = ClickTable.from_arrays(data, position=[2, 1], impressions=[10, 10], clicks=[1, 4])
        >>> table.where(table.clicks > 1)
        ClickTable(1 query, 2 candidates, 1 shown at positions 1…1; 1 cell, 10 impressions, 4 clicks)
        """
        mask = np.asarray(kept)
        if mask.dtype != bool or mask.shape != (self.n_cells,):
            raise UsageError(f"a mask of {self.n_cells:,} cells is {self.n_cells:,} times True or False.")
        return ClickTable(
            self.candidates,
            self.row[mask],
            self.position[mask],
            self.impressions[mask],
            self.clicks[mask],
            self.every_click,
            self.sources,
            self.display,
        )

    def merge(self, other: ClickTable, *, again: bool = False) -> ClickTable:
        """Both logs together: counts of equal cells are added. Candidates that only one of them knows are kept.

        Tables that have a source and cells in common are refused, since the source would count twice, unless `again`
        says that it shall. Without cells in common, as in two parts of a split, nothing can count twice. Tables with
        display probabilities are merged only if they agree on them.
        """
        if self.every_click != other.every_click:
            raise DataError("one table counts every click, the other one click per impression; they cannot be merged.")
        candidates = self.candidates
        mine, theirs = self.row, other.row
        if not candidates.equals(other.candidates):
            candidates = self.candidates.joined(other.candidates)
            mine = candidates.find(*_ids(self))
            theirs = candidates.find(*_ids(other))
        _check_same_display(self, other)
        common = in_both(self.sources, other.sources)
        if common and not again:
            span = DEEPEST + 1
            if np.isin(theirs * span + other.position, mine * span + self.position).any():
                raise DataError(
                    f"{named(common)} went into both and would be counted twice; add only what is new, or say "
                    "again=True (`cldrank clicks aggregate --again`) if that is meant."
                )
        fresh = tuple(source for source in other.sources if source not in common)
        return ClickTable(
            candidates,
            np.concatenate([mine, theirs]),
            np.concatenate([self.position, other.position]),
            np.concatenate([self.impressions, other.impressions]),
            np.concatenate([self.clicks, other.clicks]),
            self.every_click,
            (*self.sources, *fresh),
            self.display,
        )

    def _by_row(self, values: IntArray) -> IntArray:
        totals = np.zeros(self.candidates.n_rows, dtype=np.int64)
        np.add.at(totals, self.row, values)
        return totals


def _display(probabilities: Any, clicks: ClickTable) -> NDArray[np.float64]:
    """Display probabilities that are probabilities and do not contradict the log."""
    try:
        table = np.array(probabilities, dtype=np.float64)
    except (ValueError, TypeError):
        raise DataError("display must be a table of numbers, one row per candidate.") from None
    rows, depth = clicks.candidates.n_rows, clicks.depth
    if table.ndim != 2 or len(table) != rows or table.shape[1] < depth:
        raise DataError(
            f"display has shape {table.shape}; it needs one row for each of {rows:,} candidates and one column per "
            f"position, at least {depth}."
        )
    with np.errstate(invalid="ignore"):  # inf - inf
        good = (np.isfinite(table) & (table >= 0)).all(axis=1) & (table.sum(axis=1) <= 1 + _ROUNDING)
    if not good.all():
        at = int(np.flatnonzero(~good)[0])
        raise DataError(
            f"row {at} of display, {shortened(table[at].tolist())}, does not hold probabilities that add up to at "
            "most 1."
        )
    denied = np.flatnonzero(table[clicks.row, clicks.position - 1] == 0)
    if len(denied):
        row, position = clicks.row[denied[0]], clicks.position[denied[0]]
        raise DataError(f"row {row} was shown at position {position}, where display says it cannot be.")
    table.flags.writeable = False
    return table


def _check_same_display(one: ClickTable, other: ClickTable) -> None:
    if one.display is None and other.display is None:
        return
    if (
        one.display is None
        or other.display is None
        or not one.candidates.equals(other.candidates)
        or not np.array_equal(one.display, other.display)
    ):
        raise DataError(
            "the tables differ in their display probabilities; merge them without, and give those of the merged log "
            "by with_display."
        )


def _ids(table: ClickTable) -> tuple[NDArray[Any], NDArray[Any]]:
    """The query and document id of each cell."""
    candidates = table.candidates
    return candidates.query_ids[candidates.row_queries[table.row]], candidates.doc_ids[table.row]


def _counts(values: ArrayLike, what: str, least: int, most: int = _MOST) -> IntArray:
    """Whole numbers from `least` to `most`, as int64."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):  # lists of several lengths
        raise DataError(f"{what} must be a flat array of whole numbers.") from None
    if array.ndim != 1:
        raise DataError(f"{what} must be a flat array, not one of shape {array.shape}.")
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} must be whole numbers, not {array.dtype}.")
    if array.dtype.kind in "bf":
        array = array.astype(np.float64)
    good = (array >= least) & (array <= most) & (array == np.rint(array))  # before the cast, which wraps around
    if not good.all():
        place, limit = int(np.flatnonzero(~good)[0]), "2^62" if most == _MOST else f"{most:,}"
        raise DataError(
            f"entry {place} of {what} is {array[place]}; it must be a whole number from {least} to {limit}."
        )
    return array.astype(np.int64)


def _merged(row: IntArray, position: IntArray, impressions: IntArray, clicks: IntArray) -> list[IntArray]:
    """Cells sorted by row and position, equal ones added up, empty ones dropped."""
    kept = (impressions > 0) | (clicks > 0)
    row, position, impressions, clicks = row[kept], position[kept], impressions[kept], clicks[kept]
    key = row * (position.max(initial=0) + 1) + position
    if not (np.diff(key) > 0).all():
        order = np.argsort(key, kind="stable")
        row, position, impressions, clicks, key = (
            values[order] for values in (row, position, impressions, clicks, key)
        )
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        row, position = row[starts], position[starts]
        impressions, clicks = np.add.reduceat(impressions, starts), np.add.reduceat(clicks, starts)
    return [np.array(values) for values in (row, position, impressions, clicks)]
