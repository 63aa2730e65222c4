"""LETOR / SVMlight text, as it is found in the wild, into a `RankingDataset`.

A row is `label qid:query feature:value … # comment`. Blocks of lines are parsed in parallel straight into the final
table. The number of features, and whether their ids start at 0 or 1, is guessed from the first block; if a later row
contradicts the guess, all ids are surveyed and reading starts again, so that no table is ever copied.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank import segments
from cldrank._typing import IntArray
from cldrank.arguments import check_flag, check_whole
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats import letor_kernel as kernel
from cldrank.data.formats.letor_groups import group_files, read_groups
from cldrank.data.formats.letor_rows import (
    CommentIds,
    ParsedRows,
    RowLayout,
    all_blocks,
    fill_value,
    numbered_features,
    parse_block,
    row_error,
    rows_carry_queries,
)
from cldrank.data.formats.lines import LineBlock, is_compressed
from cldrank.data.grouping import gather_queries, narrowed
from cldrank.errors import FormatError, Spelling, setting
from cldrank.workers import available_cores

_MOST_FEATURES = 1_000_000  # that a file may have unless n_features says so


def read_letor(
    paths: Sequence[Path],
    *,
    groups: Sequence[Path] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
    name: str = "",
) -> RankingDataset:
    r"""Read LETOR / SVMlight text: one file, or one data set split into several.

    groups       files with the number of rows of each query, one per line, for rows without `qid:`; looked for
                 beside the data (`train.txt.query`, `train.txt.group`) if not given
    n_features   the number of features, if rows may leave out the last ones
    zero_based   whether feature ids start at 0; by default they do if an id 0 occurs
    missing      the value to fill in where one is missing (`NULL`, `nan`, `NA`, or nothing), or "keep"; by default
                 refused. A feature that a row does not list is 0, not missing

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("2 qid:7 1:0.5 3:1  # docid = a\n0 qid:7 2:4  # docid = b\n")
    ...     data = read_letor([path])
    >>> data.features
    array([[0.5, 0. , 1. ],
           [0. , 4. , 0. ]], dtype=float32)
    >>> data.query_ids, data.doc_ids
    (array([7]), array(['a', 'b'], dtype='<U1'))
    """
    if n_features is not None:
        check_whole("n_features", n_features, least=1, most=10**12)
    if zero_based is not None:
        check_flag("zero_based", zero_based)
    checks.check_missing(missing)
    fill = fill_value(missing)
    with checks.about(*paths):
        with_queries = rows_carry_queries(paths)
        group_paths = group_files(paths, groups, with_queries)
        guess = _guess(itertools.islice(all_blocks(paths), 1), n_features, zero_based, with_queries)
        try:
            rows = _Reading(paths, guess, fill).run()
        except _SurprisingFeatureError:
            guess = _guess(all_blocks(paths), n_features, zero_based, with_queries)._replace(surprises=False)
            rows = _Reading(paths, guess, fill).run()
        if rows.count == 0:
            raise FormatError("holds no rows.", path=paths[0])
        if guess.is_empty:
            raise FormatError(
                "no row lists a feature; if all are 0, say how many there are with {}.",
                Spelling("n_features=…", "--n-features"),
                path=paths[0],
            )
        return _dataset(rows, group_paths, name, keep=missing == checks.KEEP)


def _dataset(rows: _Reading, group_paths: Sequence[Path], name: str, *, keep: bool) -> RankingDataset:
    """The rows of each query brought together, with ids and names."""
    if group_paths:
        offsets = read_groups(group_paths, rows.count)
        query_ids = np.arange(1, len(offsets))
        order = None
    else:
        query_ids, offsets, order = gather_queries(
            [row for row, _ in rows.runs], narrowed([query for _, query in rows.runs]), rows.count
        )
    doc_ids = _document_ids(rows.comments, offsets, order)
    return RankingDataset(
        features=rows.features if order is None else rows.features[order],
        labels=rows.labels if order is None else rows.labels[order],
        offsets=offsets,
        query_ids=query_ids,
        doc_ids=doc_ids,
        feature_names=numbered_features(rows.layout.first_id, rows.layout.width),
        name=name,
        source_rows=order,
        has_missing=keep,
    )


class _Guess(NamedTuple):
    """The layout that files show, and how sure it is."""

    layout: RowLayout
    is_given: bool  # whether the caller said how many features there are
    is_empty: bool  # whether neither the caller nor any row mentions a feature
    surprises: bool  # whether an id outside may change the layout, or is an error


class _SurprisingFeatureError(Exception):
    """A feature id outside the guessed layout."""


@dataclass
class _Reading:
    """One pass over all files into one table."""

    paths: Sequence[Path]
    guess: _Guess
    fill: float
    count: int = 0
    runs: list[tuple[int, str]] = field(default_factory=list)  # first row and query id of each run of rows
    comments: list[list[bytes]] = field(default_factory=list)

    @property
    def layout(self) -> RowLayout:
        return self.guess.layout

    def run(self) -> _Reading:
        self.features = np.zeros((0, self.layout.width), dtype=np.float32)
        self.labels = np.zeros(0, dtype=np.float32)
        pending: deque[tuple[LineBlock, int, Future[ParsedRows]]] = deque()
        workers = available_cores()
        reserved = 0
        with ThreadPoolExecutor(workers) as pool:
            for block in all_blocks(self.paths):
                lines = block.text.count(b"\n")
                if reserved + lines > len(self.features):
                    while pending:  # a table may only move when nobody writes to it
                        self._take(*pending.popleft())
                    self._make_room(reserved + lines, len(block.text) / lines)
                span = slice(reserved, reserved + lines)
                future = pool.submit(parse_block, block, self.layout, self.fill, self.features[span], self.labels[span])
                pending.append((block, reserved, future))
                reserved += lines
                if len(pending) > workers:
                    self._take(*pending.popleft())
            while pending:
                self._take(*pending.popleft())
        self._resize(self.count)
        return self

    def _take(self, block: LineBlock, start: int, future: Future[ParsedRows]) -> None:
        """Accept the rows of a block, which lie at `start`, behind all rows so far."""
        parsed = future.result()
        if parsed.problem == kernel.OUT_OF_LAYOUT and self.guess.surprises:
            raise _SurprisingFeatureError
        if parsed.problem != kernel.OK:
            raise row_error(block, parsed, self.layout)
        if start > self.count:  # blank lines before this block left a hole
            stop = self.count + parsed.rows
            self.features[self.count : stop] = self.features[start : start + parsed.rows]
            self.labels[self.count : stop] = self.labels[start : start + parsed.rows]
        for row, query in parsed.runs:
            if not self.runs or self.runs[-1][1] != query:
                self.runs.append((self.count + row, query))
        self.comments.append(parsed.comments)
        self.count += parsed.rows

    def _make_room(self, rows: int, bytes_per_row: float) -> None:
        """Grow the table: at once to its likely size if the size of the files implies it, else by half."""
        likely = int(len(self.features) * 1.5)
        if not any(is_compressed(path) for path in self.paths):
            likely = int(1.05 * sum(path.stat().st_size for path in self.paths) / bytes_per_row)
        rows = max(rows, likely)
        if not self.guess.is_given:
            self._check_proportion(rows, rows * bytes_per_row)
        checks.check_room(self.paths[0], rows, self.layout.width)
        self._resize(rows)

    def _check_proportion(self, rows: int, text: float) -> None:
        """Refuse feature ids that imply a table far larger than a file with this many bytes of text can mean."""
        width, needed = self.layout.width, 4 * rows * self.layout.width
        if width > max(_MOST_FEATURES, text):
            problem = f"more than {_MOST_FEATURES:,} and more than the {text:,.0f} bytes of text could list"
        elif needed > max(checks.FREE_BYTES, checks.MOST_TIMES * text):
            problem = (
                f"which makes a table of about {rows:,} × {width:,} numbers ({needed / 2**30:,.1f} GiB), more than "
                f"{checks.MOST_TIMES} times the text"
            )
        else:
            return
        raise FormatError(
            "feature ids reach {:,}, {}; number the features without gaps, or, if the ids are right, say {}.",
            self.layout.first_id + width - 1,
            problem,
            setting("n_features", width),
            path=self.paths[0],
        )

    def _resize(self, rows: int) -> None:
        if len(self.features) == 0:
            self.features = np.zeros((rows, self.layout.width), dtype=np.float32)  # zero pages cost nothing until used
            self.labels = np.zeros(rows, dtype=np.float32)
        else:
            self.features.resize((rows, self.layout.width), refcheck=False)
            self.labels.resize(rows, refcheck=False)


def _guess(blocks: Iterator[LineBlock], n_features: int | None, zero_based: bool | None, with_queries: bool) -> _Guess:
    """The layout that these blocks show, unless the caller has specified it."""
    smallest, largest = 1 << 62, -1
    for block in blocks:
        low, high = kernel.survey(np.frombuffer(block.text, dtype=np.uint8))
        smallest, largest = min(smallest, int(low)), max(largest, int(high))
    is_guessed = zero_based is None
    if zero_based is None:
        zero_based = smallest == 0
    first_id = 0 if zero_based else 1
    is_given = n_features is not None
    width = max(largest - first_id + 1, 1) if n_features is None else n_features
    is_empty = not is_given and largest < 0
    layout = RowLayout(first_id, width, with_queries)
    return _Guess(layout, is_given, is_empty, surprises=not is_given or is_guessed)


def _document_ids(comments: list[list[bytes]], offsets: IntArray, order: IntArray | None) -> NDArray[Any] | None:
    """Document ids from comments, if these have any."""
    known = CommentIds()
    words = [word for block in comments for word in known.words(block)]
    verdict = known.verdict()
    if verdict == "none":
        return None
    ids = narrowed(words)
    ids = ids if order is None else ids[order]
    if verdict == "single":
        pairs = set(zip(segments.segment_of_rows(offsets).tolist(), ids.tolist(), strict=True))
        if len(pairs) < len(ids):
            return None
    return ids
