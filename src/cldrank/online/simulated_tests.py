"""Simulated experiments: the log that people would leave on interleaved pages, or in the arms of an A/B test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from os import PathLike
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from cldrank._typing import Floats, IntArray
from cldrank.arguments import check_choice, check_number, check_whole
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.simulate.session_log import encoded
from cldrank.clicks.simulate.simulation import BLOCK, Progress, Simulation, whole_sessions
from cldrank.errors import UsageError
from cldrank.files import replacing
from cldrank.online.arms import assign
from cldrank.online.interleaving import BOTH, DEEPEST_PAGE, TEAMS, Drafts, check_scores

Kind = Literal["interleaving", "ab"]
_PAGES, _PEOPLE = 2, 3  # random streams; `Simulation` has others
_FIRST_DAY = np.datetime64("2024-05-01T00:00:00", "us")


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedTest:
    """An experiment between two rankers, with its log, a row per impression.

    simulation   the candidates, the old ranker (production), who clicks on what, and how long a page is
    new          the new ranker's score of each row
    kind         "interleaving": every page is drafted by both rankers; "ab": a person sees pages of one ranker
    people       how many people there are, some of whom search far more than others; None: a page each
    interests    how many queries each person searches for, again and again; None: any
    days         over how many days the pages are spread, in the order of time; None: a log without times
    share        of people who are shown the new ranker, in an A/B test
    experiment   the name of the experiment

    Columns are session_id, query_id, doc_id, position, clicked and experiment; of interleaved pages also team, new_rank
    and old_rank, of an A/B test arm; with `people` user_id, with `days` timestamp. As in a search service, pages and
    arms are drawn from hashes: a person who asks again sees the same page.

    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
    >>> test = SimulatedTest(Simulation(data, scores=[3, 2, 1], depth=2), new=[2, 3, 1])
    >>> test.table(3, seed=0).select(["doc_id", "team", "old_rank"]).to_pylist()[:2]
    [{'doc_id': 2, 'team': 'new', 'old_rank': 2}, {'doc_id': 1, 'team': 'old', 'old_rank': 1}]
    """

    simulation: Simulation
    new: ArrayLike
    kind: Kind = "interleaving"
    people: int | None = None
    interests: int | None = None
    days: int | None = None
    share: float = 0.5
    experiment: str = "simulated"
    drafts: Drafts = field(init=False)

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("interleaving", "ab"))
        for name in ("people", "interests", "days"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least=1)
        check_number("share", self.share, least=0, most=1)
        if self.simulation.varies:
            raise UsageError(
                f"the pages of an experiment come from its two rankers, not from {self.simulation.policy}; give a "
                "`simulation` whose policy is TopK()."
            )
        if self.interests is not None and self.people is None:
            raise UsageError("`interests` are those of `people`; say how many people there are.")
        if self.simulation.longest_page > DEEPEST_PAGE:
            raise UsageError(f"pages of an experiment have at most {DEEPEST_PAGE:,} results; choose a lower `depth`.")
        old, offsets = self.simulation.ranking, self.simulation.dataset.offsets
        new = check_scores(self.new, self.simulation.dataset.n_rows)
        object.__setattr__(self, "drafts", Drafts(new, old.scores, offsets, old.depth))

    def table(self, pages: float, *, seed: int = 0) -> pa.Table:
        """The log of some pages, in memory."""
        return pa.Table.from_batches(list(self.batches(pages, seed=seed)))

    def save(self, path: str | PathLike[str], pages: float, *, seed: int = 0, progress: Progress | None = None) -> None:
        """Save the log of some pages as a Parquet file, whole or not at all; memory does not grow with pages.

        progress   gets the number of pages that are done
        """
        batches = self.batches(pages, seed=seed)
        first = next(batches)
        with replacing(path) as temporary, pq.ParquetWriter(temporary, first.schema, compression="zstd") as writer:
            for part, batch in enumerate(chain([first], batches), 1):
                writer.write_batch(batch)
                if progress:
                    progress(min(part * BLOCK, int(pages)))

    def batches(self, pages: float, *, seed: int = 0) -> Iterator[pa.RecordBatch]:
        """The log of some pages, in parts."""
        total, seed = whole_sessions(pages), check_whole("seed", seed, least=0)
        crowd = _Crowd(self, seed)
        for first in range(0, total, BLOCK):
            sessions = np.arange(first, min(first + BLOCK, total))
            random = np.random.default_rng([seed, _PAGES, first // BLOCK])
            people, queries = crowd.searches(sessions, random)
            rows, facts = self._pages(people, queries, seed)
            clicked = self.simulation.model.draw(self.simulation.relevant_on(rows), random)
            times = None if self.days is None else sessions * (self.days * 86_400_000_000 // total)
            yield self._batch(sessions, people, queries, rows, clicked, facts, times)

    def _pages(self, people: IntArray, queries: IntArray, seed: int) -> tuple[IntArray, dict[str, NDArray[np.integer]]]:
        """The rows on each page, and what else the log says of each result."""
        if self.kind == "interleaving":
            keys = [(self.experiment, seed, *who) for who in zip(people.tolist(), queries.tolist(), strict=True)]
            drafted = self.drafts.pages(queries, keys)
            return drafted.rows, {"team": drafted.team, "new_rank": drafted.new_rank, "old_rank": drafted.old_rank}
        each, of_page = np.unique(people, return_inverse=True)
        shares, salt = {"new": self.share, "old": 1 - self.share}, f"{self.experiment} {seed}"
        arms = np.array([TEAMS.index(assign(person, salt, shares)) for person in each.tolist()], np.int8)[of_page]
        rows = self.drafts.top[arms, queries]
        return rows, {"arm": np.broadcast_to(arms[:, None], rows.shape)}

    @cached_property
    def _ids(self) -> tuple[pa.Array, pa.Array]:
        candidates = Candidates.of(self.simulation.dataset)
        return encoded(candidates.query_ids), encoded(candidates.doc_ids)

    def _batch(
        self,
        sessions: IntArray,
        people: IntArray,
        queries: IntArray,
        rows: IntArray,
        clicked: NDArray[np.bool_],
        facts: dict[str, NDArray[np.integer]],
        times: IntArray | None,
    ) -> pa.RecordBatch:
        shown = rows >= 0
        query_ids, doc_ids = self._ids
        page, place = np.nonzero(shown)
        columns = {
            "session_id": pa.array(sessions[page]),
            "query_id": query_ids.take(pa.array(queries[page])),
            "doc_id": doc_ids.take(pa.array(rows[shown])),
            "position": pa.array((place + 1).astype(np.int32)),
            "clicked": pa.array(clicked[shown]),
        }
        for name, values in facts.items():
            if name in ("team", "arm"):
                words = pa.array(TEAMS if name == "team" else TEAMS[:BOTH])
                columns[name] = pa.DictionaryArray.from_arrays(pa.array(values[shown]), words)
            else:
                columns[name] = pa.array(values[shown].astype(np.int32))
        if self.people is not None:
            columns["user_id"] = pa.array(people[page])
        if times is not None:
            columns["timestamp"] = pa.array(_FIRST_DAY + times[page])
        name = pa.array([self.experiment])
        columns["experiment"] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(page), np.int8)), name)
        return pa.RecordBatch.from_pydict(columns)


class _Crowd:
    """People, how often each searches, and for what."""

    def __init__(self, test: SimulatedTest, seed: int) -> None:
        self.n_queries, self.people = test.simulation.ranking.n_queries, test.people
        random = np.random.default_rng([seed, _PEOPLE])
        self.reach: Floats = np.cumsum(random.lognormal(0.0, 1.0, test.people or 1))
        self.wishes = None
        if test.interests is not None:
            self.wishes = random.integers(0, self.n_queries, (test.people or 1, test.interests))

    def searches(self, sessions: IntArray, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Who searches for which query."""
        if self.people is None:
            return sessions, random.integers(0, self.n_queries, len(sessions))
        drawn = random.random(len(sessions)) * self.reach[-1]
        people = np.minimum(np.searchsorted(self.reach, drawn, side="right"), self.people - 1)
        if self.wishes is None:
            return people, random.integers(0, self.n_queries, len(sessions))
        return people, self.wishes[people, random.integers(0, self.wishes.shape[1], len(sessions))]
