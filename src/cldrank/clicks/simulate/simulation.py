"""`Simulation`: a dataset, a production ranker, a policy and a click model; clicks counted or session by session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.arguments import check_number, check_whole, refuse
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.contexts import Contexts, one_segment
from cldrank.clicks.log.layout import DEEPEST
from cldrank.clicks.simulate.click_events import EventModel
from cldrank.clicks.simulate.click_models import ClickModel, PositionBased
from cldrank.clicks.simulate.policies import Layouts, Policy, Production, TopK
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError
from cldrank.workers import ahead

BLOCK = 1 << 16  # sessions drawn from each random stream; part of what a seed means, so never changed lightly
_COUNTED, _BY_SESSION = 0, 1  # each way to draw has its own random streams
_DRAWERS = 2  # threads that draw sessions ahead of the thread that uses them
_MOST_SESSIONS = (1 << 63) - 1

Progress = Callable[[int], None]
Cells = tuple[IntArray, IntArray, IntArray, IntArray]  # row, position, impressions, clicks


class Sessions(NamedTuple):
    """Consecutive sessions, a page each.

    first     the number of the first session
    queries   (sessions,) the query of each
    layout    (sessions,) the layout of the policy that was shown; the number of layouts if the page was drawn
    rows      (sessions, depth) the dataset row at each position, -1 where the page has ended
    clicked   (sessions, depth)
    events    (sessions, depth) each: whether it followed the click, by event
    """

    first: int
    queries: IntArray
    layout: IntArray
    rows: IntArray
    clicked: NDArray[np.bool_]
    events: Mapping[str, IntArray]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Clicks as people would leave them on the pages of a production ranker.

    dataset         the candidates, with labels
    scores          production's score of each row; higher scores rank higher
    model           who clicks on what
    policy          how pages vary around production's order
    depth           how many results a page shows
    relevant_from   the lowest label that counts as relevant; None: 3 where labels reach it, else 1
    production      facts about the production ranker, for the truth file
    events          what may follow a click, such as {"cart": 0.3, "purchase": 0.1}: how often it does on results of the
                    highest label, see `EventModel`

    Each session draws a query evenly, sees a page of it, and clicks. The same seed gives the same clicks.

    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
    >>> Simulation(data, scores=[3, 2, 1], depth=2)
    Simulation(RankingDataset(1 query, 3 rows, ...), pages of 2, TopK(), PositionBased())
    """

    dataset: RankingDataset
    scores: ArrayLike
    model: ClickModel = field(default_factory=PositionBased)
    policy: Policy = field(default_factory=TopK)
    depth: int = 5
    relevant_from: float | None = None
    production: Mapping[str, Any] = field(default_factory=dict)
    events: Mapping[str, float] = field(default_factory=dict)
    relevant: NDArray[np.bool_] = field(init=False)
    ranking: Production = field(init=False)
    layouts: Layouts = field(init=False)
    after_click: EventModel = field(init=False)

    def __post_init__(self) -> None:
        depth = check_whole("depth", self.depth, least=1, most=DEEPEST)
        scores = _scores(self.scores, self.dataset)
        threshold, relevant = _relevance(self.dataset, self.relevant_from)
        longest = min(depth, max(int(self.dataset.sizes.max(initial=1)), 1))  # no page is longer than its query
        if not isinstance(self.model, ClickModel):
            refuse("model", self.model, "a click model such as PositionBased(eta=1)")
        if not isinstance(self.policy, Policy):
            refuse("policy", self.policy, "a policy such as TopK()")
        self.model.check(depth)
        self.policy.check(depth)
        prepared = {
            "depth": depth,
            "scores": scores,
            "relevant_from": threshold,
            "relevant": relevant,
            "ranking": Production(scores, self.dataset.offsets, longest),
            "layouts": self.policy.layouts(longest),
            "after_click": EventModel.of(self.events, self.dataset.labels),
        }
        for name, value in prepared.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Simulation({self.dataset!r}, pages of {self.depth}, {self.policy}, {self.model})"

    @property
    def longest_page(self) -> int:
        """The most results on any page: the depth, or the candidates of the largest query."""
        return self.ranking.depth

    @property
    def counts_all(self) -> bool:
        """Whether all sessions can be counted together, so that any number of them takes the same time."""
        return not self.layouts.drawn

    @property
    def varies(self) -> bool:
        """Whether a query may be shown in several ways."""
        return len(self.layouts.names) > 1 or not self.counts_all

    def relevant_on(self, rows: IntArray) -> NDArray[np.bool_]:
        """Whether the rows on some pages are relevant; where a page has ended, row -1, nothing is."""
        on_pages: NDArray[np.bool_] = self.relevant[rows] & (rows >= 0)
        return on_pages

    # -- counted -------------------------------------------------------------------------------------------------

    def draw(
        self, sessions: float, *, seed: int = 0, contexts: bool = False, progress: Progress | None = None
    ) -> ClickTable:
        """The cells of a log of `sessions` sessions; `contexts` also splits them by the last click above.

        Sessions that see the same layout are counted together, exactly: their number is multinomial, their clicks are
        binomial. Sessions whose page is drawn, and all for `contexts`, are simulated in blocks; `progress` gets the
        number that are done.
        """
        total = whole_sessions(sessions)
        if contexts:
            counts = Counts(self)
            for block in self.sessions(total, seed=seed):
                counts.add(block.rows, block.clicked, block.events)
                if progress:
                    progress(block.first + len(block.queries))
            return counts.table()
        random = np.random.default_rng([check_whole("seed", seed, least=0), _COUNTED])
        queries = self.ranking.n_queries
        pages = random.multinomial(total, np.full(queries, 1 / queries))
        seen = {0: pages}
        if self.varies:
            codes, shares = self._layout_shares()
            seen = dict(zip(codes, random.multinomial(pages, shares[self.ranking.lengths]).T, strict=True))
        drawn = seen.pop(len(self.layouts.names), None)
        cells = [self._layout_cells(layout, shown, random) for layout, shown in sorted(seen.items())]
        if drawn is not None:
            cells.append(self._drawn_cells(drawn, random, progress))
        row, position, impressions, clicks = (np.concatenate(part) for part in zip(*cells, strict=True))
        events = self.after_click.draw(row, clicks, random)
        return ClickTable(Candidates.of(self.dataset), row, position, impressions, clicks, events=events)

    def _layout_shares(self) -> tuple[list[int], NDArray[np.float64]]:
        """What a session may see, and the shares by length of the page: each layout, and a drawn page.

        Production's order comes last, where rounding makes up for what is missing to 1: every page has it.
        """
        shares = self.layouts.shares
        drawn = np.full(len(shares), self.layouts.drawn)
        return [*range(1, shares.shape[1] + 1), 0], np.column_stack([shares[:, 1:], drawn, shares[:, 0]])

    def _layout_cells(self, layout: int, sessions: IntArray, random: np.random.Generator) -> Cells:
        queries = np.flatnonzero(sessions)
        rows = self.ranking.pages(queries, self.layouts.places[layout])
        clicks = self.model.draw_counts(self.relevant_on(rows), sessions[queries], random)
        page, place = np.nonzero(rows >= 0)
        return rows[page, place], place + 1, sessions[queries[page]], clicks[page, place]

    def _drawn_cells(self, sessions: IntArray, random: np.random.Generator, progress: Progress | None) -> Cells:
        counts = Counts(self)
        ends = np.cumsum(sessions)
        for start in range(0, int(ends[-1]), BLOCK):
            numbers = np.arange(start, min(start + BLOCK, int(ends[-1])))
            rows = self.policy.draw(self.ranking, np.searchsorted(ends, numbers, side="right"), random)
            counts.add(rows, self.model.draw(self.relevant_on(rows), random))
            if progress:
                progress(int(numbers[-1]) + 1)
        counted = counts.contexts()
        return counted.row, counted.position, counted.impressions, counted.clicks

    # -- session by session --------------------------------------------------------------------------------------

    def sessions(self, count: float, *, seed: int = 0) -> Iterator[Sessions]:
        """Sessions in blocks of BLOCK, each from its own random stream, so that memory is bounded."""
        total, seed = whole_sessions(count), check_whole("seed", seed, least=0)

        def block(first: int) -> Sessions:
            random = np.random.default_rng([seed, _BY_SESSION, first // BLOCK])
            queries = random.integers(0, self.ranking.n_queries, min(BLOCK, total - first))
            layout, rows = np.zeros(len(queries), dtype=np.int64), self.ranking.top[queries]
            if self.varies:
                layout, rows = self._varied_pages(queries, random)
            clicked = self.model.draw(self.relevant_on(rows), random)
            return Sessions(first, queries, layout, rows, clicked, self.after_click.draw(rows, clicked, random))

        return ahead(block, range(0, total, BLOCK), threads=_DRAWERS, most=_DRAWERS)

    def save_log(self, path: str | PathLike[str], sessions: float, **options: Any) -> ClickTable:
        """Save a raw log, a row per impression, as a Parquet file, whole or not at all; return its cells.

        Columns are session_id, query_id, doc_id, position, clicked and one for each event; if the policy varies pages,
        also ranker_id (which layout was shown) and propensity (the probability with which the policy shows this
        document at this position). Memory does not grow with sessions. Options:

        seed       the same seed gives the same log
        segment    a column and its value, such as ("device", "phone"), that all rows have; the ids of sessions then
                   begin with the value, so that logs of several segments can be read together
        progress   gets the number of sessions that are done
        """
        from cldrank.clicks.simulate.session_log import save_log

        return save_log(self, path, sessions, **options)

    def _varied_pages(self, queries: IntArray, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        codes, shares = self._layout_shares()
        bounds = np.cumsum(shares[:, :-1], axis=1)[self.ranking.lengths[queries]]
        layout = np.array(codes)[(random.random(len(queries))[:, None] >= bounds).sum(axis=1)]
        drawn = layout == len(self.layouts.names)
        rows = np.empty((len(queries), self.longest_page), dtype=np.int64)
        rows[~drawn] = self.ranking.pages(queries[~drawn], self.layouts.places[layout[~drawn]])
        if drawn.any():
            rows[drawn] = self.policy.draw(self.ranking, queries[drawn], random)
        return layout, rows


class Counts:
    """Contexts, added up session by session; memory does not grow with sessions."""

    def __init__(self, simulation: Simulation) -> None:
        self.depth = simulation.longest_page
        self.candidates = Candidates.of(simulation.dataset)
        self.rows = np.arange(simulation.dataset.n_rows)  # those that may be shown
        if simulation.counts_all:
            self.rows = np.unique(simulation.ranking.top[simulation.ranking.top >= 0])
        self.slot = np.zeros(simulation.dataset.n_rows, dtype=np.int64)
        self.slot[self.rows] = np.arange(len(self.rows))
        self.impressions = np.zeros(len(self.rows) * self.depth * self.depth, dtype=np.int64)
        self.clicks = np.zeros_like(self.impressions)
        self.events = {name: np.zeros_like(self.impressions) for name in simulation.after_click.chances}

    def add(self, rows: IntArray, clicked: NDArray[np.bool_], events: Mapping[str, IntArray] | None = None) -> None:
        """Count the results on some pages, and the events that followed clicks."""
        place = np.arange(self.depth)
        last_click = np.zeros(rows.shape, dtype=np.int64)
        last_click[:, 1:] = np.maximum.accumulate(np.where(clicked, place + 1, 0), axis=1)[:, :-1]
        context = (self.slot[rows] * self.depth + place) * self.depth + last_click
        shown = rows >= 0
        np.add.at(self.impressions, context[shown], 1)
        np.add.at(self.clicks, context[shown & clicked], 1)
        for name, happened in (events or {}).items():
            np.add.at(self.events[name], context[happened > 0], 1)

    def contexts(self) -> Contexts:
        """The contexts of every cell that was shown."""
        shown = np.flatnonzero(self.impressions)
        slot, place, last_click = np.unravel_index(shown, (len(self.rows), self.depth, self.depth))
        segment = one_segment(len(shown))
        counts = self.impressions[shown], self.clicks[shown]
        return Contexts(self.rows[slot], segment, place + 1, last_click, *counts)

    def table(self) -> ClickTable:
        """The cells, with their candidates."""
        contexts = self.contexts()
        shown, first = np.flatnonzero(self.impressions), np.flatnonzero(np.diff(contexts.cell, prepend=-1))
        events = {name: np.add.reduceat(counts[shown], first) for name, counts in self.events.items()}
        return ClickTable(self.candidates, **contexts.cells(), contexts=contexts, events=events)


def whole_sessions(sessions: Any) -> int:
    """A number of sessions; 1e5 is accepted for 100000."""
    if isinstance(sessions, float | np.floating) and float(sessions).is_integer():
        sessions = int(sessions)
    return check_whole("sessions", sessions, least=1, most=_MOST_SESSIONS)


def _scores(values: Any, dataset: RankingDataset) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = np.array(values, dtype=np.float64)
    if scores.shape != (dataset.n_rows,):
        raise DataError(f"production's scores have shape {scores.shape} for {dataset.n_rows:,} rows.")
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise DataError(f"production's score of row {bad[0]} is {scores[bad[0]]}; scores must be finite.")
    return scores


def _relevance(dataset: RankingDataset, relevant_from: Any) -> tuple[float, NDArray[np.bool_]]:
    """The threshold, and which rows reach it."""
    if dataset.labels is None:
        raise DataError(f"{dataset!r} has no labels; a simulation needs to know which candidates are relevant.")
    if not dataset.n_rows:
        raise DataError(f"{dataset!r} has no candidates to show.")
    highest = float(dataset.labels.max())
    usual = 3.0 if highest >= 3 else 1.0
    threshold = usual if relevant_from is None else check_number("relevant_from", relevant_from, least=0)
    relevant = dataset.labels >= threshold
    if not relevant.any():
        raise DataError(
            f"no label reaches {threshold:g}, the highest is {highest:g}: nothing would be relevant; choose a lower "
            "`relevant_from`."
        )
    return threshold, relevant
