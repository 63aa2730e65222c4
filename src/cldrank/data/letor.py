"""LETOR / SVMlight text, as it is found in the wild.

A row is `label qid:query feature:value … # comment`. Blocks of lines are parsed in threads. The number of features, and
whether their ids start at 0 or 1, is guessed from the first block; if a later row contradicts the guess, all ids are
surveyed and reading starts again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cldrank._typing import IntArray
from cldrank.arguments import check_flag, check_whole
from cldrank.data import checks
from cldrank.data import letor_kernel as kernel
from cldrank.data.checks import Missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.lines import LineBlock, read_blocks
from cldrank.data.rows import Documents, RowBatch, RowSource, dataset_of
from cldrank.errors import CldrankWarning, FormatError, UsageError, warn
from cldrank.memory import machine_memory
from cldrank.wording import count, some
from cldrank.workers import ahead, available_cores

_NUMBER = re.compile(rb"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")
_DOCUMENT = re.compile(rb"docid\s*=\s*(\S+)")
_SIZE = re.compile(rb"0*[1-9][0-9]{0,17}")
_MOST_FEATURES = 1_000_000  # that a file may have unless n_features says so
_BLOCK_VALUES = 1 << 22  # of a batch: 16 MiB
_FREE_BYTES = 1 << 28  # that a small file may claim in any case
_NAME_BYTES = 100  # of a feature's name, as Python holds it


class RowLayout(NamedTuple):
    """How feature ids become columns.

    origin    what says so, for the message about a feature outside
    guessed   whether an id outside means that the guess was wrong, rather than the file
    given     whether the number of features was given
    """

    first_id: int
    width: int
    with_queries: bool
    origin: str = "`n_features` or `zero_based` implies"
    guessed: bool = False
    given: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, which have but an id."""
        return tuple(f"f{self.first_id + column}" for column in range(self.width))


class SurprisingFeatureError(Exception):
    """A feature id outside the guessed layout."""


def read_letor(
    paths: Sequence[Path],
    *,
    groups: Sequence[Path] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
    name: str = "",
    folder: Path | None = None,
) -> RankingDataset:
    r"""Read LETOR / SVMlight text: one file, or one data set split into several. Options are those of `load`.

    folder   where large arrays are kept

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
    with checks.about(*paths):
        with_queries = _rows_carry_queries(paths, groups)
        layout = _guess(paths, 1, n_features, zero_based, with_queries)
        try:
            return dataset_of(LetorSource(paths, layout, groups, missing), name=name, folder=folder)
        except SurprisingFeatureError:
            layout = _guess(paths, None, n_features, zero_based, with_queries)._replace(guessed=False)
            return dataset_of(LetorSource(paths, layout, groups, missing), name=name, folder=folder)


def letor_for_ranker(
    paths: Sequence[Path],
    feature_names: Sequence[str],
    *,
    groups: Sequence[Path] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
) -> LetorSource:
    """LETOR files with the features of a ranker: the feature with the id 7 is the one that it calls f7.

    So no id has to be guessed, and none can be taken for its neighbour: an id that the ranker does not know is refused.
    """
    names = tuple(feature_names)
    first = 0 if names[:1] == ("f0",) else 1
    layout = RowLayout(first, len(names), _rows_carry_queries(paths, groups), origin="the ranker knows")
    if names != layout.names:
        raise FormatError(
            f"a LETOR file numbers its features f1, f2, …; the ranker knows {some(map(repr, names), most=5)}. Score "
            "Parquet or CSV files, which name their features.",
            path=paths[0],
        )
    if n_features is not None and n_features != len(names):
        raise UsageError(
            f"`n_features={n_features}` does not fit the ranker, which knows {count(len(names), 'feature')}."
        )
    if zero_based is not None:
        check_flag("zero_based", zero_based)
    if zero_based is not None and zero_based != (first == 0):
        raise UsageError(f"`zero_based={zero_based}` does not fit the ranker, whose first feature is {names[0]}.")
    return LetorSource(paths, layout, groups, missing, first_is_used=first == 0 and zero_based is None)


class LetorSource(RowSource):
    """LETOR files whose layout is known, or guessed.

    groups          files with the number of rows of each query, where rows have no `qid:`
    first_is_used   whether a file in which no row lists the first feature is refused, as its ids may begin elsewhere
    """

    ids_as_text = True

    def __init__(
        self,
        paths: Sequence[Path],
        layout: RowLayout,
        groups: Sequence[Path] | None = None,
        missing: Missing = None,
        *,
        first_is_used: bool = False,
    ) -> None:
        self.where, self.missing, self.feature_names = paths, missing, layout.names
        self._paths, self._layout, self._groups, self._first_is_used = paths, layout, groups, first_is_used
        self._group_ends = np.cumsum([0, *_group_sizes(groups or [])])
        self._comments = _CommentIds()

    def batches(self) -> Iterator[RowBatch]:
        """All rows; lines are parsed ahead in threads."""
        self._comments = _CommentIds()
        total, row, path, lists_first = 0, 0, self._paths[0], False
        cores = available_cores()
        for lines, parsed in ahead(self._parsed, self._lines(), threads=cores, most=cores):
            if parsed.problem == kernel.OUT_OF_LAYOUT and self._layout.guessed:
                raise SurprisingFeatureError
            if parsed.problem != kernel.OK:
                raise _row_error(lines, parsed, self._layout)
            if not len(parsed.labels):
                continue
            path, row = lines.path, row if lines.path == path else 0
            lists_first |= parsed.lists_first
            words = self._comments.words(parsed.comments, len(parsed.labels))
            doc_ids = pa.array(words, pa.large_string()) if self._comments.may_be_ids else None
            runs = (
                self._grouped(total, total + len(parsed.labels)) if self._groups else (parsed.run_rows, parsed.run_ids)
            )
            yield RowBatch(path, row, *runs, doc_ids, parsed.labels, parsed.features)
            row, total = row + len(parsed.labels), total + len(parsed.labels)
        if not total:
            raise FormatError("holds no rows.", path=self._paths[0])
        if not self._layout.width:
            raise FormatError("no row lists a feature; if all are 0, say how many with `n_features`.", path=path)
        if self._groups and self._group_ends[-1] != total:
            counted = f"counts {self._group_ends[-1]:,} rows in all, but the data has {total:,}."
            raise FormatError(counted, path=self._groups[0])
        if self._first_is_used and not lists_first:
            raise FormatError(
                "no row lists feature 0, which the ranker calls f0; if the ids do not start at 1 here, say "
                "`zero_based=True`.",
                path=self._paths[0],
            )

    def documents(self) -> Documents:
        """Whether the comments name documents."""
        return self._comments.verdict()

    def _grouped(self, start: int, stop: int) -> tuple[IntArray, pa.Array]:
        """The queries of some rows, numbered from 1, as group files count them; rows beyond are refused at the end."""
        first = int(np.searchsorted(self._group_ends[1:-1], start, side="right"))
        end = max(first + 1, int(np.searchsorted(self._group_ends[:-1], stop)))
        return np.maximum(self._group_ends[first:end] - start, 0), pa.array(np.arange(first, end) + 1)

    def _lines(self) -> Iterator[LineBlock]:
        """Blocks of lines; before memory is claimed for them, the layout is held against the text so far."""
        most = max(1, _BLOCK_VALUES // max(1, self._layout.width))
        rows = text = 0
        for block in _all_blocks(self._paths):
            rows, text = rows + block.text.count(b"\n"), text + len(block.text)
            _check_proportion(self._layout, rows, text, self._paths[0])
            yield from block.parts(most)

    def _parsed(self, block: LineBlock) -> tuple[LineBlock, _ParsedRows]:
        fill = np.inf if self.missing is None else np.nan if self.missing == checks.KEEP else float(self.missing)
        return block, _parse_block(block, self._layout, fill)


# -- layout --------------------------------------------------------------------------------------------------------


def _all_blocks(paths: Sequence[Path]) -> Iterator[LineBlock]:
    return itertools.chain.from_iterable(read_blocks(path) for path in paths)


def _guess(
    paths: Sequence[Path], most_blocks: int | None, n_features: int | None, zero_based: bool | None, with_queries: bool
) -> RowLayout:
    """The layout that the first blocks of some files show, or all, unless the caller has specified it."""
    smallest, largest, rows, text = 1 << 62, -1, 0, 0
    for block in itertools.islice(_all_blocks(paths), most_blocks):
        rows, text = rows + block.text.count(b"\n"), text + len(block.text)
        low, high = kernel.survey(np.frombuffer(block.text, dtype=np.uint8))
        smallest, largest = min(smallest, int(low)), max(largest, int(high))
    first_id = 0 if (smallest == 0 if zero_based is None else zero_based) else 1
    given = n_features is not None
    width = max(largest - first_id + 1, 0) if n_features is None else n_features
    layout = RowLayout(first_id, width, with_queries, guessed=not given or zero_based is None, given=given)
    _check_proportion(layout, rows, text, paths[0])
    return layout


def _check_proportion(layout: RowLayout, rows: int, text: int, path: Path) -> None:
    """Refuse feature ids that imply a table far larger than a file with this many bytes of text can mean."""
    width, needed, free = layout.width, 4 * rows * layout.width, machine_memory(free=True)
    if not layout.given and width > max(_MOST_FEATURES, text):
        problem = f"more than {_MOST_FEATURES:,} and more than the {text:,} bytes of text could list"
    elif not layout.given and needed > max(_FREE_BYTES, checks.MOST_TIMES * text):
        table = f"a table of about {rows:,} × {width:,} numbers ({needed / 2**30:,.1f} GiB)"
        problem = f"which makes {table}, more than {checks.MOST_TIMES} times the text"
    elif free is not None and _NAME_BYTES * width > free:
        raise FormatError(f"a table of {width:,} features does not fit into the memory of this machine.", path=path)
    else:
        return
    raise FormatError(
        f"feature ids reach {layout.first_id + width - 1:,}, {problem}; number the features without gaps, or, if the "
        f"ids are right, say `n_features={width}`.",
        path=path,
    )


def _rows_carry_queries(paths: Sequence[Path], groups: Sequence[Path] | None) -> bool:
    """Whether the first row has `qid:`; refused where there is no row, or where group files do not go with that."""
    lines = (line for block in _all_blocks(paths) for line in block.text.splitlines())
    first = next((words for line in lines if (words := line.split(b"#", 1)[0].split())), None)
    if first is None:
        raise FormatError("holds no rows.", path=paths[0])
    is_row = _NUMBER.fullmatch(first[0]) is not None  # else the parser reports what is wrong
    with_queries = not is_row or (len(first) > 1 and first[1].startswith(b"qid:"))
    if groups is None and not with_queries:
        raise FormatError(
            "the rows have no `qid:`; name a file with the number of rows of each query, such as train.txt.query, with "
            "`groups`.",
            path=paths[0],
        )
    if groups is not None and with_queries:
        raise FormatError(f"the rows have `qid:` already; leave the group file {groups[0]} out.", path=paths[0])
    if groups is not None and len(groups) != len(paths):
        raise FormatError(f"there are {len(groups)} group files for {len(paths)} data files.", path=paths[0])
    return with_queries


def _group_sizes(paths: Sequence[Path]) -> Iterator[int]:
    """The number of rows of each query, one per line of these files."""
    for path in paths:
        for block in read_blocks(path):
            for number, line in enumerate(block.text.splitlines(), start=block.first_line):
                word = line.strip()
                if word and not _SIZE.fullmatch(word):
                    shown = word[:40].decode("utf-8", errors="backslashreplace")
                    what = f"{shown!r} is not a number of rows; each line holds one, at least 1."
                    raise FormatError(what, path=path, line=number)
                if word:
                    yield int(word)


# -- rows ----------------------------------------------------------------------------------------------------------


class _ParsedRows(NamedTuple):
    """What the parser found in a block of lines, or the problem that stopped it."""

    problem: int
    at: int
    feature: int
    labels: NDArray[np.float32]
    features: NDArray[np.float32]
    run_rows: IntArray
    run_ids: pa.Array
    comments: list[bytes]  # one per row, or none at all
    lists_first: bool  # whether a row lists the first feature of the layout


def _parse_block(block: LineBlock, layout: RowLayout, fill: float) -> _ParsedRows:
    lines = block.text.count(b"\n")
    target = kernel.RowBuffer.for_rows(np.zeros((lines, layout.width), np.float32), np.zeros(lines, np.float32))
    text = np.frombuffer(block.text, dtype=np.uint8)
    problem, at, feature, rows, runs = kernel.parse_rows(text, layout.first_id, fill, layout.with_queries, target)
    starts, ends = target.run_starts[:runs].tolist(), target.run_ends[:runs].tolist()
    queries = [block.text[a:b].decode("utf-8", errors="backslashreplace") for a, b in zip(starts, ends, strict=True)]
    first, last = target.comment_starts[:rows], target.comment_ends[:rows]
    comments: list[bytes] = []
    if (last > first).any():
        comments = [block.text[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    return _ParsedRows(
        problem,
        at,
        feature,
        target.labels[:rows],
        target.features[:rows],
        target.run_rows[:runs],
        pa.array(queries, pa.large_string()),
        comments,
        bool(target.last_row[:1].max(initial=-1) >= 0),
    )


_PROBLEMS = {  # {found}: the word where parsing stopped; {feature}: the id of the feature
    kernel.BAD_LABEL: "expected a label, found {found}; a LETOR row is `label qid:query feature:value …`. "
    "Tables with named columns are read from .parquet, .csv and .tsv files.",
    kernel.BAD_LABEL_RANGE: "the label {found} is too large for a 32-bit number.",
    kernel.BAD_QUERY: "`qid:` has no query after it.",
    kernel.BAD_FEATURE: "expected `feature:value`, with a whole number as feature, found {found}.",
    kernel.BAD_VALUE: "the value of feature {feature} is {found}, which is not a number.",
    kernel.MISSING_VALUE: "the value of feature {feature} is missing ({found}); clean the file, choose a value to fill "
    "in with `missing=0.0`, or keep it for trees with `missing=keep`.",
    kernel.NOT_FINITE: "the value of feature {feature} is {found}; features must be finite 32-bit numbers.",
    kernel.DUPLICATE: "feature {feature} appears twice; a LETOR row lists each feature once.",
    kernel.OUT_OF_LAYOUT: "feature {feature} is outside the features {first} … {last} that {origin}.",
    kernel.MIXED_QUERIES: "this row has {here} `qid:`, but the first row has {before}; give every row one.",
}


def _row_error(block: LineBlock, parsed: _ParsedRows, layout: RowLayout) -> FormatError:
    here, before = ("no", "one") if layout.with_queries else ("a", "none")
    message = _PROBLEMS[parsed.problem].format(
        found=repr(block.token(parsed.at)),
        feature=parsed.feature,
        first=layout.first_id,
        last=layout.first_id + layout.width - 1,
        origin=layout.origin,
        here=here,
        before=before,
    )
    line, column = block.place(parsed.at)
    return FormatError(message, path=block.path, line=line, column=column)


@dataclass
class _CommentIds:
    """Document ids from comments: `docid = X` in each, or comments of one word if those are unique within each query.

    Shown the comments of all rows, some at a time, it then knows which they are.
    """

    rows: int = 0
    named: int = 0  # rows with `docid =`
    single: int = 0  # rows whose comment is one word

    def words(self, comments: Sequence[bytes], rows: int) -> list[str]:
        """The document that each comment names, if it does."""
        self.rows += rows
        words: list[str] = []
        for comment in comments:
            match = _DOCUMENT.search(comment)
            word = match[1] if match else comment.strip()
            self.named += match is not None
            self.single += match is None and len(word.split()) == 1
            words.append(word.decode("utf-8", errors="backslashreplace"))
        return words

    @property
    def may_be_ids(self) -> bool:
        """Whether the rows so far may have ids."""
        return self.named == self.rows or (not self.named and self.single == self.rows)

    def verdict(self) -> Documents:
        """Whether the rows have ids: none, by `docid =`, or, if they are unique, by single words."""
        if self.named and not self.may_be_ids:
            without = count(self.rows - self.named, "row")
            warn(
                CldrankWarning(
                    f"{without} without `docid =` among others that have one; all document ids are left out."
                )
            )
        if not self.rows or not self.may_be_ids:
            return "none"
        return "named" if self.named else "unless repeated"
