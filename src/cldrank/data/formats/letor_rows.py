"""Rows of LETOR / SVMlight text: how blocks of lines are parsed, and what is said where one is wrong.

`letor` reads whole files with this, `letor_stream` files of any size.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cldrank.data import checks
from cldrank.data.checks import Missing
from cldrank.data.formats import letor_kernel as kernel
from cldrank.data.formats.lines import LineBlock, read_blocks
from cldrank.data.row_blocks import Documents
from cldrank.errors import CldrankWarning, FormatError, Spelling, warn

_NUMBER = re.compile(rb"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")
_DOCUMENT = re.compile(rb"docid\s*=\s*(\S+)")
OPTIONS_IMPLY = Spelling("n_features or zero_based implies", "--n-features implies")


class RowLayout(NamedTuple):
    """How feature ids become columns."""

    first_id: int
    width: int
    with_queries: bool
    origin: Spelling | str = OPTIONS_IMPLY  # what says so, for the message about a feature outside


class ParsedRows(NamedTuple):
    """What the parser found in a block of lines, or the problem that stopped it."""

    problem: int
    at: int
    feature: int
    rows: int
    runs: list[tuple[int, str]]  # first row and query id of each run of rows
    comments: list[bytes]  # one per row; empty where it has none
    lists_first: bool  # whether a row lists the first feature of the layout


def numbered_features(first: int, count: int) -> tuple[str, ...]:
    """The names of features that have but an id.

    >>> numbered_features(0, 3)
    ('f0', 'f1', 'f2')
    """
    return tuple(f"f{first + column}" for column in range(count))


def all_blocks(paths: Sequence[Path]) -> Iterator[LineBlock]:
    """The lines of all files, block after block."""
    return itertools.chain.from_iterable(read_blocks(path) for path in paths)


def fill_value(missing: Missing) -> float:
    """What the parser writes where a value is missing; infinity refuses it."""
    return np.inf if missing is None else np.nan if missing == checks.KEEP else float(missing)


def rows_carry_queries(paths: Sequence[Path]) -> bool:
    """Whether the first row has `qid:`; refused where there is no row."""
    for block in all_blocks(paths):
        for line in bytes(block.text).splitlines():
            content = line.split(b"#", 1)[0].split()
            if content:
                is_row = _NUMBER.fullmatch(content[0]) is not None  # else the parser reports what is wrong
                return not is_row or (len(content) > 1 and content[1].startswith(b"qid:"))
    raise FormatError("holds no rows.", path=paths[0])


def parse_block(
    block: LineBlock, layout: RowLayout, fill: float, features: NDArray[np.float32], labels: NDArray[np.float32]
) -> ParsedRows:
    """Parse a block of lines into these arrays, which have room for as many rows as it has lines."""
    target = kernel.RowBuffer.for_rows(features, labels)
    text = np.frombuffer(block.text, dtype=np.uint8)
    problem, at, feature, rows, runs = kernel.parse_rows(text, layout.first_id, fill, layout.with_queries, target)
    if problem != kernel.OK:
        return ParsedRows(problem, at, feature, 0, [], [], False)
    queries = [
        (row, block.text[start:end].decode("utf-8", errors="backslashreplace"))
        for row, start, end in zip(
            target.run_rows[:runs].tolist(),
            target.run_starts[:runs].tolist(),
            target.run_ends[:runs].tolist(),
            strict=True,
        )
    ]
    starts, ends = target.comment_starts[:rows], target.comment_ends[:rows]
    comments: list[bytes] = []
    if (ends > starts).any():
        comments = [bytes(block.text[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    if not comments:
        comments = [b""] * rows
    return ParsedRows(problem, at, feature, rows, queries, comments, bool(target.last_row[0] >= 0))


# -- messages ----------------------------------------------------------------------------------------------------


_PROBLEMS = {  # {found}: the word where parsing stopped; {feature}: the id of the feature
    kernel.BAD_LABEL: "expected a label, found {found}; a LETOR row is `label qid:query feature:value …`. "
    "Tables with named columns are read from .parquet, .csv and .tsv files.",
    kernel.BAD_LABEL_RANGE: "the label {found} is too large for a 32-bit number.",
    kernel.BAD_QUERY: "`qid:` has no query after it.",
    kernel.BAD_FEATURE: "expected `feature:value`, with a whole number as feature, found {found}.",
    kernel.BAD_VALUE: "the value of feature {feature} is {found}, which is not a number.",
    kernel.NOT_FINITE: "the value of feature {feature} is {found}; features must be finite 32-bit numbers.",
    kernel.DUPLICATE: "feature {feature} appears twice; a LETOR row lists each feature once.",
}


def row_error(block: LineBlock, parsed: ParsedRows, layout: RowLayout) -> FormatError:
    """The error for the problem that stopped the parser."""
    found, feature = repr(block.token(parsed.at)), parsed.feature
    words: tuple[Any, ...] = ()
    if parsed.problem == kernel.MISSING_VALUE:
        message = "the value of feature {} is missing ({}); clean the file, choose a value to fill in with {}, or {}."
        keep = Spelling("keep it for trees with missing='keep'", "keep it for trees with --missing keep")
        words = (feature, found, Spelling("missing=0.0", "--missing 0"), keep)
    elif parsed.problem == kernel.OUT_OF_LAYOUT:
        message = "feature {} is outside the features {} … {} that {}."
        words = (feature, layout.first_id, layout.first_id + layout.width - 1, layout.origin)
    elif parsed.problem == kernel.MIXED_QUERIES:
        here, first = ("no", "one") if layout.with_queries else ("a", "none")
        message = f"this row has {here} `qid:`, but the first row has {first}; give every row one."
    else:
        message = _PROBLEMS[parsed.problem].format(found=found, feature=feature)
    line, column = block.place(parsed.at)
    return FormatError(message, *words, path=block.path, line=line, column=column)


# -- documents ---------------------------------------------------------------------------------------------------


@dataclass
class CommentIds:
    """Document ids from comments: `docid = X` in each, or comments of one word if those are unique within each query.

    Shown the comments of all rows, some at a time, it then knows which they are.

    >>> ids = CommentIds()
    >>> ids.words([b" docid = GX1 inc = 1", b"docid=GX2"]), ids.verdict()
    (['GX1', 'GX2'], 'named')
    """

    rows: int = 0
    named: int = 0  # rows with `docid =`
    single: int = 0  # rows whose comment is one word
    first_unnamed: int = -1

    def words(self, comments: Sequence[bytes]) -> list[str]:
        """The document that each comment names, if it does."""
        found: list[str] = []
        if not any(comments):
            self.first_unnamed = self.rows if self.first_unnamed < 0 else self.first_unnamed
            self.rows += len(comments)
            return [""] * len(comments)
        for comment in comments:
            match = _DOCUMENT.search(comment) if comment else None
            if match:
                self.named += 1
                word = match.group(1)
            else:
                word = comment.strip()
                self.single += len(word.split()) == 1
                if self.first_unnamed < 0:
                    self.first_unnamed = self.rows + len(found)
            found.append(word.decode("utf-8", errors="backslashreplace"))
        self.rows += len(found)
        return found

    @property
    def may_be_ids(self) -> bool:
        """Whether the rows so far may have ids."""
        return self.named == self.rows or (not self.named and self.single == self.rows)

    def verdict(self) -> Documents:
        """Whether the rows have ids: none, by `docid =`, or, if they are unique, by single words."""
        if self.named and not self.may_be_ids:
            warn(
                CldrankWarning(
                    f"row {self.first_unnamed} (counted from 0) has no `docid =`, though others have one; all document "
                    "ids are left out."
                )
            )
            return "none"
        if not self.rows or not self.may_be_ids:
            return "none"
        return "named" if self.named else "single"
