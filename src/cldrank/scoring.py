"""`score`: the scores of a ranker for files of candidates, however large.

Rows are scored, ranked and written as they are read, query after query. Where the rows of a query do not lie together,
or ids turn out to be text after numbers, the data are loaded and scored as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from cldrank import segments
from cldrank._typing import FloatArray, IntArray
from cldrank.arguments import check_whole
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.loading import Source, check_format_options, feature_files
from cldrank.data.rows import RowBatch, RowSource, as_numbers, dataset_of, encoded_ids, whole_queries
from cldrank.data.table_rows import TableSource, table_parts
from cldrank.errors import CldrankWarning, UsageError, warn
from cldrank.files import check_writable, replacing
from cldrank.rankers.base import Ranker, UnscorableRowError, check_features
from cldrank.rankers.ranges import RangeWatch
from cldrank.tables import is_frame
from cldrank.wording import count, duration, kind_of

__all__ = ["Scored", "score"]

_GROUP_ROWS = 1 << 16  # of a row group: smaller groups would make the file's own index grow


@dataclass(frozen=True)
class Scored:
    """What `score` wrote.

    written      how many rows the file has: fewer than `rows` if only the top of each query is kept
    scattered    whether the rows of some query did not lie together

    >>> Scored(Path("scores.csv"), 2000, 30, 2000, scattered=False, seconds=1.2).summary()
    'scored 2,000 rows of 30 queries in 1.2 s'
    """

    out: Path
    rows: int
    queries: int
    written: int
    scattered: bool
    seconds: float

    def summary(self) -> str:
        """What was scored, in words."""
        rows = f"{count(self.rows, 'row')} of {count(self.queries, 'query', 'queries')}"
        return f"scored {rows} in {duration(self.seconds)}"


def score(
    ranker: Ranker,
    source: Source | Sequence[Source] | Any,
    out: str | PathLike[str],
    *,
    top: int | None = None,
    device: str | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    missing: Missing = None,
    on_rows: Callable[[int], None] | None = None,
) -> Scored:
    r"""Write the score and the rank of each row of some files, or of a frame, in their order.

    The columns are `query_id`, `doc_id` if the data have it, `score` and `rank`: 1 is the best of its query, and
    ties are broken as in `evaluate`. Ids are written as they are; a spreadsheet may take an id that begins with `=` for
    a formula. A feature far from its range in training is warned of.

    source    what `load` takes, with the same options; features must be the ranker's, in any order if columns name them
    top       keep only the first of each query
    device    where networks and trees compute: cpu, or cuda for a GPU
    on_rows   called with the number of rows done, every now and then; what it raises ends the work

    >>> import tempfile
    >>> from cldrank import scaling
    >>> from cldrank.rankers import LinearRanker
    >>> ranker = LinearRanker(feature_names=["f1"], scaling=scaling.fit(None, [[1.0]]), coefficients=[2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "test.txt"
    ...     _ = path.write_text("0 qid:7 1:0.5 #docid = a\n0 qid:7 1:1.5 #docid = b\n")
    ...     done = score(ranker, path, Path(folder) / "scores.csv")
    ...     print(done.rows, done.queries, (Path(folder) / "scores.csv").read_text())
    2 1 "query_id","doc_id","score","rank"
    7,"a",1,2
    7,"b",3,1
    """
    begun, out = time.perf_counter(), Path(out)
    if out.suffix not in _WRITERS:
        raise UsageError(f"{out}: the file to write must end in .parquet or .csv.")
    check_writable(out)
    if not isinstance(ranker, Ranker):
        raise UsageError(f"score takes a ranker, such as load_ranker(folder) gives, not {kind_of(ranker)}.")
    if top is not None:
        check_whole("top", top, least=1)
    checks.check_missing(missing)
    ranker.score_rows(np.empty((0, len(ranker.feature_names)), np.float32), device=device)  # refuses a device early
    rows = _row_source(ranker, source, columns, missing, n_features, zero_based)
    with checks.about(rows.where[0]):
        check_features(ranker.feature_names, rows.feature_names, of_file=True)
    rows.user = "" if ranker.takes_missing else kind_of(ranker)
    with replacing(out) as temporary, checks.about(*rows.where):
        scorer = _Scorer(ranker, rows, device)
        open_writer = _WRITERS[out.suffix]
        try:
            counts = _written(temporary, open_writer, scorer.in_order(), top, on_rows)
        except _NotInOrderError:
            counts = _written(temporary, open_writer, scorer.as_a_whole(), top, on_rows)
    for difference in scorer.watch.differences().values():
        warn(CldrankWarning(f"{difference}; is it in the same unit?"))
    return Scored(out, *counts, scorer.scattered, time.perf_counter() - begun)


def _row_source(
    ranker: Ranker, source: Any, columns: Any, missing: Missing, n_features: int | None, zero_based: bool
) -> RowSource:
    """The rows of files or a frame, with the features of a ranker."""
    files = [] if is_frame(source) else feature_files(source)
    check_format_options(files, columns, n_features, zero_based)
    if not files or files[0].format != "letor":
        return TableSource(table_parts(files or source), columns, missing, ranker.feature_names)
    letor: dict[str, Any] = {"n_features": n_features, "zero_based": zero_based, "missing": missing}
    from cldrank.data.letor import letor_for_ranker  # which compiles its parser

    return letor_for_ranker([file.path for file in files], ranker.feature_names, **letor)


class _NotInOrderError(Exception):
    """Rows that cannot be scored as they are read."""


class _Scorer:
    """Yield tables of rows with their scores and ranks, and how many queries begin in each."""

    def __init__(self, ranker: Ranker, source: RowSource, device: str | None) -> None:
        self.ranker, self.source, self.device = ranker, source, device
        self.scattered = False  # whether the rows of some query did not lie together
        self.watch = RangeWatch(ranker.feature_names, ranker.ranges)

    def in_order(self) -> Iterator[tuple[pa.Table, int]]:
        """Query after query, as they are read."""
        seen: set[Any] = set()
        schema = None
        for batch in whole_queries(self.source.checked_batches()):
            first, ids = len(seen), batch.run_ids.to_pylist()
            seen.update(ids)
            if len(seen) < first + len(ids):
                raise _NotInOrderError
            scores = self._scores(batch, first)
            table = self._table(batch, scores, segments.descending_ranks(scores, batch.offsets, first=first), schema)
            schema = table.schema
            yield table, len(ids)

    def as_a_whole(self) -> Iterator[tuple[pa.Table, int]]:
        """All rows, loaded and brought together, in the order in which they lay."""
        data = dataset_of(self.source)
        self.scattered = data.source_rows is not None
        scores = self.ranker.predict(data, device=self.device)
        self.watch.forget()
        self.watch.look(data.features)
        columns: dict[str, Any] = {"query_id": data.query_ids[data.row_queries]}
        if data.doc_ids is not None:
            columns["doc_id"] = data.doc_ids
        columns |= {"score": scores, "rank": segments.descending_ranks(scores, data.offsets)}
        order = np.arange(data.n_rows) if data.source_rows is None else np.argsort(data.source_rows)
        for start in range(0, data.n_rows, _GROUP_ROWS):
            rows = order[start : start + _GROUP_ROWS]
            table = pa.table({name: pa.array(values[rows]) for name, values in columns.items()})
            yield table, 0 if start else data.n_queries

    def _scores(self, batch: RowBatch, first_query: int) -> FloatArray:
        place = {} if self.ranker.by_row else {"first_query": first_query}
        self.watch.look(batch.features)
        try:
            return self.ranker.score_rows(batch.features, batch.offsets, device=self.device, **place)
        except UnscorableRowError as error:
            with checks.about(batch.where):
                raise UnscorableRowError(error.row, error.score, batch.first_row) from None

    def _table(self, batch: RowBatch, scores: FloatArray, ranks: IntArray, schema: pa.Schema | None) -> pa.Table:
        """The columns to write; the first batch decides on their types, which hold for all."""
        queries = self._ids("query_id", batch.run_ids, schema)
        columns = {"query_id": queries.take(pa.array(segments.segment_of_rows(batch.offsets)))}
        if batch.doc_ids is not None:
            ids = encoded_ids(batch.doc_ids)
            if ids.null_count or checks.first_repeated(ids.indices.to_numpy(), batch.offsets) is not None:
                raise _NotInOrderError  # an error, or rows of which only some have ids
            columns["doc_id"] = self._ids("doc_id", batch.doc_ids, schema)
        table = pa.table({**columns, "score": scores, "rank": ranks})
        if schema is not None and table.schema != schema:
            raise _NotInOrderError
        return table

    def _ids(self, name: str, ids: pa.Array, schema: pa.Schema | None) -> pa.Array:
        """Ids as they are written: text that stands for whole numbers in all rows so far is a number."""
        ids = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
        may_be_numbers = schema is None or schema.field(name).type == pa.int64()
        numbers = as_numbers([ids]) if self.source.ids_as_text and may_be_numbers else None
        ids = ids if numbers is None else numbers[0]
        return ids if ids.type == pa.int64() else ids.cast(pa.string())


def _written(
    path: Path,
    open_writer: Callable[[Path, pa.Schema], Any],
    ranked: Iterator[tuple[pa.Table, int]],
    top: int | None,
    on_rows: Callable[[int], None] | None,
) -> tuple[int, int, int]:
    """Write all rows, or those of the top ranks; the number of rows, of queries, and of rows written."""
    rows = queries = written = 0
    waiting: list[pa.Table] = []
    with ExitStack() as stack:
        writer = None
        for table, count_of_queries in ranked:
            if writer is None:
                writer = stack.enter_context(open_writer(path, table.schema))
            waiting.append(table if top is None else table.filter(pc.less_equal(table["rank"], top)))
            rows, queries, written = rows + len(table), queries + count_of_queries, written + len(waiting[-1])
            if sum(map(len, waiting)) >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
            if on_rows is not None:
                on_rows(rows)
        if writer is not None and waiting:
            writer.write_table(pa.concat_tables(waiting))
    return rows, queries, written


_WRITERS: dict[str, Callable[[Path, pa.Schema], Any]] = {
    ".parquet": partial(pq.ParquetWriter, compression="zstd", compression_level=1),
    ".csv": pyarrow.csv.CSVWriter,
}
