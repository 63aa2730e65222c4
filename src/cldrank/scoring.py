"""`score`: the scores of a ranker for files of candidates, however large.

Rows are scored as they are read, and their ids and scores go to a temporary file. Only after the last row is it known
whether the rows of each query lie together, and what the ids are. Where they lie together, a second pass over the small
file ranks query after query; where they do not, DuckDB, which spills to disk, sorts the rows by query before and back
after. So memory is bounded by a block of rows and the largest query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_whole
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.loading import Source, columns_by_role
from cldrank.data.row_blocks import FeatureStream, RowBlock, whole_queries
from cldrank.data.streaming import open_stream
from cldrank.errors import CldrankError, DataError, FormatError, Spelling, UsageError
from cldrank.files import check_writable, replacing, scratch
from cldrank.rankers.base import Ranker, UnscorableRowError, check_features
from cldrank.reading import reason
from cldrank.wording import count, duration, kind_of
from cldrank.workers import available_cores, fair_threads

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Scored", "score"]

_BATCH_ROWS, _BUFFER_BYTES = 1 << 16, 1 << 16
_SORT_MEMORY, _SORT_THREADS = "256MB", 4  # of DuckDB, which spills beyond it and needs some for each thread
_REPEATED = "SELECT 1 FROM scores GROUP BY query_id, doc_id HAVING count(*) > 1 LIMIT 1"
_BY_QUERY = """
    SELECT query_id, doc_id, score, file_row_number AS row
    FROM scores JOIN (SELECT query_id, min(row) AS first FROM runs GROUP BY query_id) USING (query_id)
    ORDER BY first, row
"""


@dataclass(frozen=True)
class Scored:
    """What `score` wrote.

    out          the file
    rows         how many rows were scored
    queries      of how many queries
    written      how many rows the file has: fewer than `rows` if only the top of each query is kept
    scattered    whether the rows of some query did not lie together
    seconds      how long it took
    """

    out: Path
    rows: int
    queries: int
    written: int
    scattered: bool
    seconds: float

    def summary(self) -> str:
        """What was scored, in words.

        >>> Scored(Path("scores.csv"), 2000, 30, 2000, scattered=False, seconds=1.2).summary()
        'scored 2,000 rows of 30 queries in 1.2 s'
        """
        return (
            f"scored {count(self.rows, 'row')} of {count(self.queries, 'query', 'queries')} in {duration(self.seconds)}"
        )


def score(
    ranker: Ranker,
    source: Source | Sequence[Source],
    out: str | PathLike[str],
    *,
    top: int | None = None,
    device: str | None = None,
    query: str | None = None,
    doc: str | None = None,
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    groups: Source | Sequence[Source] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
    on_rows: Callable[[int], None] | None = None,
) -> Scored:
    r"""Write the score and the rank of each row of some files, in the order of the files.

    The columns are `query_id`, `doc_id` where the data have one, `score` and `rank`: 1 is the best of its query, and
    ties are broken as in `evaluate`. A file named `.parquet` or `.csv` has them as columns; `.run` or `.trec` is a run
    as TREC has them.

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
    ...     _ = path.write_text("0 qid:7 1:0.5  # a\n0 qid:7 1:1.5  # b\n")
    ...     done = score(ranker, path, Path(folder) / "scores.csv")
    ...     print(done.rows, done.queries, (Path(folder) / "scores.csv").read_text())
    2 1 "query_id","doc_id","score","rank"
    7,"a",1,2
    7,"b",3,1
    """
    from cldrank.data.score_writers import writer_for

    begun, out = time.perf_counter(), Path(out)
    kind = writer_for(out)
    check_writable(out)
    if not isinstance(ranker, Ranker):
        raise UsageError(f"score takes a ranker, such as load_ranker(folder) gives, not {kind_of(ranker)}.")
    if top is not None:
        check_whole("top", top, least=1)
    ranker.score_rows(np.empty((0, len(ranker.feature_names)), np.float32), device=device)  # refuses a device early
    reading: dict[str, Any] = {"groups": groups, "missing": missing}
    reading["columns"] = columns_by_role(query, doc, label, features)
    stream = open_stream(source, ranker.feature_names, n_features=n_features, zero_based=zero_based, **reading)
    with checks.about(stream.paths[0]):
        check_features(ranker.feature_names, stream.feature_names, of_file=True)
    with _beside(out) as folder, replacing(out) as temporary:
        found = _Scores(folder)
        found.take(_scored(ranker, stream, device, on_rows))
        found.settle(stream)
        if found.scattered and not ranker.by_row:
            found.replace_scores(_scores_in_file_order(ranker, stream, device))
        written = 0
        with checks.about(*stream.paths), kind(temporary) as writer:
            for table in found.ranked(top):
                writer.write(found.named(table))
                written += len(table)
    return Scored(out, found.rows, found.queries, written, found.scattered, time.perf_counter() - begun)


@contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A temporary folder where the output will be, which has room for as much; elsewhere for a pipe."""
    parent = None if out.exists() and not out.is_file() else out.resolve().parent
    with scratch(parent, out.name or "cldrank") as folder:
        yield folder


# -- scoring -----------------------------------------------------------------------------------------------------


def _scored(
    ranker: Ranker, stream: FeatureStream, device: str | None, on_rows: Callable[[int], None] | None
) -> Iterator[tuple[RowBlock, NDArray[np.float64]]]:
    """All rows with their scores."""
    blocks = _complete(stream.blocks(), ranker)
    done = queries = 0
    for block in blocks if ranker.by_row else whole_queries(blocks):
        place = {} if ranker.by_row else {"first_query": queries}
        try:
            scores = ranker.score_rows(block.features, block.offsets, device=device, **place)
        except UnscorableRowError as error:
            with checks.about(block.path):
                raise UnscorableRowError(error.row, error.score, block.first_row) from None
        yield block, scores
        done, queries = done + len(block), queries + len(block.run_rows)
        if on_rows is not None:
            on_rows(done)


def _complete(blocks: Iterator[RowBlock], ranker: Ranker) -> Iterator[RowBlock]:
    """The blocks; a missing value is refused where the ranker has no use for it."""
    for block in blocks:
        if not ranker.takes_missing and checks.has_missing(block.features):
            row, column, query = checks.first_of(np.isnan(block.features), block.offsets, block.run_ids)
            raise FormatError(
                "feature {!r} of row {} (counted from 0, query {}) is missing, and {} cannot use that; fill in missing "
                "values with {}.",
                ranker.feature_names[column],
                block.first_row + row,
                query,
                kind_of(ranker),
                Spelling("missing=0.0", "--missing 0"),
                path=block.path,
            )
        yield block


def _scores_in_file_order(ranker: Ranker, stream: FeatureStream, device: str | None) -> NDArray[np.float64]:
    """Scores that depend on the whole query where queries are scattered: all rows are loaded and brought together."""
    dataset = stream.whole()
    scores = ranker.predict(dataset, device=device)
    if dataset.source_rows is None:
        return scores
    found = np.empty_like(scores)
    found[dataset.source_rows] = scores
    return found


# -- ranking -----------------------------------------------------------------------------------------------------


class _Scores:
    """Ids and scores of all rows in temporary files, ids as text until it is known that all are numbers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rows = self.queries = self._runs = 0
        self.scattered = self._has_documents = False
        self._numbers = {"query_id": True, "doc_id": True}  # whether all ids are whole numbers

    def take(self, scored: Iterator[tuple[RowBlock, NDArray[np.float64]]]) -> None:
        """Write all rows, and where each run of rows of one query begins."""
        import pyarrow as pa

        from cldrank.data.score_writers import ParquetScores

        last = None
        with ParquetScores(self._path("scores")) as scores, ParquetScores(self._path("runs")) as runs:
            for block, values in scored:
                queries, documents = self._text("query_id", block.run_ids), pa.nulls(len(block), pa.string())
                if block.doc_ids is not None:
                    documents = self._text("doc_id", block.doc_ids)
                of_rows = queries.take(pa.array(segments.segment_of_rows(block.offsets)))
                scores.write(pa.table({"query_id": of_rows, "doc_id": documents, "score": values}))
                new = slice(1 if queries[0].as_py() == last else 0, None)
                runs.write(pa.table({"query_id": queries[new], "row": block.run_rows[new] + self.rows}))
                last = queries[-1].as_py()
                self._runs += len(queries[new])
                self.rows += len(block)

    def settle(self, stream: FeatureStream) -> None:
        """Find out what only all rows together show: whether queries are scattered, and documents have ids."""
        documents = stream.documents()
        with self._asking("runs", "scores") as engine:
            (self.queries,) = engine.execute("SELECT count(DISTINCT query_id) FROM runs").fetchone()
            self.scattered = self.queries < self._runs
            if documents == "single" and engine.execute(_REPEATED).fetchone():
                documents = "none"
        self._has_documents = documents != "none"

    def replace_scores(self, values: NDArray[np.float64]) -> None:
        """Other scores for all rows, in the order of the file."""
        import pyarrow as pa

        from cldrank.data.score_writers import ParquetScores

        start = 0
        with ParquetScores(self._path("other")) as writer:
            for table in self._batches("scores"):
                own = pa.array(values[start : start + len(table)])
                writer.write(table.set_column(table.schema.get_field_index("score"), "score", own))
                start += len(table)
        self._path("other").replace(self._path("scores"))

    def ranked(self, top: int | None) -> Iterator[pa.Table]:
        """All rows with their ranks in the order of the file, or those of the top ranks."""
        if not self.scattered:
            yield from self._with_ranks("scores", top)
            return
        from cldrank.data.score_writers import ParquetScores

        with self._asking("runs", "scores") as engine:
            engine.sql(_BY_QUERY).write_parquet(str(self._path("by_query")))
        with ParquetScores(self._path("ranked")) as writer:
            for table in self._with_ranks("by_query", top):
                writer.write(table)
        with self._asking("ranked") as engine:
            engine.sql("SELECT query_id, doc_id, score, rank FROM ranked ORDER BY row").write_parquet(
                str(self._path("by_row"))
            )
        yield from self._batches("by_row")

    def named(self, table: pa.Table) -> pa.Table:
        """The columns of the output, ids as numbers if all are."""
        import pyarrow as pa

        columns = {}
        for name in ("query_id", *(["doc_id"] if self._has_documents else []), "score", "rank"):
            columns[name] = table.column(name).cast(pa.int64()) if self._numbers.get(name) else table.column(name)
        return pa.table(columns)

    def _with_ranks(self, name: str, top: int | None) -> Iterator[pa.Table]:
        """The rows of a file in which each query lies together, with their ranks."""
        import pyarrow as pa

        queries = rows = 0
        for table, offsets in self._whole_queries(name):
            if self._has_documents:
                self._check_documents(table, offsets, rows)
            ranks = segments.descending_ranks(table.column("score").to_numpy(), offsets, first=queries)
            queries, rows = queries + len(offsets) - 1, rows + len(table)
            ranked = table.append_column("rank", pa.array(ranks))
            yield ranked if top is None else ranked.filter(pa.array(ranks <= top))

    def _whole_queries(self, name: str) -> Iterator[tuple[pa.Table, IntArray]]:
        """Tables that end where a query ends, each with the offsets of its queries."""
        import pyarrow as pa

        held: list[pa.Table] = []
        for table in self._batches(name):
            starts = _run_starts(table)
            if held and held[-1].column("query_id")[-1] == table.column("query_id")[0]:
                starts = starts[1:]
            if len(starts):
                whole = pa.concat_tables([*held, table.slice(0, starts[-1])]).combine_chunks()
                if len(whole):
                    yield whole, np.append(_run_starts(whole), len(whole))
                held = []
                table = table.slice(starts[-1])
            held.append(table)
        if held:
            whole = pa.concat_tables(held).combine_chunks()
            yield whole, np.append(_run_starts(whole), len(whole))

    def _check_documents(self, table: pa.Table, offsets: IntArray, first_row: int) -> None:
        places = checks.first_repeated(table.column("doc_id").chunk(0), offsets)
        if places is not None:
            rows = [table.column("row")[at].as_py() if "row" in table.column_names else first_row + at for at in places]
            document, query = (table.column(name)[places[0]].as_py() for name in ("doc_id", "query_id"))
            raise DataError(
                f"document {document!r} appears more than once in query {query!r} (rows {rows[0]} and {rows[1]} of "
                "all, counted from 0)."
            )

    def _batches(self, name: str) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with pq.ParquetFile(self._path(name), buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                yield pa.Table.from_batches([batch])

    def _text(self, name: str, ids: NDArray[Any]) -> pa.Array:
        import pyarrow as pa

        self._numbers[name] &= ids.dtype.kind == "i"
        return pa.array(ids).cast(pa.string())

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.parquet"

    @contextmanager
    def _asking(self, *names: str) -> Iterator[Any]:
        """DuckDB with some of the temporary files as tables."""
        import duckdb

        settings: dict[str, Any] = {"memory_limit": _SORT_MEMORY, "temp_directory": str(self._folder / "spill")}
        connection = duckdb.connect(config={**settings, "threads": fair_threads(min(available_cores(), _SORT_THREADS))})
        try:
            connection.execute("SET enable_progress_bar = false")
            for name in names:
                path = str(self._path(name).absolute())
                pattern = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)
                connection.read_parquet(pattern, file_row_number=True).create_view(name)
            yield connection
        except (duckdb.Error, RuntimeError) as error:
            if "interrupted" in str(error).lower():  # Ctrl-C, in DuckDB's words
                raise KeyboardInterrupt from None
            if not isinstance(error, duckdb.Error):
                raise
            raise CldrankError(f"the scores cannot be sorted in {self._folder.parent}: {reason(error)}.") from error
        finally:
            connection.close()


def _run_starts(table: pa.Table) -> IntArray:
    """Where each run of rows of one query begins."""
    codes = table.column("query_id").combine_chunks().dictionary_encode().indices.to_numpy()
    return np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
