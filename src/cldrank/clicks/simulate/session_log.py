"""Raw impression logs, session by session, streamed to Parquet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.clicks.candidates import Candidates
from cldrank.clicks.table import ClickTable
from cldrank.errors import Spelling, UsageError
from cldrank.files import replacing

if TYPE_CHECKING:
    from cldrank.clicks.simulate.simulation import Progress, Sessions, Simulation

_GROUP_ROWS = 1 << 20
_OWN_COLUMNS = ("session_id", "query_id", "doc_id", "position", "clicked", "ranker_id", "propensity")
_WAITING = 2  # row groups made and not yet written

# Session ids only ever grow: their differences take less than a bit each. Numbers of queries and positions come in runs
# and cycles, which the compression finds more quickly than a dictionary. Numbers of documents on drawn pages hardly
# repeat, but lie near each other within a query.
WRITER_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "column_encoding": {"session_id": "DELTA_BINARY_PACKED"},
    "store_schema": False,  # ids read back as plain numbers or text
}


@dataclass(frozen=True)
class SavedLog:
    """What went into a log: impressions and clicks by position, and, if they were counted, its cells.

    >>> SavedLog(2, impressions=np.array([2, 2]), clicks=np.array([1, 0])).cells is None
    True
    """

    sessions: int
    impressions: IntArray
    clicks: IntArray
    cells: ClickTable | None = None


def save_log(
    simulation: Simulation,
    path: str | PathLike[str],
    sessions: float,
    *,
    seed: int = 0,
    count: bool = False,
    segment: tuple[str, str] | None = None,
    progress: Progress | None = None,
) -> SavedLog:
    """Save one row per impression to a Parquet file, which is complete or not there at all.

    Columns are session_id, query_id, doc_id, position and clicked; if the policy varies pages, also ranker_id (which
    layout was shown) and, where it is known, propensity (the probability with which the policy shows this document at
    this position). `segment`, a column and its value such as ("device", "phone"), adds that column; the ids of sessions
    then begin with the value, so that logs of several segments can be read together. Memory does not grow with
    sessions. `count` also counts the cells; `progress` gets the number of sessions that are done.

    >>> import tempfile
    >>> from cldrank.clicks.simulate import Simulation
    >>> from cldrank.data.dataset import RankingDataset
    >>> data = RankingDataset.from_arrays([[3], [2], [1]], [7, 7, 7], labels=[0, 4, 1])
    >>> simulation = Simulation(data, scores=data.features[:, 0], depth=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = save_log(simulation, f"{folder}/log.parquet", 100, count=True)
    >>> saved.impressions, saved.cells.n_cells
    (array([100, 100]), 2)
    """
    from cldrank.clicks.simulate.simulation import Counts, whole_sessions

    total = whole_sessions(sessions)
    counts = Counts(simulation) if count else None
    by_position = np.zeros((2, simulation.longest_page), dtype=np.int64)
    columns = Columns(simulation, segment)
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, columns.schema, **columns.options) as writer,
        ThreadPoolExecutor(1) as thread,  # writing releases the interpreter, so it runs beside the drawing
    ):
        waiting: deque[Future[None]] = deque()
        for group in _groups(simulation.sessions(total, seed=seed), simulation.longest_page):
            for block in group:
                by_position += (block.rows >= 0).sum(axis=0), (block.clicked & (block.rows >= 0)).sum(axis=0)
                if counts:
                    counts.add(block.rows, block.clicked)
            table = pa.Table.from_batches([columns.batch(block) for block in group])
            waiting.append(thread.submit(writer.write_table, table, row_group_size=len(table)))
            if len(waiting) > _WAITING:
                waiting.popleft().result()
            if progress:
                progress(group[-1].first + len(group[-1].queries))
        for written in waiting:
            written.result()
    return SavedLog(total, by_position[0], by_position[1], None if counts is None else counts.table())


def _groups(blocks: Iterator[Sessions], depth: int) -> Iterator[list[Sessions]]:
    """As many blocks together as make a row group."""
    group: list[Sessions] = []
    for block in blocks:
        group.append(block)
        if sum(len(part.queries) for part in group) * depth >= _GROUP_ROWS:
            yield group
            group = []
    if group:
        yield group


class Columns:
    """Turns sessions into the columns of a log."""

    def __init__(self, simulation: Simulation, segment: tuple[str, str] | None = None) -> None:
        if segment is not None and segment[0].lower() in _OWN_COLUMNS:
            raise UsageError(
                "{} cannot name the segment: {} is a column of the log itself. Choose another name, such as device.",
                Spelling(f"segment={segment!r}", f"--segment {'='.join(segment)}"),
                segment[0],
            )
        self.simulation, self.segment = simulation, segment
        candidates = Candidates.of(simulation.dataset)
        self.query_ids = _Ids(candidates.query_ids, np.arange(candidates.n_queries))
        self.doc_ids = _Ids(candidates.doc_ids, simulation.showable)
        self.varies = simulation.varies
        self.names = pa.array([*simulation.layouts.names, simulation.policy.name])
        self.chances = _Chances(simulation) if self.varies and _Chances.known(simulation) else None
        session = pa.int64() if segment is None else pa.string()
        fields = [("session_id", session), ("query_id", self.query_ids.kind), ("doc_id", self.doc_ids.kind)]
        fields += [("position", pa.int32()), ("clicked", pa.bool_())]
        fields += [("ranker_id", pa.dictionary(pa.int32(), pa.string()))] if self.varies else []
        fields += [("propensity", pa.float64())] if self.chances else []
        fields += [(segment[0], pa.dictionary(pa.int32(), pa.string()))] if segment else []
        self.schema = pa.schema(fields)
        coded = {"doc_id", "ranker_id", "propensity"} | ({"query_id"} if self.query_ids.text else set())
        encoding = dict(WRITER_OPTIONS["column_encoding"])
        if segment is not None:
            encoding["session_id"] = "DELTA_BYTE_ARRAY"
            coded.add(segment[0])
        if simulation.policy.reaches_all and self.doc_ids.text is None:
            encoding["doc_id"] = "DELTA_BINARY_PACKED"
            coded.remove("doc_id")
        dictionary = [name for name in self.schema.names if name in coded]
        self.options = WRITER_OPTIONS | {"column_encoding": encoding, "use_dictionary": dictionary}

    def batch(self, block: Sessions) -> pa.RecordBatch:
        """The impressions of some sessions."""
        depth, rows = block.rows.shape[1], block.rows.ravel()
        sessions = np.arange(block.first, block.first + len(block.queries))
        place = np.tile(np.arange(1, depth + 1, dtype=np.int32), len(block.queries))
        layouts = block.layout.astype(np.int32)
        codes = [np.repeat(values, depth) for values in (sessions, block.queries, layouts)]
        values = [*codes, rows, place, block.clicked.ravel()]
        if rows.min(initial=0) < 0:  # some pages are shorter
            shown = rows >= 0
            values = [part[shown] for part in values]
        session, query, layout, row, position, clicked = values
        columns = [
            self.session_ids(session),
            self.query_ids.of(query),
            self.doc_ids.of(row),
            pa.array(position),
            pa.array(clicked),
        ]
        if self.varies:
            columns.append(pa.DictionaryArray.from_arrays(pa.array(layout), self.names))
        if self.chances:
            columns.append(pa.array(self.chances.of(query, row, position)))
        if self.segment:
            code = pa.array(np.zeros(len(row), dtype=np.int32))
            columns.append(pa.DictionaryArray.from_arrays(code, pa.array([self.segment[1]])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def session_ids(self, numbers: IntArray) -> pa.Array:
        """The ids of sessions: their numbers, behind the name of the segment if there is one."""
        if self.segment is None:
            return pa.array(numbers)
        return pc.binary_join_element_wise(self.segment[1], pa.array(numbers).cast(pa.string()), "-")


class _Ids:
    """Ids by their index. Text is kept once, in a dictionary, unless that would be larger than the rows of a group."""

    def __init__(self, ids: NDArray[Any], used: IntArray) -> None:
        self.ids = ids
        self.text: pa.Array | None = None
        if ids.dtype.kind in "iu":
            self.kind = pa.from_numpy_dtype(ids.dtype)
            return
        unique, codes = np.unique(ids[used], return_inverse=True)
        self.ids = np.zeros(len(ids), dtype=np.int32)
        self.ids[used] = codes
        self.text = pa.array(unique.astype(str), type=pa.string())
        self.coded = len(unique) <= _GROUP_ROWS // 8
        self.kind = pa.dictionary(pa.int32(), pa.string()) if self.coded else pa.string()

    def of(self, index: IntArray) -> pa.Array:
        values = pa.array(self.ids[index])
        if self.text is None:
            return values
        return pa.DictionaryArray.from_arrays(values, self.text) if self.coded else self.text.take(values)


class _Chances:
    """P(the policy shows this row at this position | query): over the layouts, and over the drawn pages."""

    def __init__(self, simulation: Simulation) -> None:
        ranking, layouts, depth = simulation.ranking, simulation.layouts, simulation.longest_page
        lengths, self.kinds = np.unique(ranking.lengths, return_inverse=True)
        # by kind of page, place in production's order (one more for what is never laid out), and position
        self.laid = np.zeros((len(lengths), depth + 1, depth))
        for layout, places in enumerate(layouts.places):
            self.laid[:, places, np.arange(depth)] += layouts.shares[lengths, layout][:, None]
        queries = np.arange(ranking.n_queries)
        chance = simulation.policy.drawn_chance(ranking, queries)
        self.drawn = layouts.drawn * (np.zeros(len(queries)) if chance is None else chance)
        ranks = segments.descending_ranks(ranking.scores, ranking.offsets)
        self.places = np.minimum(ranks - 1, depth)

    @staticmethod
    def known(simulation: Simulation) -> bool:
        """Whether the policy knows the probability of a drawn page."""
        return simulation.policy.drawn_chance(simulation.ranking, np.zeros(1, dtype=np.int64)) is not None

    def of(self, queries: IntArray, rows: IntArray, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        chances: NDArray[np.float64] = self.laid[self.kinds[queries], self.places[rows], positions - 1]
        return chances + self.drawn[queries]
