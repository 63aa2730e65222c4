"""`ClickTable`: impressions and clicks by candidate and position, all that training needs from a click log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_whole
from cldrank.clicks.candidates import Candidates, check_same
from cldrank.clicks.cell_arrays import display_table, merged_cells, most_impressions, named_segments, segment_codes
from cldrank.clicks.cell_kind import CellKind
from cldrank.clicks.log.layout import refuse_for_cells
from cldrank.clicks.log.paths import LogFile, Paths, existing
from cldrank.clicks.log.values import DEEPEST
from cldrank.data.checks import LARGEST, whole_numbers
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, Spelling, UsageError, warn
from cldrank.wording import count


@dataclass(frozen=True, eq=False, repr=False)
class ClickTable:
    """Cells of a click log: how often each candidate was shown at each position, and clicked there.

    candidates    those of a dataset or, without one, all that the log names
    row           (cells,) int64: the candidate of each cell
    position      (cells,) int64, from 1: where it was shown
    impressions   (cells,) int64: how often, at least 1
    clicks        (cells,) int64: how many of those were clicked
    every_click   True if each of several clicks on one impression was counted; then clicks may exceed impressions
    sources       the log files that went into it, where they are known
    display       (rows, positions) float64: the known probability that a candidate is shown at a position, see
                  `with_display`; None where it is not known
    segment       (cells,) int64: the device, layout or other surface that each cell was shown on, as a code
    segment_names   what the codes stand for, in order; a log without segments has one, which has no name
    layout        what was found out about the log and decides its positions, such as {"grid_columns": 4}

    A candidate may have cells at several positions; one without any was never shown. Cells are sorted by row, segment
    and position, no two alike; nothing can be changed.

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
    sources: tuple[LogFile, ...] = ()
    display: NDArray[np.float64] | None = None
    segment: IntArray = None  # type: ignore[assignment]  # given None: all cells are of one segment
    segment_names: tuple[str, ...] = ("",)
    layout: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        row, position = whole_numbers(self.row, "row", 0), whole_numbers(self.position, "position", 1, DEEPEST)
        impressions, clicks = whole_numbers(self.impressions, "impressions", 0), whole_numbers(self.clicks, "clicks", 0)
        if not len(row) == len(position) == len(impressions) == len(clicks):
            raise DataError("row, position, impressions and clicks must have one entry per cell each.")
        if len(row) and row.max() >= self.candidates.n_rows:
            raise DataError(f"a cell names row {row.max()}, but there are {self.candidates.n_rows:,} candidates.")
        if not self.every_click and (clicks > impressions).any():
            cell = int(np.flatnonzero(clicks > impressions)[0])
            raise DataError(
                "row {} at position {} has {} clicks in {} impressions; an impression is clicked at most once, unless "
                "{} counts every click.",
                *(values[cell] for values in (row, position, clicks, impressions)),
                Spelling("every_click=True", "--every-click"),
            )
        for what, values in (("impressions", impressions), ("clicks", clicks)):
            if values.sum(dtype=np.float64) > LARGEST:
                raise DataError(f"the {what} add up to more than 2^62; no log is that large, so some are wrong.")
        segment, names = segment_codes(self.segment, tuple(self.segment_names), len(row))
        merged = merged_cells(row, segment, position, impressions, clicks, len(names))
        for key, value in zip(("row", "segment", "position", "impressions", "clicks"), merged, strict=True):
            value.flags.writeable = False
            object.__setattr__(self, key, value)
        if len(names) == 1:
            object.__setattr__(self, "segment", segment_codes(None, names, self.n_cells)[0])
        object.__setattr__(self, "segment_names", names)
        if self.display is not None and len(names) > 1:
            raise DataError("display probabilities are those of one policy, and the cells are of several segments.")
        if self.display is not None:
            object.__setattr__(self, "display", self._checked(self.display))

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
        segment: ArrayLike | None = None,
        every_click: bool = False,
    ) -> ClickTable:
        """A table from arrays with one entry per dataset row; position 0 means that the row was not shown.

        With `row`, one entry per cell instead: the dataset row of each, so that rows may have several positions.
        `segment` names the device or layout of each entry.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> ClickTable.from_arrays(data, row=[0, 0, 1], position=[1, 2, 2], impressions=[5, 1, 4], clicks=[3, 0, 1])
        ClickTable(1 query, 2 candidates, 2 shown at positions 1…2; 3 cells, 10 impressions, 4 clicks)
        """
        positions = whole_numbers(position, "position", 0, DEEPEST)
        if row is None and len(positions) != dataset.n_rows:
            raise DataError(
                f"position has {len(positions):,} entries for {dataset.n_rows:,} rows; it needs one entry per row "
                "(0 = not shown), or row= to say which rows the entries belong to."
            )
        rows = np.arange(dataset.n_rows) if row is None else whole_numbers(row, "row", 0)
        counts = [whole_numbers(impressions, "impressions", 0), whole_numbers(clicks, "clicks", 0)]
        entries: dict[str, Any] = {"row": rows, "impressions": counts[0], "clicks": counts[1]}
        entries |= {} if segment is None else {"segment": np.asarray(segment)}
        for what, values in entries.items():
            if len(values) != len(positions):
                raise DataError(f"{what} has {len(values):,} entries, position {len(positions):,}.")
        shown = positions > 0
        for what, values in zip(("impressions", "clicks"), counts, strict=True):
            if values[~shown].any():
                place = int(np.flatnonzero(~shown & (values > 0))[0])
                raise DataError(f"entry {place} has {what} but position 0, which means not shown.")
        cells = rows[shown], positions[shown], counts[0][shown], counts[1][shown]
        if segment is None:
            return cls(Candidates.of(dataset), *cells, every_click)
        named, names = named_segments(np.asarray(segment)[shown])
        return cls(Candidates.of(dataset), *cells, every_click, segment=named, segment_names=names)

    @classmethod
    def read(
        cls,
        path: Paths,
        dataset: RankingDataset | None = None,
        engine: Any = "duckdb",
        columns: Mapping[str, str] | None = None,
        last: str | None = None,
        until: date | str | None = None,
        **options: Any,
    ) -> ClickTable:
        """Read cells that `save` wrote, or aggregate a raw log of impressions (see `cldrank.clicks.aggregate`).

        Either may be in a frame (pandas, Polars, Arrow, …) in place of a file. `merge` knows a frame by its content,
        unless it is yet to be computed.

        With a dataset, cells are aligned to its rows; without one, the candidates are those that the file names.

        last, until   of a folder of days (see `cldrank.clicks.days`): the window, such as "28d", and its last day
        """
        from cldrank.clicks.cell_file import is_cells, load_cells
        from cldrank.clicks.days import DayFolder, refuse_window

        if DayFolder.is_one(path):
            refuse_for_cells(path, columns or options)
            return DayFolder(path).read(dataset, last=last, until=until)
        refuse_window(path, last, until)
        if is_cells(path):
            refuse_for_cells(existing(path)[0], columns or options)
            return load_cells(path, dataset)
        from cldrank.clicks.aggregate import aggregate

        done = aggregate(path, dataset, engine=engine, columns=columns, **options)
        if done.account.n_rejected:
            warn(CldrankWarning(f"of the log, {done.account}"))
        clicks: ClickTable = done.clicks
        return clicks

    def save(self, path: str | PathLike[str]) -> None:
        """Save the cells to a Parquet file: query_id, doc_id, position, impressions, clicks; segment, if they have."""
        from cldrank.clicks.cell_file import save_cells

        if self.display is not None:
            raise UsageError("a file of cells does not hold display probabilities; save with_display(None) instead.")
        save_cells(self, Path(path))

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
        return replace(self, display=None if probabilities is None else self._checked(probabilities))

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
        """For each query, how often a page of results was shown for it.

        That is the most impressions at any one position or, of several segments, the sum of theirs.
        """
        most = np.zeros(self.n_queries, dtype=np.int64)
        if not self.n_cells:
            return most
        segment, pages = most_impressions(self.segment_query, self.position, self.impressions)
        np.add.at(most, segment // self.n_segments, pages)
        return most

    @property
    def kind(self) -> CellKind:
        """How it was counted, which tables to be merged must have in common."""
        return CellKind(self.every_click, self.has_segments if self.n_cells else None, self.layout)

    # -- segments ------------------------------------------------------------------------------------------------

    @property
    def n_segments(self) -> int:
        """How many segments there are names for; 1 in a log without segments."""
        return len(self.segment_names)

    @property
    def has_segments(self) -> bool:
        """Whether the segments have names."""
        return self.segment_names != ("",)

    @property
    def segment_row(self) -> IntArray:
        """(cells,) a code of candidate and segment: only cells that share it can be compared by position."""
        return self.row if self.n_segments == 1 else self.row * self.n_segments + self.segment

    @property
    def segment_query(self) -> IntArray:
        """(cells,) a code of query and segment: the pages of a query in one segment."""
        query = self.candidates.row_queries[self.row]
        return query if self.n_segments == 1 else query * self.n_segments + self.segment

    @property
    def segment_position(self) -> IntArray:
        """(cells,) a code of segment and position: cells that share it are examined alike."""
        return self.position if self.n_segments == 1 else self.segment * (self.depth + 1) + self.position

    def as_segment(self, name: str) -> ClickTable:
        """The same cells, all of one segment of this name: to be merged with those of others."""
        return replace(self, segment=None, segment_names=(name,))  # type: ignore[arg-type]

    def by_segment(self) -> dict[str, ClickTable]:
        """The cells of each segment that has any, as tables of their own, by name.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> shown = {"row": [0, 0], "position": [1, 2], "impressions": [5, 1], "clicks": [3, 0]}
        >>> table = ClickTable.from_arrays(data, **shown, segment=["phone", "desktop"])
        >>> table.by_segment()["phone"]
        ClickTable(1 query, 2 candidates, 1 shown at positions 1…1; 1 cell, 5 impressions, 3 clicks; segment phone)
        """
        names = {int(code): self.segment_names[code] for code in np.unique(self.segment)}
        return {name: self.where(self.segment == code).as_segment(name) for code, name in names.items()}

    # -- others --------------------------------------------------------------------------------------------------

    def check_same(self, dataset: RankingDataset) -> None:
        """Raise DataError unless the candidates are the rows of this dataset."""
        check_same(self.candidates, dataset)

    def __len__(self) -> int:
        return self.n_queries

    def __deepcopy__(self, memo: object) -> ClickTable:
        return self  # nothing in it can be changed

    def __repr__(self) -> str:
        places = f" at positions {self.position.min()}…{self.depth}" if self.n_cells else ""
        word = "segments" if self.n_segments > 1 else "segment"
        named = f"; {word} {', '.join(self.segment_names)}" if self.has_segments else ""
        return (
            f"ClickTable({count(self.n_queries, 'query', 'queries')}, {count(self.candidates.n_rows, 'candidate')}, "
            f"{self.shown.sum():,} shown{places}; {count(self.n_cells, 'cell')}, "
            f"{count(self.impressions.sum(), 'impression')}, {count(self.clicks.sum(), 'click')}{named})"
        )

    def _repr_html_(self) -> str:
        from cldrank.clicks.clicks_view import clicks_view

        return clicks_view(self)

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
            self.segment[kept],
            self.segment_names,
            self.layout,
        )

    def split(self, fractions: float | Sequence[float], *, seed: int) -> list[ClickTable]:
        """Split at random by query: the same parts as `RankingDataset.split` with the same fractions and seed."""
        return [self[queries] for queries in segments.split_segments(self.n_queries, fractions, seed)]

    def first(self, depth: int) -> ClickTable:
        """The log of pages that end after `depth` positions: what was shown only below them counts as not shown.

        >>> data = RankingDataset.from_arrays([[1], [2], [3]], [7, 7, 7])
        >>> ClickTable.from_arrays(data, position=[2, 1, 3], impressions=[10] * 3, clicks=[1, 4, 2]).first(2)
        ClickTable(1 query, 3 candidates, 2 shown at positions 1…2; 2 cells, 20 impressions, 5 clicks)
        """
        check_whole("depth", depth, least=1)
        cut = None if self.display is None else self.display[:, :depth]
        return replace(self.where(self.position <= depth), display=cut)

    def where(self, kept: NDArray[np.bool_]) -> ClickTable:
        """Only the cells that a mask with one entry per cell keeps; all candidates stay.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> table = ClickTable.from_arrays(data, position=[2, 1], impressions=[10, 10], clicks=[1, 4])
        >>> table.where(table.clicks > 1)
        ClickTable(1 query, 2 candidates, 1 shown at positions 1…1; 1 cell, 10 impressions, 4 clicks)
        """
        mask = np.asarray(kept)
        if mask.dtype != bool or mask.shape != (self.n_cells,):
            raise UsageError(f"the mask needs True or False for each of {self.n_cells:,} cells.")
        return replace(
            self,
            row=self.row[mask],
            position=self.position[mask],
            impressions=self.impressions[mask],
            clicks=self.clicks[mask],
            segment=self.segment[mask],
        )

    def merge(self, other: ClickTable, *, again: bool = False) -> ClickTable:
        """Both logs together: counts of equal cells are added. Candidates that only one of them has are kept.

        Tables with a source and cells in common are refused, since the source would count twice, unless `again` asks
        for that. Without cells in common, as in two parts of a split, nothing can count twice. Tables with
        display probabilities are merged only if they agree on them. Cells of different segments stay apart.
        """
        return ClickTable.merged([self, other], again=again)

    @classmethod
    def merged(cls, tables: Sequence[ClickTable], *, again: bool = False) -> ClickTable:
        """Any number of logs together, as `merge` adds two; one pass over all cells, however many tables there are."""
        from cldrank.clicks.merging import merged_tables

        return merged_tables(tables, again)

    def _checked(self, probabilities: ArrayLike) -> NDArray[np.float64]:
        return display_table(probabilities, self.candidates.n_rows, self.row, self.position)

    def _by_row(self, values: IntArray) -> IntArray:
        totals = np.zeros(self.candidates.n_rows, dtype=np.int64)
        np.add.at(totals, self.row, values)
        return totals
