"""Raw impression logs, session by session, streamed to Parquet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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

Display = Callable[[IntArray, IntArray, NDArray[np.int32]], NDArray[np.float64]]


def save_log(
    simulation: Simulation,
    path: str | PathLike[str],
    sessions: float,
    *,
    seed: int = 0,
    segment: tuple[str, str] | None = None,
    progress: Progress | None = None,
) -> ClickTable:
    """See `Simulation.save_log`."""
    from cldrank.clicks.simulate.simulation import BLOCK, Counts, whole_sessions

    counts, columns = Counts(simulation), Columns(simulation, segment)
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, columns.schema, **columns.options) as writer,
        ThreadPoolExecutor(1) as thread,  # writing releases the interpreter, so it runs beside the drawing
    ):
        waiting: deque[Future[None]] = deque()
        blocks = simulation.sessions(whole_sessions(sessions), seed=seed)
        together = -(-_GROUP_ROWS // (BLOCK * simulation.longest_page))  # blocks that make a row group
        while group := list(islice(blocks, together)):
            for block in group:
                counts.add(block.rows, block.clicked, block.events)
            table = pa.Table.from_batches([columns.batch(block) for block in group])
            waiting.append(thread.submit(writer.write_table, table, row_group_size=len(table)))
            if len(waiting) > _WAITING:
                waiting.popleft().result()
            if progress:
                progress(group[-1].first + len(group[-1].queries))
        for written in waiting:
            written.result()
    return counts.table()


class Columns:
    """Turns sessions into the columns of a log."""

    def __init__(self, simulation: Simulation, segment: tuple[str, str] | None = None) -> None:
        if segment is not None and segment[0].lower() in (*_OWN_COLUMNS, *simulation.events):
            raise UsageError(
                f"`segment` cannot be named {segment[0]}, which is a column of the log; choose another name, such "
                "as device."
            )
        self.segment, candidates = segment, Candidates.of(simulation.dataset)
        self.query_ids, self.doc_ids = encoded(candidates.query_ids), encoded(candidates.doc_ids)
        self.names = pa.array([*simulation.layouts.names, simulation.policy.name])
        self.display = display_probability(simulation) if simulation.varies else None
        session = pa.int64() if segment is None else pa.string()
        fields = [("session_id", session), ("query_id", self.query_ids.type), ("doc_id", self.doc_ids.type)]
        self.events = list(simulation.after_click.chances)
        fields += [("position", pa.int32()), ("clicked", pa.bool_()), *((name, pa.bool_()) for name in self.events)]
        fields += [("ranker_id", _NAME), ("propensity", pa.float64())] if self.display else []
        fields += [(segment[0], _NAME)] if segment else []
        self.schema = pa.schema(fields)
        # Session ids only ever grow: their differences take less than a bit each. Numbers of queries and positions come
        # in runs and cycles, which the compression finds more quickly than a dictionary.
        encoding = {"session_id": "DELTA_BINARY_PACKED" if segment is None else "DELTA_BYTE_ARRAY"}
        plain = {"position", "clicked", *(["query_id"] if pa.types.is_integer(self.query_ids.type) else [])}
        self.options: dict[str, Any] = {
            "compression": "zstd",
            "compression_level": 1,
            "store_schema": False,  # ids read back as plain numbers or text
            "column_encoding": encoding,
            "use_dictionary": [name for name in self.schema.names if name not in {*plain, *encoding}],
        }

    def batch(self, block: Sessions) -> pa.RecordBatch:
        """The impressions of some sessions."""
        depth, rows = block.rows.shape[1], block.rows.ravel()
        sessions = np.arange(block.first, block.first + len(block.queries))
        place = np.tile(np.arange(1, depth + 1, dtype=np.int32), len(block.queries))
        codes = [np.repeat(values, depth) for values in (sessions, block.queries, block.layout.astype(np.int32))]
        happened = [block.events[name].ravel() > 0 for name in self.events]
        values = [*codes, rows, place, block.clicked.ravel(), *happened]
        if rows.min(initial=0) < 0:  # some pages are shorter
            values = [part[rows >= 0] for part in values]
        session, query, layout, row, position, *acted = values
        ids = pa.array(session)
        if self.segment is not None:
            ids = pc.binary_join_element_wise(self.segment[1], ids.cast(pa.string()), "-")
        columns = [ids, self.query_ids.take(query), self.doc_ids.take(row), pa.array(position), *map(pa.array, acted)]
        if self.display:
            columns.append(pa.DictionaryArray.from_arrays(pa.array(layout), self.names))
            columns.append(pa.array(self.display(query, row, position)))
        if self.segment:
            columns.append(pa.repeat(self.segment[1], len(row)).dictionary_encode())
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def encoded(ids: NDArray[Any]) -> pa.Array:
    """Ids in Arrow. Text is kept once, in a dictionary, unless that would be larger than the rows of a group."""
    if ids.dtype.kind in "iu":
        return pa.array(ids)
    coded = pa.array(ids.astype(str), type=pa.string()).dictionary_encode()
    return coded if len(coded.dictionary) <= _GROUP_ROWS // 8 else coded.dictionary_decode()


def display_probability(simulation: Simulation) -> Display:
    """A function for P(the policy shows a row at a position | query), of queries, rows and positions."""
    ranking, layouts, depth = simulation.ranking, simulation.layouts, simulation.longest_page
    lengths, length_code = np.unique(ranking.lengths, return_inverse=True)
    by_layout = np.zeros((len(lengths), depth + 1, depth))  # by length of page, place in production's order, position
    for layout, places in enumerate(layouts.places):
        by_layout[:, places, np.arange(depth)] += layouts.shares[lengths, layout][:, None]
    place = np.minimum(segments.descending_ranks(ranking.scores, ranking.offsets) - 1, depth)  # the last: no layout
    by_drawing = layouts.drawn * simulation.policy.drawn_probability(ranking)

    def probability(queries: IntArray, rows: IntArray, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        laid_out: NDArray[np.float64] = by_layout[length_code[queries], place[rows], positions - 1]
        return laid_out + by_drawing[queries]

    return probability
