"""LETOR / SVMlight text of any size, block by block, for features that are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cldrank.arguments import check_flag
from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats import letor_kernel as kernel
from cldrank.data.formats.letor import read_letor
from cldrank.data.formats.letor_groups import check_total, group_files, group_sizes
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
from cldrank.data.formats.lines import LineBlock
from cldrank.data.grouping import narrowed
from cldrank.data.row_blocks import Documents, FeatureStream, RowBlock
from cldrank.errors import FormatError, Spelling, UsageError, setting
from cldrank.wording import count, some
from cldrank.workers import ahead, available_cores

_BLOCK_VALUES = 1 << 22  # of a block: 16 MiB


class LetorStream(FeatureStream):
    """LETOR files whose features are those of a ranker: the feature with the id 7 is the one that it calls f7.

    So no id has to be guessed, and none can be taken for its neighbour: an id that the ranker does not know is refused.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        feature_names: Sequence[str],
        *,
        groups: Sequence[Path] | None = None,
        n_features: int | None = None,
        zero_based: bool | None = None,
        missing: Missing = None,
    ) -> None:
        self.feature_names = tuple(feature_names)
        first_id = _first_id(paths[0], self.feature_names, n_features, zero_based)
        with_queries = rows_carry_queries(paths)
        self._group_paths = group_files(paths, groups, with_queries)
        self._layout = RowLayout(first_id, len(self.feature_names), with_queries, origin="the ranker knows")
        self.paths, self._missing, self._says_zero = paths, missing, zero_based is not None
        self._comments = CommentIds()

    def blocks(self) -> Iterator[RowBlock]:
        """All rows; lines are parsed ahead in threads."""
        self._comments, groups = CommentIds(), _Groups(self._group_paths)
        total, first_row, path, lists_first = 0, 0, self.paths[0], False
        cores = available_cores()
        for lines, parsed, features in ahead(self._parsed, self._lines(), threads=cores, most=cores):
            if parsed.problem != kernel.OK:
                raise row_error(lines, parsed, self._layout)
            if not parsed.rows:
                continue
            if lines.path != path:
                path, first_row = lines.path, 0
            lists_first |= parsed.lists_first
            with checks.about(path):
                block = self._block(path, first_row, parsed, features[: parsed.rows], groups)
            yield block
            first_row, total = first_row + parsed.rows, total + parsed.rows
        if not total:
            raise FormatError("holds no rows.", path=self.paths[0])
        if self._group_paths:
            check_total(self._group_paths, groups.counted(), total)
        if self._layout.first_id == 0 and not (lists_first or self._says_zero):
            raise FormatError(
                "no row lists feature 0, which the ranker calls f0; if the ids do not start at 1 here, say {}.",
                Spelling("zero_based=True", "--zero-based"),
                path=self.paths[0],
            )

    def documents(self) -> Documents:
        """Whether the comments name documents."""
        return self._comments.verdict()

    def whole(self) -> RankingDataset:
        """All rows at once, with the ranker's features."""
        return read_letor(
            self.paths,
            groups=self._group_paths or None,
            n_features=self._layout.width,
            zero_based=self._layout.first_id == 0,
            missing=self._missing,
        )

    def _lines(self) -> Iterator[LineBlock]:
        most = max(1, _BLOCK_VALUES // self._layout.width)
        for block in all_blocks(self.paths):
            yield from block.parts(most)

    def _parsed(self, block: LineBlock) -> tuple[LineBlock, ParsedRows, NDArray[np.float32]]:
        lines = block.text.count(b"\n")
        features = np.zeros((lines, self._layout.width), dtype=np.float32)
        labels = np.zeros(lines, dtype=np.float32)
        return block, parse_block(block, self._layout, fill_value(self._missing), features, labels), features

    def _block(
        self, path: Path, first_row: int, parsed: ParsedRows, features: NDArray[np.float32], groups: _Groups
    ) -> RowBlock:
        words = self._comments.words(parsed.comments)
        doc_ids = narrowed(words) if self._comments.may_be_ids else None
        if self._group_paths:
            run_rows, run_ids = groups.next(parsed.rows)
        else:
            run_rows = np.array([row for row, _ in parsed.runs], dtype=np.int64)
            run_ids = narrowed([query for _, query in parsed.runs])
        return RowBlock(path, first_row, features, run_rows, run_ids, doc_ids)


class _Groups:
    """Queries numbered from 1, of as many rows as group files say."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._sizes, self._total = group_sizes(paths), 0
        self._query = self._left = 0

    def next(self, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The runs of the next rows; rows that no group counts, which are refused at the end, join the last."""
        starts, queries, row = [], [], 0
        while row < rows:
            if not self._left:
                self._left = next(self._sizes, 0)
                self._total += self._left
                self._query += 1
            starts.append(row)
            queries.append(self._query)
            taken = min(self._left, rows - row) or rows - row
            row, self._left = row + taken, max(self._left - taken, 0)
        return np.array(starts, dtype=np.int64), np.array(queries, dtype=np.int64)

    def counted(self) -> int:
        """All rows that the files count."""
        return self._total + sum(self._sizes)


def _first_id(path: Path, names: tuple[str, ...], n_features: int | None, zero_based: bool | None) -> int:
    """The id of the first feature, as its name says; refused where features are not numbered, or the caller differs."""
    first = 0 if names[:1] == ("f0",) else 1
    if names != numbered_features(first, len(names)):
        raise FormatError(
            f"a LETOR file numbers its features f1, f2, …; the ranker knows {some(map(repr, names), most=5)}. Score "
            "Parquet files, which name their features.",
            path=path,
        )
    if n_features is not None and n_features != len(names):
        raise UsageError(
            "{} does not fit the ranker, which knows {}.",
            setting("n_features", n_features),
            count(len(names), "feature"),
        )
    if zero_based is not None:
        check_flag("zero_based", zero_based)
        if zero_based != (first == 0):
            raise UsageError(
                "{} does not fit the ranker, whose first feature is {}.",
                Spelling(f"zero_based={zero_based}", "--zero-based" if zero_based else "--one-based"),
                names[0],
            )
    return first
