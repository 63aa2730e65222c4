"""Raw impression logs, session by session, streamed to Parquet."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
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
from cldrank.errors import UsageError
from cldrank.files import replacing

if TYPE_CHECKING:
    from cldrank.clicks.simulate.simulation import Progress, Sessions, Simulation

_GROUP_ROWS = 1 << 20
_OWN_COLUMNS = ("session_id", "query_id", "doc_id", "position", "clicked", "ranker_id", "propensity")
_WAITING = 2  # row groups made and not yet written
_NAME = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class SavedLog:
    """What went into a log: impressions and clicks by position, and, if they were counted, its cells."""

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
    """See `Simulation.save_log`."""
    from cldrank.clicks.simulate.simulation import BLOCK, Counts, whole_sessions

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
        blocks = simulation.sessions(total, seed=seed)
        together = -(-_GROUP_ROWS // (BLOCK * simulation.longest_page))  # blocks that make a row group
        while group := list(islice(blocks, together)):
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


class Columns:
    """Turns sessions into the columns of a log."""

    def __init__(self, simulation: Simulation, segment: tuple[str, str] | None = None) -> None:
        if segment is not None and segment[0].lower() in _OWN_COLUMNS:
            raise UsageError(
                f"`segment` cannot be named {segment[0]}, which is a column of the log; choose another name, such "
                "as device."
            )
        self.segment, self.varies = segment, simulation.varies
        candidates, policy = Candidates.of(simulation.dataset), simulation.policy
        top = simulation.ranking.top
        draws_any = policy.reaches_all and not simulation.counts_all
        self.query_ids = _Ids(candidates.query_ids, np.arange(candidates.n_queries))
        self.doc_ids = _Ids(candidates.doc_ids, np.arange(candidates.n_rows) if draws_any else top[top >= 0])
        self.names = pa.array([*simulation.layouts.names, policy.name])
        self.propensities = _DisplayProbabilities.of(simulation) if self.varies else None
        session = pa.int64() if segment is None else pa.string()
        fields = [("session_id", session), ("query_id", self.query_ids.kind), ("doc_id", self.doc_ids.kind)]
        fields += [("position", pa.int32()), ("clicked", pa.bool_())]
        fields += [("ranker_id", _NAME)] if self.varies else []
        fields += [("propensity", pa.float64())] if self.propensities else []
        fields += [(segment[0], _NAME)] if segment else []
        self.schema = pa.schema(fields)
        # Session ids only ever grow: their differences take less than a bit each. Numbers of queries and positions come
        # in runs and cycles, which the compression finds more quickly than a dictionary. Numbers of documents on drawn
        # pages hardly repeat, but lie near each other within a query.
        encoding = {"session_id": "DELTA_BINARY_PACKED" if segment is None else "DELTA_BYTE_ARRAY"}
        coded = {"doc_id", "ranker_id", "propensity", *([segment[0]] if segment else [])}
        coded |= {"query_id"} if self.query_ids.text else set()
        if policy.reaches_all and self.doc_ids.text is None:
            encoding["doc_id"] = "DELTA_BINARY_PACKED"
            coded.remove("doc_id")
        self.options: dict[str, Any] = {
            "compression": "zstd",
            "compression_level": 1,
            "store_schema": False,  # ids read back as plain numbers or text
            "column_encoding": encoding,
            "use_dictionary": [name for name in self.schema.names if name in coded],
        }

    def batch(self, block: Sessions) -> pa.RecordBatch:
        """The impressions of some sessions."""
        depth, rows = block.rows.shape[1], block.rows.ravel()
        sessions = np.arange(block.first, block.first + len(block.queries))
        place = np.tile(np.arange(1, depth + 1, dtype=np.int32), len(block.queries))
        codes = [np.repeat(values, depth) for values in (sessions, block.queries, block.layout.astype(np.int32))]
        values = [*codes, rows, place, block.clicked.ravel()]
        if rows.min(initial=0) < 0:  # some pages are shorter
            values = [part[rows >= 0] for part in values]
        session, query, layout, row, position, clicked = values
        ids = pa.array(session)
        if self.segment is not None:
            ids = pc.binary_join_element_wise(self.segment[1], ids.cast(pa.string()), "-")
        columns = [ids, self.query_ids.of(query), self.doc_ids.of(row), pa.array(position), pa.array(clicked)]
        if self.varies:
            columns.append(pa.DictionaryArray.from_arrays(pa.array(layout), self.names))
        if self.propensities:
            columns.append(pa.array(self.propensities.at(query, row, position)))
        if self.segment:
            code = pa.array(np.zeros(len(row), dtype=np.int32))
            columns.append(pa.DictionaryArray.from_arrays(code, pa.array([self.segment[1]])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class _Ids:
    """Ids by their index. Text is kept once, in a dictionary, unless that would be larger than the rows of a group."""

    def __init__(self, ids: NDArray[Any], used: IntArray) -> None:
        self.ids, self.text = ids, None
        if ids.dtype.kind in "iu":
            self.kind = pa.from_numpy_dtype(ids.dtype)
            return
        unique, codes = np.unique(ids[used], return_inverse=True)
        self.ids = np.zeros(len(ids), dtype=np.int32)
        self.ids[used] = codes
        self.text = pa.array(unique.astype(str), type=pa.string())
        self.kind = _NAME if len(unique) <= _GROUP_ROWS // 8 else pa.string()

    def of(self, index: IntArray) -> pa.Array:
        values = pa.array(self.ids[index])
        if self.text is None:
            return values
        return pa.DictionaryArray.from_arrays(values, self.text) if self.kind == _NAME else self.text.take(values)


@dataclass(frozen=True)
class _DisplayProbabilities:
    """P(the policy shows this row at this position | query).

    by_layout     (lengths, places + 1, positions) by length of page and place in production's order, the last for rows
                  that no layout shows
    by_drawing    (queries,) what drawn pages add, the same for all rows that can be there
    length_code   (queries,) which of the lengths its page has
    place         (rows,) in production's order, from 0
    """

    by_layout: NDArray[np.float64]
    by_drawing: NDArray[np.float64]
    length_code: IntArray
    place: IntArray

    @classmethod
    def of(cls, simulation: Simulation) -> _DisplayProbabilities | None:
        """Those of a simulation; None where the policy does not know the probability of a drawn page."""
        ranking, layouts, depth = simulation.ranking, simulation.layouts, simulation.longest_page
        drawn = simulation.policy.drawn_probability(ranking, np.arange(ranking.n_queries))
        if drawn is None:
            return None
        lengths, length_code = np.unique(ranking.lengths, return_inverse=True)
        by_layout = np.zeros((len(lengths), depth + 1, depth))
        for layout, places in enumerate(layouts.places):
            by_layout[:, places, np.arange(depth)] += layouts.shares[lengths, layout][:, None]
        ranks = segments.descending_ranks(ranking.scores, ranking.offsets)
        return cls(by_layout, layouts.drawn * drawn, length_code, np.minimum(ranks - 1, depth))

    def at(self, queries: IntArray, rows: IntArray, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        """The probabilities of some impressions."""
        laid_out: NDArray[np.float64] = self.by_layout[self.length_code[queries], self.place[rows], positions - 1]
        return laid_out + self.by_drawing[queries]
