"""Score files: the scores that a ranker, ours or another, gave to the rows of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank.data.dataset import RankingDataset
from cldrank.data.lines import read_blocks
from cldrank.errors import FormatError, UsageError
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.data.table_rows import TablePart

_IDS = ("query_id", "doc_id")


def load_scores(source: str | Path | Any, dataset: RankingDataset) -> NDArray[np.float64]:
    r"""The score of each row of a dataset, from a file or a frame.

    A text file has a number per line, in the order of the rows in the dataset's own file. A table or frame has a column
    `score` in that order, or in any order beside columns `query_id` and `doc_id`.

    >>> import tempfile
    >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "scores.txt"
    ...     _ = path.write_text("0.25\n-1e3\n")
    ...     load_scores(path, data)
    array([ 2.5e-01, -1.0e+03])
    """
    from cldrank.data.table_rows import part_of
    from cldrank.tables.frames import is_lazy

    part = part_of(source, "scores")
    where = source if part is None else part.where
    if part is not None and not set(_IDS) <= set(part.schema.names) and is_lazy(source):
        raise UsageError(
            f"{where} is yet to be computed, and its rows have no fixed order that scores could follow; collect it "
            "first, or give it columns query_id and doc_id."
        )
    scores, ids = (_from_text(Path(source)), {}) if part is None else _columns(part)
    own = {column: _own_ids(dataset, column, where) for column in ids}
    rows: Any = slice(None) if dataset.source_rows is None else dataset.source_rows
    if len(ids) == len(_IDS):
        rows = _places(ids, own, where)
    elif len(scores) != dataset.n_rows:
        raise FormatError(f"has {len(scores):,} scores for {dataset.n_rows:,} rows.", path=where)
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise FormatError(f"score {bad[0] + 1} is {scores[bad[0]]}; scores must be finite.", path=where)
    for column in ids if len(ids) == 1 else ():  # it must agree with the order
        for row, (name, other) in enumerate(zip(np.array(ids[column], object)[rows], own[column], strict=True)):
            if name != other:
                raise FormatError(
                    f"has {column} {name} for row {row} of the dataset, which is of {other}; without both of query_id "
                    "and doc_id, scores must be in the order of the dataset.",
                    path=where,
                )
    in_order: NDArray[np.float64] = scores[rows]
    return in_order


def _columns(part: TablePart) -> tuple[NDArray[np.float64], dict[str, list[str]]]:
    """Scores, and the ids beside them as text."""
    names = part.schema.names
    if "score" not in names:
        raise FormatError(f"there is no column 'score'; it has {some(names, most=8)}.", path=part.where)
    ids = [column for column in _IDS if column in names]
    part.check(ids, ["score"])
    texts, scores = part.columns(ids, "score")
    return scores, dict(zip(ids, texts, strict=True))


def _from_text(path: Path) -> NDArray[np.float64]:
    scores: list[float] = []
    for block in read_blocks(path):
        for number, line in enumerate(block.text.splitlines(), start=block.first_line):
            try:
                scores += [float(word.replace(b"_", b"?")) for word in [line.strip()] if word]  # not 1_000
            except ValueError:
                shown = line.strip()[:40].decode("utf-8", errors="backslashreplace")
                problem = f"{shown!r} is not a number; a score file has one number per line."
                raise FormatError(problem, path=path, line=number) from None
    return np.array(scores)


def _own_ids(dataset: RankingDataset, column: str, where: Any) -> list[str]:
    """The ids of each row of a dataset, as text."""
    ids = dataset.query_ids[dataset.row_queries] if column == "query_id" else dataset.doc_ids
    if ids is None:
        raise FormatError("names documents, but the dataset has no document ids to match.", path=where)
    return list(map(str, ids.tolist()))


def _places(ids: dict[str, list[str]], own: dict[str, list[str]], where: Any) -> list[int]:
    """For each row of a dataset, the place of its score in the file."""
    place: dict[tuple[str, str], int] = {}
    for index, key in enumerate(zip(ids["query_id"], ids["doc_id"], strict=True)):
        if place.setdefault(key, index) != index:
            raise FormatError(f"query {key[0]}, document {key[1]} has two scores.", path=where)
    for query, document in zip(own["query_id"], own["doc_id"], strict=True):
        if (query, document) not in place:
            raise FormatError(f"has no score for query {query}, document {document}.", path=where)
    return [place[key] for key in zip(own["query_id"], own["doc_id"], strict=True)]
