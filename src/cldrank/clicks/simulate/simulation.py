"""`Simulation`: a dataset, a production ranker, a policy and a click model; clicks counted or session by session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import IntArray
from cldrank.arguments import check_number, check_whole, refuse
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.log.values import DEEPEST
from cldrank.clicks.simulate.models import ClickModel, PositionBased
from cldrank.clicks.simulate.policies import Layouts, Policy, TopK
from cldrank.clicks.simulate.production import Production
from cldrank.clicks.table import ClickTable
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, setting
from cldrank.workers import ahead

if TYPE_CHECKING:
    from cldrank.clicks.simulate.session_log import SavedLog

BLOCK = 1 << 16  # sessions drawn from one random stream; part of what a seed means, so never changed lightly
_COUNTED, _BY_SESSION = 0, 1  # each of the two ways has its own random streams
_DRAWERS = 2  # threads that draw sessions beside the one that uses them
_MOST_SESSIONS = (1 << 63) - 1

Progress = Callable[[int], None]
Cells = tuple[IntArray, IntArray, IntArray, IntArray]  # row, position, impressions, clicks


class Sessions(NamedTuple):
    """Some sessions one after the other, one page each.

    first     the number of the first session
    queries   (sessions,) the query of each
    layout    (sessions,) which layout of the policy was shown; one more than the last if the page was drawn
    rows      (sessions, depth) the dataset row at each position, -1 where the page has ended
    clicked   (sessions, depth)

    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
    >>> (block,) = Simulation(data, scores=data.features[:, 0], depth=2).sessions(4)
    >>> block.first, block.rows.shape, block.clicked.dtype
    (0, (4, 2), dtype('bool'))
    """

    first: int
    queries: IntArray
    layout: IntArray
    rows: IntArray
    clicked: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Clicks as people would leave them on the pages of a production ranker.

    dataset         the candidates, with labels
    scores          production's score of each row; a higher one ranks higher
    model           who clicks on what
    policy          how pages vary around production's order
    depth           how many results a page shows
    relevant_from   the lowest label that counts as relevant; None: 3 where labels reach it, else 1
    production      facts about the production ranker, for the truth file

    Each session draws a query evenly, sees one page of it, and clicks. The same seed gives the same clicks.

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
    relevant: NDArray[np.bool_] = field(init=False)
    ranking: Production = field(init=False)
    layouts: Layouts = field(init=False)
    _relevant: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        depth = check_whole("depth", self.depth, least=1, most=DEEPEST)
        scores = _scores(self.scores, self.dataset)
        threshold, relevant = _relevance(self.dataset, self.relevant_from)
        longest = min(depth, max(int(self.dataset.sizes.max(initial=1)), 1))  # no page is longer than its query
        for name, given, kind, such in (
            ("model", self.model, ClickModel, "a click model such as PositionBased(eta=1)"),
            ("policy", self.policy, Policy, "a policy such as TopK()"),
        ):
            if not isinstance(given, kind):
                refuse(name, given, such)
        self.model.check(depth)
        self.policy.check(depth)
        prepared = {
            "depth": depth,
            "scores": scores,
            "relevant_from": threshold,
            "relevant": relevant,
            "_relevant": np.append(relevant, False),
            "ranking": Production(scores, self.dataset.offsets, longest),
            "layouts": self.policy.layouts(longest),
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
        """Whether a query may be shown in more than one way."""
        return len(self.layouts.names) > 1 or not self.counts_all

    @property
    def showable(self) -> IntArray:
        """The rows that any session may see."""
        if self.policy.reaches_all and not self.counts_all:
            return np.arange(self.dataset.n_rows)
        top: IntArray = self.ranking.top[self.ranking.top >= 0]
        return top

    def relevant_on(self, rows: IntArray) -> NDArray[np.bool_]:
        """Whether the rows on some pages are relevant; where a page has ended, row -1, nothing is."""
        on_pages: NDArray[np.bool_] = self._relevant[rows]  # its last entry stands for row -1
        return on_pages

    # -- counted -------------------------------------------------------------------------------------------------

    def draw(self, sessions: float, *, seed: int = 0, progress: Progress | None = None) -> ClickTable:
        """The cells of a log of `sessions` sessions.

        Sessions that see the same layout are counted together, exactly: their number is multinomial, their clicks are
        binomial. Sessions whose page is drawn are simulated in blocks; `progress` gets the number that are done.
        """
        total = whole_sessions(sessions)
        random = np.random.default_rng([check_whole("seed", seed, least=0), _COUNTED])
        queries = self.ranking.n_queries
        pages = random.multinomial(total, np.full(queries, 1 / queries))
        seen = {0: pages}
        if self.varies:
            codes, shares = self._ways()
            seen = dict(zip(codes, random.multinomial(pages, shares[self.ranking.lengths]).T, strict=True))
        drawn = seen.pop(len(self.layouts.names), None)
        cells = [self._layout_cells(layout, shown, random) for layout, shown in sorted(seen.items())]
        if drawn is not None:
            cells.append(self._drawn_cells(drawn, random, progress))
        row, position, impressions, clicks = (np.concatenate(part) for part in zip(*cells, strict=True))
        return ClickTable(Candidates.of(self.dataset), row, position, impressions, clicks)

    def _ways(self) -> tuple[list[int], NDArray[np.float64]]:
        """All that a session may see, and the shares by length of the page: layouts, and one more for a drawn page.

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
        return counts.cells()

    # -- session by session --------------------------------------------------------------------------------------

    def sessions(self, count: float, *, seed: int = 0) -> Iterator[Sessions]:
        """Sessions in blocks of BLOCK, each from its own random stream, so that memory is bounded."""
        total, seed = whole_sessions(count), check_whole("seed", seed, least=0)

        def block(first: int) -> Sessions:
            random = np.random.default_rng([seed, _BY_SESSION, first // BLOCK])
            return self._block(first, min(BLOCK, total - first), random)

        return ahead(block, range(0, total, BLOCK), threads=_DRAWERS, most=_DRAWERS)

    def save_log(self, path: str | PathLike[str], sessions: float, **options: Any) -> SavedLog:
        """Save a raw impression log; `options` (seed, count, progress) are those of the function `save_log`."""
        from cldrank.clicks.simulate.session_log import save_log

        return save_log(self, path, sessions, **options)

    def _block(self, first: int, count: int, random: np.random.Generator) -> Sessions:
        queries = random.integers(0, self.ranking.n_queries, count)
        if self.varies:
            layout, rows = self._varied_pages(queries, random)
        else:
            layout, rows = np.zeros(count, dtype=np.int64), self.ranking.top[queries]
        return Sessions(first, queries, layout, rows, self.model.draw(self.relevant_on(rows), random))

    def _varied_pages(self, queries: IntArray, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        codes, shares = self._ways()
        bounds = np.cumsum(shares[:, :-1], axis=1)[self.ranking.lengths[queries]]
        layout = np.array(codes)[(random.random(len(queries))[:, None] >= bounds).sum(axis=1)]
        drawn = layout == len(self.layouts.names)
        if drawn.all():
            return layout, self.policy.draw(self.ranking, queries, random)
        rows = np.empty((len(queries), self.longest_page), dtype=np.int64)
        rows[~drawn] = self.ranking.pages(queries[~drawn], self.layouts.places[layout[~drawn]])
        if drawn.any():
            rows[drawn] = self.policy.draw(self.ranking, queries[drawn], random)
        return layout, rows


class Counts:
    """Impressions and clicks by row and position, added up session by session; memory does not grow with sessions."""

    def __init__(self, simulation: Simulation) -> None:
        self.depth = simulation.longest_page
        self.candidates = Candidates.of(simulation.dataset)
        self.impressions = np.zeros(simulation.dataset.n_rows * self.depth, dtype=np.int64)
        self.clicks = np.zeros_like(self.impressions)

    def add(self, rows: IntArray, clicked: NDArray[np.bool_]) -> None:
        """Count the results on some pages."""
        cell = rows * self.depth + np.arange(self.depth)
        shown = rows >= 0
        np.add.at(self.impressions, cell[shown], 1)
        np.add.at(self.clicks, cell[shown & clicked], 1)

    def cells(self) -> Cells:
        """Row, position, impressions and clicks of every cell that was shown."""
        shown = np.flatnonzero(self.impressions)
        row, place = np.divmod(shown, self.depth)
        return row, place + 1, self.impressions[shown], self.clicks[shown]

    def table(self) -> ClickTable:
        """The cells, with their candidates."""
        row, position, impressions, clicks = self.cells()
        return ClickTable(self.candidates, row, position, impressions, clicks)


def whole_sessions(sessions: Any) -> int:
    """A number of sessions; 1e5 is accepted for 100000.

    >>> whole_sessions(1e5)
    100000
    """
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
            "no label reaches {:g}, the highest is {:g}: nothing would be relevant; choose a lower {}.",
            threshold,
            highest,
            setting("relevant_from"),
        )
    return threshold, relevant
