"""Score files: the scores that a ranker, ours or another, gave to the rows of a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cldrank.data import checks
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats.lines import open_bytes, read_blocks
from cldrank.errors import FormatError, UsageError
from cldrank.reading import reading
from cldrank.wording import kind_of, some

if TYPE_CHECKING:
    from cldrank.data.formats.parquet_columns import TablePart

_IDS = ("query_id", "doc_id")
_LONGEST_HEADER = 1 << 12


def load_scores(source: str | Path | Any, dataset: RankingDataset) -> NDArray[np.float64]:
    r"""The score of each row of a dataset, from a file or a frame.

    Text has one number per line and `.npy` one array, both in the order of the rows in the dataset's own file. Parquet,
    CSV with a header, and a frame, has a column `score` in that order, or in any order beside columns `query_id` and
    `doc_id`.

    >>> import tempfile
    >>> data = RankingDataset.from_arrays([[1], [2]], [7, 7])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "scores.txt"
    ...     _ = path.write_text("0.25\n-1e3\n")
    ...     load_scores(path, data)
    array([ 2.5e-01, -1.0e+03])
    """
    path, columns = _opened(source)
    if columns:
        scores, found = _by_row(columns, dataset, path)
    else:
        scores, found = (_from_npy(Path(path)) if str(path).endswith(".npy") else _from_text(Path(path))), False
    if len(scores) != dataset.n_rows:
        why = _lacking(columns) if len(scores) < dataset.n_rows else ""
        raise FormatError(f"has {len(scores):,} scores for {dataset.n_rows:,} rows.{why}", path=path)
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise FormatError(f"score {bad[0] + 1} is {scores[bad[0]]}; scores must be finite.", path=path)
    return scores if found or dataset.source_rows is None else scores[dataset.source_rows]


def _opened(source: Any) -> tuple[Path | str, dict[str, Any]]:
    """What to call the source, and the columns of scores and ids; none where a file has no columns."""
    if not isinstance(source, str | PathLike):
        from cldrank.data.frames import FramePart, is_frame, is_lazy

        if not is_frame(source):
            raise UsageError(f"scores are in a file or a DataFrame, not in {kind_of(source)}.")
        part = FramePart(source)
        if is_lazy(source) and not set(_IDS) <= set(part.names):
            raise UsageError(
                f"{part.path} is yet to be computed, and its rows have no fixed order that scores could follow; "
                "collect it first, or give it columns query_id and doc_id."
            )
        return part.path, _score_columns(part)
    path = Path(source)
    checks.check_file(path)
    if path.suffix in (".parquet", ".pq"):
        from cldrank.data.formats.parquet_columns import ParquetPart

        return path, _score_columns(ParquetPart.open(path))
    return path, _from_csv(path) if path.suffix == ".csv" and _has_header(path) else {}


def _from_text(path: Path) -> NDArray[np.float64]:
    scores: list[float] = []
    for block in read_blocks(path):
        for number, line in enumerate(bytes(block.text).splitlines(), start=block.first_line):
            word = line.strip()
            if not word:
                continue
            try:
                scores.append(float(word.replace(b"_", b"?")))  # Python would read 1_000 as a number
            except ValueError:
                shown = word[:40].decode("utf-8", errors="backslashreplace")
                raise FormatError(
                    f"{shown!r} is not a number; a score file has one number per line.", path=path, line=number
                ) from None
    return np.array(scores)


def _from_npy(path: Path) -> NDArray[np.float64]:
    with reading(path, "a readable .npy file"), path.open("rb") as file:
        scores: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    if scores.ndim != 1 or scores.dtype.kind not in "fiu":
        raise FormatError(
            f"holds {scores.dtype} of shape {scores.shape}; scores are a flat array of numbers.", path=path
        )
    return scores.astype(np.float64)


def _score_columns(file: TablePart) -> dict[str, Any]:
    """The columns of scores and ids."""
    from cldrank.data.formats.parquet_columns import check_ids, is_number

    path = file.path
    if "score" not in file.counts:
        raise FormatError(f"there is no column 'score'; it has {some(file.names, most=8)}.", path=path)
    if not is_number(file.kind("score")):
        raise FormatError(f"column 'score' holds {file.kind('score')}, not numbers.", path=path)
    known = [column for column in (*_IDS, "rank") if column in file.counts]
    for column in known[:2] if set(_IDS) <= set(known) else ():
        check_ids(file, column)
    return {column: file.column(column) for column in ("score", *known)}


def _has_header(path: Path) -> bool:
    """Whether a text file begins with the names of columns, `score` among them."""
    with open_bytes(path) as file, reading(path, "a readable file"):
        head = file.read(_LONGEST_HEADER).partition(b"\n")[0]
    return b"score" in [name.strip(b' "\r\xef\xbb\xbf') for name in head.split(b",")]


def _from_csv(path: Path) -> dict[str, Any]:
    """The columns of scores and ids, ids as text."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {"score": pa.float64(), **dict.fromkeys(_IDS, pa.string())}
    with reading(path, "a CSV file of scores"):
        table = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=kinds, null_values=[""], strings_can_be_null=False),
        )
        return {name: table.column(name) for name in ("score", *_IDS, "rank") if name in table.column_names}


def _by_row(columns: dict[str, Any], dataset: RankingDataset, path: Path | str) -> tuple[NDArray[np.float64], bool]:
    """Scores, and whether they were found by their ids and so are in the order of the dataset."""
    scores = columns["score"].to_numpy().astype(np.float64)
    if not all(column in columns for column in _IDS):
        _check_order(columns, dataset, path)
        return scores, False
    if dataset.doc_ids is None:
        raise FormatError("names documents, but the dataset has no document ids to match.", path=path)
    scored = zip(*(map(str, columns[column].to_pylist()) for column in _IDS), strict=True)
    wanted = zip(
        map(str, dataset.query_ids[dataset.row_queries].tolist()), map(str, dataset.doc_ids.tolist()), strict=True
    )
    return scores[_places(scored, wanted, path, _lacking(columns))], True


def _check_order(columns: dict[str, Any], dataset: RankingDataset, path: Path | str) -> None:
    """Refuse scores that are taken by their place although the only id beside them says that this is wrong."""
    rows = np.arange(dataset.n_rows) if dataset.source_rows is None else np.argsort(dataset.source_rows)
    own = {"query_id": dataset.query_ids[dataset.row_queries], "doc_id": dataset.doc_ids}
    for column, ids in own.items():
        if column not in columns or ids is None or len(columns[column]) != dataset.n_rows:
            continue
        there = list(map(str, columns[column].to_pylist()))
        wanted = list(map(str, ids[rows].tolist()))
        if there != wanted:
            at = next(place for place in range(len(wanted)) if there[place] != wanted[place])
            raise FormatError(
                f"row {at + 1} has {column} {there[at]}, and the dataset {wanted[at]}; without both of query_id and "
                "doc_id, scores must be in the order of the dataset.",
                path=path,
            )


def _lacking(columns: dict[str, Any]) -> str:
    """Why rows may be missing in a file."""
    return " A file that `cldrank score --top` wrote lacks the rows below the top." if "rank" in columns else ""


def _places(
    scored: Iterable[tuple[str, str]], wanted: Iterable[tuple[str, str]], path: Path | str, why: str
) -> list[int]:
    """For each wanted (query, document), the place of its score in the file."""
    place: dict[tuple[str, str], int] = {}
    for index, (query, document) in enumerate(scored):
        if place.setdefault((query, document), index) != index:
            raise FormatError(f"query {query}, document {document} has two scores.", path=path)
    keys = list(wanted)
    places = [place.get(key, -1) for key in keys]
    if -1 in places:
        query, document = keys[places.index(-1)]
        raise FormatError(f"has no score for query {query}, document {document}.{why}", path=path)
    return places
