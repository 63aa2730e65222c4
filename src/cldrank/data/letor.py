"""LETOR / SVMlight text, with the variations that occur in practice.

A row is `label qid:query feature:value … # comment`. Blocks of lines are parsed in threads. The number of features is
that of the first block; if a later row has more, all ids are surveyed and reading starts again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from cldrank.data.lines import COMPRESSED, LineBlock, read_blocks
from cldrank.data.rows import Lend, RowBatch, RowSource, dataset_of
from cldrank.errors import FormatError, UsageError
from cldrank.host import available_cores
from cldrank.wording import some
from cldrank.workers import ahead

_DOCUMENT = re.compile(rb"docid\s*=\s*(\S+)")
_MOST_FEATURES = 1_000_000  # that a file may have unless n_features says so
_MOST_NAMED = 10_000_000  # that n_features may say
_BLOCK_VALUES = 1 << 22  # of a batch: 16 MiB
_FREE_BYTES = 1 << 28  # that a small file may claim in any case


class RowLayout(NamedTuple):
    """How feature ids become columns.

    counted     whether the width is that of the first block: an id beyond it is then no fault of the file
    row_bytes   the mean length of a row, where it is known
    """

    first_id: int
    width: int
    counted: bool = False
    row_bytes: float = np.inf

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, made from their ids: f1, f2, …"""
        return tuple(f"f{self.first_id + column}" for column in range(self.width))


class WiderRowError(Exception):
    """A feature id beyond those of the first block."""


def read_letor(
    paths: Sequence[Path],
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    missing: Missing = None,
    name: str = "",
    folder: Path | None = None,
) -> RankingDataset:
    r"""Read LETOR / SVMlight text: a file, or several that make up a data set. Options are those of `load`.

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
    check_flag("zero_based", zero_based)
    first_id = 0 if zero_based else 1
    if n_features is not None:
        check_whole("n_features", n_features, least=1, most=_MOST_NAMED)
    with checks.about(*paths):
        layout = _counted(paths, first_id, most_blocks=1) if n_features is None else RowLayout(first_id, n_features)
        try:
            return dataset_of(LetorSource(paths, layout, missing), name=name, folder=folder)
        except WiderRowError:
            layout = _counted(paths, first_id)
            return dataset_of(LetorSource(paths, layout, missing), name=name, folder=folder)


def letor_for_ranker(
    paths: Sequence[Path],
    feature_names: Sequence[str],
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    missing: Missing = None,
) -> LetorSource:
    """LETOR files with the features of a ranker: the feature with the id 7 is its f7.

    An id that the ranker does not know is refused, so no feature can be taken for its neighbour.
    """
    names = tuple(feature_names)
    layout = RowLayout(0 if names[:1] == ("f0",) else 1, len(names))
    if names != layout.names:
        raise FormatError(
            f"a LETOR file numbers its features f1, f2, …; the ranker knows {some(map(repr, names), most=5)}. Score "
            "Parquet or CSV files, which name their features.",
            path=paths[0],
        )
    if n_features not in (None, len(names)) or zero_based != (layout.first_id == 0):
        raise UsageError(
            f"the features of the ranker are {names[0]} … {names[-1]}; it scores files with "
            f"`n_features={len(names)}` and `zero_based={layout.first_id == 0}`."
        )
    return LetorSource(paths, layout, missing)


class LetorSource(RowSource):
    """LETOR files whose layout is known."""

    ids_as_text = True

    def __init__(self, paths: Sequence[Path], layout: RowLayout, missing: Missing = None) -> None:
        self.where, self.missing, self.feature_names = paths, missing, layout.names
        self._paths, self._layout = paths, layout
        if all(path.is_file() and path.suffix not in COMPRESSED for path in paths):
            self.expected_rows = int(1.02 * sum(path.stat().st_size for path in paths) / layout.row_bytes)

    def batches(self, lend: Lend | None = None) -> Iterator[RowBatch]:
        """All rows; lines are parsed ahead in threads."""
        row, path = 0, self._paths[0]
        has_rows, cores = False, available_cores()
        for batch in ahead(self._parsed, self._lines(lend or self.new_rows), threads=cores, most=cores):
            if len(batch):
                row = row if batch.where == path else 0
                yield replace(batch, first_row=row)
                has_rows, path, row = True, Path(batch.where), row + len(batch)
        if has_rows and not self._layout.width:
            raise FormatError("no row lists a feature; if all are 0, say how many with `n_features`.", path=path)

    def _lines(self, lend: Lend) -> Iterator[tuple[LineBlock, NDArray[np.float32]]]:
        """Blocks of lines and where their features go; the layout is held against the text before memory is claimed."""
        most = max(1, _BLOCK_VALUES // max(1, self._layout.width))
        rows = text = 0
        for block in _all_blocks(self._paths):
            rows, text = rows + block.text.count(b"\n"), text + len(block.text)
            _check_proportion(self._layout, rows, text, self._paths[0])
            for part in block.parts(most):
                yield part, lend(part.text.count(b"\n"))

    def line_of(self, where: Path | str, row: int) -> int | None:
        """The line of a row, which is not its number where lines are empty or comments."""
        lines = (
            number
            for block in read_blocks(Path(where))
            for number, line in enumerate(block.text[:-1].split(b"\n"), start=block.first_line)
            if line.strip() and not line.lstrip().startswith(b"#")
        )
        return next(itertools.islice(lines, row, None))

    def _parsed(self, work: tuple[LineBlock, NDArray[np.float32]]) -> RowBatch:
        """The rows of a block of lines, or the error of the line where parsing stopped."""
        block, features = work
        text = np.frombuffer(block.text, dtype=np.uint8)
        target = kernel.RowBuffer.for_rows(features, np.zeros(len(features), np.float32))
        problem, at, feature, rows, runs = kernel.parse_rows(text, self._layout.first_id, target)
        if problem == kernel.OUT_OF_LAYOUT and self._layout.counted and feature:
            raise WiderRowError
        if problem != kernel.OK:
            first, last = self._layout.first_id, self._layout.first_id + self._layout.width - 1
            message = _PROBLEMS[problem].format(found=repr(block.token(at)), feature=feature, first=first, last=last)
            line, column = block.place(at)
            raise FormatError(message, path=block.path, line=line, column=column)
        spans = zip(target.run_starts[:runs].tolist(), target.run_ends[:runs].tolist(), strict=True)
        return RowBatch(
            block.path,
            0,
            target.run_rows[:runs],
            pa.array([_decoded(block.text[start:end]) for start, end in spans], pa.large_string()),
            _document_ids(block.text, target.comment_starts[:rows], target.comment_ends[:rows]),
            target.labels[:rows],
            checks.filled(features[:rows], self.missing),
        )


# -- layout --------------------------------------------------------------------------------------------------------


def _all_blocks(paths: Sequence[Path]) -> Iterator[LineBlock]:
    return itertools.chain.from_iterable(read_blocks(path) for path in paths)


def _counted(paths: Sequence[Path], first_id: int, most_blocks: int | None = None) -> RowLayout:
    """The layout with all ids of the first blocks, or of whole files."""
    largest, rows, text = first_id - 1, 0, 0
    for block in itertools.islice(_all_blocks(paths), most_blocks):
        rows, text = rows + block.text.count(b"\n"), text + len(block.text)
        largest = max(largest, int(kernel.largest_id(np.frombuffer(block.text, dtype=np.uint8))))
    layout = RowLayout(first_id, largest - first_id + 1, counted=True, row_bytes=text / max(rows, 1) or np.inf)
    _check_proportion(layout, rows, text, paths[0])
    return layout


def _check_proportion(layout: RowLayout, rows: int, text: int, path: Path) -> None:
    """Refuse feature ids that imply a table far larger than a file with this many bytes of text can mean."""
    size = 4 * rows * layout.width
    is_large = layout.width > _MOST_FEATURES or size > max(_FREE_BYTES, checks.MOST_TIMES * text)
    if layout.counted and is_large:
        raise FormatError(
            f"feature ids reach {layout.first_id + layout.width - 1:,}, which makes a table of {rows:,} × "
            f"{layout.width:,} numbers ({size / 2**30:,.1f} GiB) of {text:,} bytes of text; number "
            f"the features without gaps, or, if the ids are right, say `n_features={layout.width}`.",
            path=path,
        )


# -- rows ----------------------------------------------------------------------------------------------------------


def _document_ids(text: bytes, starts: IntArray, ends: IntArray) -> pa.Array | None:
    """What the comments of rows say after `docid =`, null where a comment does not; None if none does."""
    if not (ends > starts).any():
        return None
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    matches = [_DOCUMENT.search(text, start, end) for start, end in spans]
    ids = pa.array([_decoded(match[1]) if match else None for match in matches], pa.large_string())
    return None if ids.null_count == len(ids) else ids


def _decoded(word: bytes) -> str:
    return word.decode("utf-8", errors="backslashreplace")


_PROBLEMS = {  # {found}: the word where parsing stopped; {feature}: the id of the feature
    kernel.BAD_LABEL: "expected a label, found {found}; a LETOR row is `label qid:query feature:value …`. "
    "Tables with named columns are read from .parquet, .csv and .tsv files.",
    kernel.BAD_LABEL_RANGE: "the label {found} is too large for a 32-bit number.",
    kernel.NO_QUERY: "expected `qid:` and the query, found {found}; a LETOR row is `label qid:query feature:value …`.",
    kernel.BAD_QUERY: "`qid:` has no query after it.",
    kernel.BAD_FEATURE: "expected `feature:value`, with a whole number as feature, found {found}.",
    kernel.BAD_VALUE: "the value of feature {feature} is {found}, which is not a number.",
    kernel.DUPLICATE: "feature {feature} appears twice; a LETOR row lists each feature once.",
    kernel.OUT_OF_LAYOUT: "feature {feature} is outside the features {first} … {last}; ids start at 1, or at 0 with "
    "`zero_based=True`, and `n_features` says how many there are.",
}
