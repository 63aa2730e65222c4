"""`ClickTable`: impressions and clicks by candidate and position, all that training needs from a click log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank import segments
from cldrank._typing import Floats, IntArray
from cldrank.arguments import check_whole, shortened
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.contexts import LAST_CLICK, Contexts, added_up, one_segment
from cldrank.clicks.events import CLICK, checked_weights, event_column, events_among, is_event, squares_of, value_of
from cldrank.clicks.log.layout import DEEPEST, NO_SEGMENT, SEGMENT, refuse_for_cells
from cldrank.clicks.log.log_files import LogFile, in_both, names_of
from cldrank.data.checks import LARGEST_WHOLE, chosen_queries, whole_numbers
from cldrank.data.dataset import RankingDataset
from cldrank.errors import CldrankWarning, DataError, UsageError, warn
from cldrank.wording import count, listed

if TYPE_CHECKING:
    import pyarrow as pa

    from cldrank.clicks.ratings import Ratings

_CELLS = ("row", "segment", "position", "impressions", "clicks")
_ROUNDING = 1e-6  # by which display probabilities may add up to more than 1


@dataclass(frozen=True, eq=False, repr=False)
class ClickTable:
    """Cells of a click log: how often each candidate was shown at each position, and clicked there.

    candidates    those of a dataset or, without a dataset, all that the log names
    row           (cells,) int64: the candidate of each cell
    position      (cells,) int64, from 1: where it was shown
    impressions   (cells,) int64: how often, at least 1
    clicks        (cells,) int64: how many of those were clicked, each at most once
    sources       the log files that went into it, where they are known
    display       (rows, positions) float64: the known probability that a candidate is shown at a position, see
                  `with_display`; None where it is not known
    segment       (cells,) int64: the device, layout or other surface that each cell was shown on, as a code
    segment_names   the name of each code, in order; without segments, only the empty name
    contexts      the cells split by the last click above on the same page; None where that is not known
    ratings       what people or machines think of the candidates, see `rated`; None where nobody rated them
    events        (cells,) each: after how many of the clicks it happened, by event, such as "purchase"
    event_weights   what each event is worth, see `weighted`; empty: clicks alone count

    A candidate may have cells at several positions; without any, it was never shown. Cells are sorted by row, segment
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
    sources: tuple[LogFile, ...] = ()
    display: NDArray[np.float64] | None = None
    segment: IntArray = None  # type: ignore[assignment]  # None: all cells are of a single segment
    segment_names: tuple[str, ...] = ("",)
    contexts: Contexts | None = None
    ratings: Ratings | None = None
    events: Mapping[str, IntArray] = field(default_factory=dict)
    event_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        row, position = whole_numbers(self.row, "row", 0), whole_numbers(self.position, "position", 1, DEEPEST)
        impressions, clicks = whole_numbers(self.impressions, "impressions", 0), whole_numbers(self.clicks, "clicks", 0)
        if {len(row)} != {*map(len, (position, impressions, clicks, *self.events.values()))}:
            raise DataError("row, position, impressions, clicks and events must have one entry per cell each.")
        if len(row) and row.max() >= self.candidates.n_rows:
            raise DataError(f"a cell names row {row.max()}, but there are {self.candidates.n_rows:,} candidates.")
        if (clicks > impressions).any():
            cell = int(np.flatnonzero(clicks > impressions)[0])
            raise DataError(
                f"row {row[cell]} at position {position[cell]} has {clicks[cell]} clicks in {impressions[cell]} "
                "impressions; an impression is clicked at most once."
            )
        for what, values in (("impressions", impressions), ("clicks", clicks)):
            if values.sum(dtype=np.float64) > LARGEST_WHOLE:
                raise DataError(f"the {what} add up to more than 2^62; no log is that large, so some are wrong.")
        segment, names = _segment_codes(self.segment, tuple(self.segment_names), len(row))
        events = {name: whole_numbers(counts, name, 0) for name, counts in self.events.items()}
        object.__setattr__(self, "event_weights", checked_weights(self.event_weights, events))
        merged = added_up([row, segment, position], impressions, clicks, *events.values())
        events, merged = dict(zip(events, merged[len(_CELLS) :], strict=True)), merged[: len(_CELLS)]
        _check_events(events, merged[-1])
        object.__setattr__(self, "events", events)
        if len(names) == 1:
            merged[1] = one_segment(len(merged[0]))
        if self.contexts is not None:
            self._check_contexts(self.contexts, merged, names)
        for key, value in zip(_CELLS, merged, strict=True):
            value.flags.writeable = False
            object.__setattr__(self, key, value)
        object.__setattr__(self, "segment_names", names)
        if self.ratings is not None and len(self.ratings) != self.candidates.n_rows:
            raise DataError(f"there are {len(self.ratings):,} ratings for {self.candidates.n_rows:,} candidates.")
        if self.display is not None:
            if len(names) > 1:
                raise DataError("display probabilities are for a single policy, but the cells are of several segments.")
            display = _display_table(self.display, self.candidates.n_rows, self.row, self.position)
            object.__setattr__(self, "display", display)

    def _check_contexts(self, contexts: Contexts, cells: list[IntArray], names: tuple[str, ...]) -> None:
        """Refuse contexts that do not add up to the cells."""
        if names != tuple(self.segment_names):
            codes, _ = _segment_codes(contexts.segment, tuple(self.segment_names), len(contexts))
            contexts = replace(contexts, segment=codes)
            object.__setattr__(self, "contexts", contexts)
        theirs = contexts.cells()
        for name, own in zip(_CELLS, cells, strict=True):
            if not np.array_equal(own, theirs[name]):
                raise DataError(f"the contexts do not add up to the cells: they differ in {name}.")

    # -- construction --------------------------------------------------------------------------------------------

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
        events: Any = None,
    ) -> ClickTable:
        """A table from arrays with an entry per dataset row; position 0 means that the row was not shown.

        With `row`, an entry per cell instead: the dataset row of each, so that rows may have several positions.
        `segment` names the device or layout of each entry; `events` says after how many of its clicks others happened.

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
        entries: dict[str, Any] = {
            "row": np.arange(dataset.n_rows) if row is None else whole_numbers(row, "row", 0),
            "impressions": whole_numbers(impressions, "impressions", 0),
            "clicks": whole_numbers(clicks, "clicks", 0),
        }
        entries |= {} if segment is None else {"segment": np.asarray(segment)}
        if not isinstance(events, Mapping | None):
            raise UsageError('`events` must be counts by event: {"purchase": [0, 2]}.')
        happened = {name: whole_numbers(counts, name, 0) for name, counts in (events or {}).items()}
        shown = positions > 0
        for what, values in {**entries, **happened}.items():
            if len(values) != len(positions):
                raise DataError(f"{what} has {len(values):,} entries, position {len(positions):,}.")
            if what in ("impressions", "clicks", *happened) and values[~shown].any():
                place = int(np.flatnonzero(~shown & (values > 0))[0])
                raise DataError(f"entry {place} has {what} but position 0, which means not shown.")
        cells = {what: values[shown] for what, values in entries.items()}
        cells["events"] = {name: counts[shown] for name, counts in happened.items()}
        if segment is not None:
            cells["segment"], cells["segment_names"] = _named_segments(cells["segment"])
        return cls(Candidates.of(dataset), position=positions[shown], **cells)

    @classmethod
    def from_cells(cls, cells: pa.Table, candidates: Candidates, row: IntArray, **facts: Any) -> ClickTable:
        """A table from cells or contexts in Arrow, and the candidate of each; candidates below 0 are left out."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = row >= 0
        counts: dict[str, Any] = {
            "row": row[known],
            **{name: np.asarray(cells[name].to_numpy())[known] for name in _CELLS[2:]},
        }
        if SEGMENT in cells.column_names and len(cells):
            encoded = pc.fill_null(cells[SEGMENT].cast(pa.string()), NO_SEGMENT).combine_chunks().dictionary_encode()
            counts["segment"] = encoded.indices.to_numpy().astype(np.int64)[known]
            facts["segment_names"] = tuple(encoded.dictionary.to_pylist())
        if LAST_CLICK in cells.column_names:
            last_click = np.asarray(cells[LAST_CLICK].to_numpy())[known]
            facts["contexts"] = Contexts(**{"segment": None, **counts}, last_click=last_click)
        events = events_among(cells.column_names)
        facts["events"] = {name: np.asarray(cells[event_column(name)].to_numpy())[known] for name in events}
        return cls(candidates, **counts, **facts)

    @classmethod
    def read(
        cls,
        path: Any,
        dataset: RankingDataset | None = None,
        engine: Any = "duckdb",
        columns: Mapping[str, str] | None = None,
        last: str | None = None,
        until: date | str | None = None,
        event_weights: Mapping[str, float] | None = None,
        **options: Any,
    ) -> ClickTable:
        """Read cells that `save` wrote, or aggregate a raw log of impressions (see `cldrank.clicks.aggregate`).

        A log may be a frame (pandas, Polars, Arrow, …) in place of files. With a dataset, cells are aligned to its
        rows; otherwise the candidates are those that the file names.

        last, until   of a folder of days (see `cldrank.clicks.days`): the window, such as "28d", and its last day
        event_weights   what each event is worth, see `weighted`; None: as the cells say, in a log clicks alone
        """
        from cldrank.clicks.cells_file import is_cells, load_cells
        from cldrank.clicks.days import DayFolder, refuse_window

        if DayFolder.is_one(path):
            refuse_for_cells(path, columns or options)
            return DayFolder(path).read(dataset, last=last, until=until, event_weights=event_weights)
        refuse_window(path, last, until)
        if is_cells(path):
            refuse_for_cells(path, columns or options)
            return load_cells(path, dataset, event_weights=event_weights)
        from cldrank.clicks.aggregate import aggregate

        weights = event_weights or {}
        counted = aggregate(path, dataset, engine=engine, columns=columns, event_weights=weights, **options)
        if counted.account.n_rejected:
            warn(CldrankWarning(f"of the log, {counted.account}"))
        return counted.clicks

    def save(self, path: str | PathLike[str]) -> None:
        """Save the cells to a Parquet file: query_id, doc_id, position, impressions, clicks; segment, if they have.

        With contexts, there is a row for each of these, and a column last_click; with events, a column for each, such
        as event_purchase.
        """
        from cldrank.clicks.cells_file import save_cells

        if self.display is not None:
            raise UsageError("a file of cells does not hold display probabilities; save with_display(None) instead.")
        if self.ratings is not None:
            raise UsageError("a file of cells does not hold ratings; save rated(None) instead.")
        save_cells(self, Path(path))

    def with_display(self, probabilities: ArrayLike | None) -> ClickTable:
        """The same log with the display probabilities of a policy that draws its pages at random.

        A row per candidate and a column per position: P(candidate is shown at the position | its query is shown).
        They must not contradict the log. None takes them off.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> table = ClickTable.from_arrays(data, position=[1, 0], impressions=[10, 0], clicks=[4, 0])
        >>> table.with_display([[0.9], [0.1]]).display
        array([[0.9],
               [0.1]])
        """
        return replace(self, display=probabilities)  # type: ignore[arg-type]  # checked as it is made

    def rated(self, ratings: Any, **options: Any) -> ClickTable:
        """The same log beside ratings of its candidates, or what `load_ratings` reads with these options; None: none.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> table = ClickTable.from_arrays(data, position=[1, 0], impressions=[10, 0], clicks=[4, 0])
        >>> import pyarrow as pa
        >>> table.rated(pa.table({"query_id": [7, 7], "doc_id": [1, 2], "rating": [0.5, 2.0]})).ratings
        Ratings(2 of 2 candidates are rated, 0 by people)
        """
        from cldrank.clicks.ratings import Ratings, load_ratings

        if ratings is not None and not isinstance(ratings, Ratings):
            ratings = load_ratings(ratings, self.candidates, **options)
        return replace(self, ratings=ratings)

    def weighted(self, weights: Mapping[str, float]) -> ClickTable:
        """The same log with other weights of events; without any, clicks alone count. An event that is not named: 0.

        >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
        >>> shown = {"position": [1, 2], "impressions": [10, 10], "clicks": [4, 2]}
        >>> table = ClickTable.from_arrays(data, **shown, events={"purchase": [0, 1]})
        >>> table.weighted({"click": 1, "purchase": 10}).value
        array([ 4., 12.])
        """
        return replace(self, event_weights=weights)

    def clicks_alone(self) -> ClickTable:
        """The same log without other events."""
        return replace(self, events={}, event_weights={}) if self.events or self.event_weights else self

    # -- what clicks were worth ----------------------------------------------------------------------------------

    @cached_property
    def value(self) -> Floats:
        """(cells,) what their clicks and other events were worth, by weights; without these, the clicks."""
        weights = self.event_weights
        return value_of(self._counts, weights) if weights else self.clicks.astype(np.float64)

    @cached_property
    def value_squares(self) -> Floats:
        """(cells,) the sum over clicks of what each was worth, squared; see `squares_of`."""
        weights = self.event_weights
        return squares_of(self._counts, weights) if weights else self.clicks.astype(np.float64)

    @property
    def click_value(self) -> float:
        """What a click was worth on average, with all that followed."""
        clicks = int(self.clicks.sum())
        return float(self.value.sum()) / clicks if self.event_weights and clicks else 1.0

    @property
    def most_value(self) -> float:
        """What a click is worth if every event follows."""
        return sum(self.event_weights.values()) if self.event_weights else 1.0

    @property
    def value_spread(self) -> float:
        """Σ value² / Σ value over clicks: the variance of value is as many times its mean, if few are clicked."""
        value = float(self.value.sum())
        return float(self.value_squares.sum()) / value if self.event_weights and value else 1.0

    @property
    def credit(self) -> Floats:
        """(cells,) their value in units of a mean click, so that it has the size of clicks; these, without weights."""
        return self.value / (self.click_value or 1.0)

    @property
    def events_in_words(self) -> str:
        """The weight and number of each event; empty where clicks alone count."""
        counts = {name: int(self._counts[name].sum()) for name in self.event_weights}
        return ", ".join(f"{name} ({counts[name]:,}, weight {weight:g})" for name, weight in self.event_weights.items())

    @property
    def _counts(self) -> dict[str, IntArray]:
        return {CLICK: self.clicks, **self.events}

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
        return _sums(self.row, self.impressions, self.candidates.n_rows)

    @property
    def row_clicks(self) -> IntArray:
        """For each candidate, its clicks at any position."""
        return _sums(self.row, self.clicks, self.candidates.n_rows)

    @property
    def query_impressions(self) -> IntArray:
        """For each query, how often a page of results was shown for it.

        That is the most impressions at any position or, of several segments, the sum of theirs.
        """
        if not self.n_cells:
            return np.zeros(self.n_queries, dtype=np.int64)
        span = self.depth + 1
        places, inverse = np.unique(self.segment_query * span + self.position, return_inverse=True)
        starts = np.flatnonzero(np.diff(places // span, prepend=-1))
        most = np.maximum.reduceat(_sums(inverse, self.impressions, len(places)), starts)
        return _sums(places[starts] // span // self.n_segments, most, self.n_queries)

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
        """(cells,) a code of query and segment: the pages of a query in a segment."""
        query = self.candidates.row_queries[self.row]
        return query if self.n_segments == 1 else query * self.n_segments + self.segment

    @property
    def segment_position(self) -> IntArray:
        """(cells,) a code of segment and position: cells that share it are examined alike."""
        return self.position if self.n_segments == 1 else self.segment * (self.depth + 1) + self.position

    def as_segment(self, name: str) -> ClickTable:
        """The same cells, all in the segment of this name, to be merged with those of others."""
        contexts = None if self.contexts is None else replace(self.contexts, segment=None)  # type: ignore[arg-type]
        return replace(self, segment=None, segment_names=(name,), contexts=contexts)  # type: ignore[arg-type]

    def by_segment(self) -> dict[str, ClickTable]:
        """The cells of each segment that has any, as tables of their own, by name."""
        names = {int(code): self.segment_names[code] for code in np.unique(self.segment)}
        return {name: self.where(self.segment == code).as_segment(name) for code, name in names.items()}

    # -- others --------------------------------------------------------------------------------------------------

    def check_same(self, dataset: RankingDataset) -> None:
        """Raise DataError unless the candidates are the rows of this dataset."""
        if not self.candidates.equals(Candidates.of(dataset)):
            raise DataError(
                f"the clicks are of {self.n_queries:,} queries and {self.candidates.n_rows:,} candidates that are not "
                f"those of {dataset!r}; read or slice both alike."
            )

    def __len__(self) -> int:
        return self.n_queries

    def __deepcopy__(self, memo: object) -> ClickTable:
        return self  # nothing in it can be changed

    def __repr__(self) -> str:
        places = f" at positions {self.position.min()}…{self.depth}" if self.n_cells else ""
        word = "segments" if self.n_segments > 1 else "segment"
        named = f"; {word} {', '.join(self.segment_names)}" if self.has_segments else ""
        events = "".join(f", {counts.sum():,} {name}" for name, counts in self.events.items())
        return (
            f"ClickTable({count(self.n_queries, 'query', 'queries')}, {count(self.candidates.n_rows, 'candidate')}, "
            f"{self.shown.sum():,} shown{places}; {count(self.n_cells, 'cell')}, "
            f"{count(self.impressions.sum(), 'impression')}, {count(self.clicks.sum(), 'click')}{events}{named})"
        )

    # -- parts and sums ------------------------------------------------------------------------------------------

    def __getitem__(self, queries: int | slice | ArrayLike) -> ClickTable:
        """The cells of some queries, each once, chosen as in a `RankingDataset`, so that both stay aligned."""
        candidates, rows = self.candidates.select(chosen_queries(queries, self.n_queries))
        place = np.full(self.candidates.n_rows, -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        kept = place[self.row] >= 0
        cells: dict[str, Any] = {name: getattr(self, name)[kept] for name in _CELLS[1:]}
        cells |= {"row": place[self.row[kept]], "events": {name: each[kept] for name, each in self.events.items()}}
        display = None if self.display is None else self.display[rows]
        contexts = self.contexts
        if contexts is not None:
            of_kept = kept[contexts.cell]
            contexts = contexts.where(of_kept, row=place[contexts.row[of_kept]])
        ratings = None if self.ratings is None else self.ratings.at(rows)
        return replace(self, candidates=candidates, display=display, contexts=contexts, ratings=ratings, **cells)

    def split(self, fractions: float | Sequence[float], *, seed: int) -> list[ClickTable]:
        """Split at random by query: the same parts as `RankingDataset.split` with the same fractions and seed."""
        return [self[queries] for queries in segments.split_segments(self.n_queries, fractions, seed)]

    def first(self, depth: int) -> ClickTable:
        """The log of pages that end after `depth` positions: what was shown only below them counts as not shown."""
        check_whole("depth", depth, least=1)
        cut = None if self.display is None else self.display[:, :depth]
        return replace(self.where(self.position <= depth), display=cut)

    def where(self, kept: NDArray[np.bool_]) -> ClickTable:
        """Only the cells where the mask, an entry per cell, is true; all candidates stay."""
        mask = np.asarray(kept)
        if mask.dtype != bool or mask.shape != (self.n_cells,):
            raise UsageError(f"the mask needs True or False for each of {self.n_cells:,} cells.")
        contexts = None if self.contexts is None else self.contexts.where(mask[self.contexts.cell])
        events = {name: counts[mask] for name, counts in self.events.items()}
        return replace(self, contexts=contexts, events=events, **{name: getattr(self, name)[mask] for name in _CELLS})

    def merge(self, other: ClickTable) -> ClickTable:
        """Both logs together: counts of equal cells are added. The candidates of either are kept.

        Tables with a source and cells in common are refused, since the source would count twice. Tables with display
        probabilities are merged only if they agree on them. Cells of different segments stay apart. Contexts are kept
        if every table with cells has them.
        """
        return ClickTable.merged([self, other])

    @classmethod
    def merged(cls, tables: Sequence[ClickTable]) -> ClickTable:
        """`merge` for any number of logs, in a single pass over all cells."""
        if not tables:
            raise UsageError("there are no tables to merge.")
        counted = [(f"table {number}", table) for number, table in enumerate(tables, 1)]
        check_segments((name, table.has_segments if table.n_cells else None) for name, table in counted)
        first, *others = tables
        candidates = first.candidates
        if not all(candidates.equals(other.candidates) for other in others):
            candidates = Candidates.joined(table.candidates for table in tables)
        _check_same_display(tables)
        if any(table.ratings is not first.ratings for table in others):
            raise UsageError("the tables have different ratings; merge them without, and rate the merged log.")
        names, codes = _joined_segments(tables)
        rows = [
            table.row if table.candidates.equals(candidates) else candidates.find(*table.candidates.ids_at(table.row))
            for table in tables
        ]
        keys = [
            (row * len(names) + segment) * (DEEPEST + 1) + table.position
            for table, row, segment in zip(tables, rows, codes, strict=True)
        ]
        sources = _joined_sources([table.sources for table in tables], keys)
        cells: dict[str, Any] = {
            name: np.concatenate([getattr(table, name) for table in tables]) for name in _CELLS[2:]
        }
        cells |= {"row": np.concatenate(rows), "segment": np.concatenate(codes), "segment_names": names}
        cells |= _joined_events(tables)
        contexts = _joined_contexts(tables, rows, codes)
        return replace(first, candidates=candidates, sources=sources, contexts=contexts, **cells)


# -- sums of tables ----------------------------------------------------------------------------------------------------


def check_segments(named: Iterable[tuple[str, bool | None]]) -> None:
    """Refuse to add up tables with and without segments, by their names; None: the table has no cells."""
    known = [(name, has_segments) for name, has_segments in named if has_segments is not None]
    for name, has_segments in known:
        first, expected = known[0]
        if has_segments != expected:
            with_them, without = (name, first) if has_segments else (first, name)
            raise DataError(
                f"{with_them} was counted by segment, {without} was not; only cells that were counted alike can be "
                "added up, so count one of the logs again."
            )


def _joined_events(tables: Sequence[ClickTable]) -> dict[str, Any]:
    """The events of all cells, and their weights; refused where tables count others, or weigh them in another way."""
    first, *others = [table for table in tables if table.n_cells] or tables[:1]
    for other in others:
        if {*other.events} != {*first.events} or other.event_weights != first.event_weights:
            kinds = [
                f"{listed(['click', *each.events])}, with weights {dict(each.event_weights)}" for each in (first, other)
            ]
            raise DataError(
                f"the cells count other events, or give them other weights ({kinds[0]}; {kinds[1]}). Set "
                "`event_weights` for all, or count one of the logs again."
            )
    parts = {name: [each.events[name] for each in (first, *others)] for name in first.events}
    events = {name: np.concatenate(counts) for name, counts in parts.items()}
    return {"events": events, "event_weights": first.event_weights}


def _joined_sources(sources: Sequence[tuple[LogFile, ...]], keys: Sequence[IntArray]) -> Any:
    """The sources of tables, each once; tables with a source and cells in common are refused."""
    joined: list[LogFile] = []
    for place, own in enumerate(sources):
        common = in_both(joined, own)
        if common:
            earlier = [keys[at] for at in range(place) if in_both(sources[at], own)]
            if any(np.isin(keys[place], other).any() for other in earlier):
                raise DataError(f"{names_of(common)} went into both and would be counted twice; add only what is new.")
        joined += [source for source in own if source not in common]
    return tuple(joined)


def _joined_segments(tables: Sequence[ClickTable]) -> tuple[tuple[str, ...], list[IntArray]]:
    """The segments that any of the tables has, and of each table the codes of its cells among them."""
    named = [table for table in tables if table.n_cells] or list(tables)
    names = tuple(sorted({name for table in named for name in table.segment_names if name})) or ("",)
    return names, [
        np.array([names.index(name) if name in names else 0 for name in table.segment_names])[table.segment]
        for table in tables
    ]


def _joined_contexts(
    tables: Sequence[ClickTable], rows: Sequence[IntArray], codes: Sequence[IntArray]
) -> Contexts | None:
    """The contexts of all tables, given the row and segment of their cells; None where a table with cells has none."""
    parts = []
    for table, row, segment in zip(tables, rows, codes, strict=True):
        own = table.contexts
        if own is not None:
            parts.append([row[own.cell], segment[own.cell], own.position, own.last_click, own.impressions, own.clicks])
        elif table.n_cells:
            return None
    return Contexts(*map(np.concatenate, zip(*parts, strict=True))) if parts else None


def _check_same_display(tables: Sequence[ClickTable]) -> None:
    """Refuse to add up logs of policies that differ, or might."""
    first, *others = tables
    for other in others:
        is_same = first.candidates.equals(other.candidates) and np.array_equal(first.display, other.display)  # type: ignore[arg-type]
        if (first.display is not None or other.display is not None) and not is_same:
            raise DataError(
                "the tables differ in their display probabilities; merge them without, and set those of the merged log "
                "with with_display."
            )


# -- arrays of cells ---------------------------------------------------------------------------------------------------


def _check_events(events: Mapping[str, IntArray], clicks: IntArray) -> None:
    """Refuse more events than clicks; from here on, nothing changes them."""
    for name, counts in events.items():
        if name == CLICK or not is_event(name):
            raise DataError(f"an event beside clicks is a word such as add_to_cart, not {name!r}.")
        if (counts > clicks).any():
            at = int(np.argmax(counts - clicks))
            told = f"{counts[at]} times after {clicks[at]} clicks"
            raise DataError(f"event {name!r} happened {told}; it counts at most once after a click.")
        counts.flags.writeable = False


def _sums(group: IntArray, values: IntArray, groups: int) -> IntArray:
    totals = np.zeros(groups, dtype=np.int64)
    np.add.at(totals, group, values)
    return totals


def _segment_codes(segment: Any, names: tuple[str, ...], cells: int) -> tuple[IntArray, tuple[str, ...]]:
    """The segment of each cell as a code, and the names of segments in order."""
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise DataError(f"segment_names must be different texts, one for each segment, not {shortened(names)}.")
    if len(names) > 1 and "" in names:
        raise DataError("some cells have segments and others have none; name a segment for all.")
    ordered = tuple(sorted(names))
    codes = one_segment(cells) if segment is None else whole_numbers(segment, "segment", 0)
    if len(codes) != cells:
        raise DataError(f"segment has {len(codes):,} entries for {cells:,} cells.")
    if codes.max(initial=0) >= len(names):
        raise DataError(f"a cell names segment {codes.max()}, but there are {len(names)} names of segments.")
    return np.array([ordered.index(name) for name in names], dtype=np.int64)[codes], ordered


def _named_segments(values: Any) -> tuple[IntArray, tuple[str, ...]]:
    """Codes and names of the segments that values name; without a value, `NO_SEGMENT`."""
    texts = [NO_SEGMENT if value is None or value == "" or value != value else str(value) for value in values]
    names, codes = np.unique(np.array(texts, dtype=np.str_), return_inverse=True)
    return codes.astype(np.int64), tuple(names.tolist()) or ("",)


def _display_table(probabilities: Any, rows: int, row: IntArray, position: IntArray) -> NDArray[np.float64]:
    """P(shown at a position) of each of `rows` candidates; the cells at `row` and `position` must not contradict it."""
    try:
        table = np.array(probabilities, dtype=np.float64)
    except (ValueError, TypeError):
        raise DataError("display must be a table of numbers, one row per candidate.") from None
    depth = int(position.max(initial=0))
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
    impossible = np.flatnonzero(table[row, position - 1] == 0)
    if len(impossible):
        cell = impossible[0]
        raise DataError(f"row {row[cell]} was shown at position {position[cell]}, where display has probability 0.")
    table.flags.writeable = False
    return table
