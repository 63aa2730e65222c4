"""`load`: ranking data by path or by name, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank import catalogue
from cldrank.data.checks import Missing, check_missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.store import stored
from cldrank.errors import DataError, UsageError
from cldrank.reading import reading
from cldrank.tables import TableFile, is_frame, named_paths, table_files
from cldrank.tables.sources import Format, format_of
from cldrank.wording import kind_of

Source = str | PathLike[str]

_WORTH_KEEPING = 8 << 20  # bytes; smaller files are read again as quickly
_FORMATS: tuple[Format, ...] = ("parquet", "csv", "letor")  # of features, the first that a folder has is taken


def load(
    source: Source | Sequence[Source] | Any,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    groups: Source | Sequence[Source] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
    name: str = "",
    cache: bool = True,
) -> RankingDataset:
    r"""Load ranking data: a Parquet, CSV or LETOR / SVMlight file, several of them, a folder, a name, or a DataFrame.

    source       a path, a folder of parts, a pattern such as `days/*/part-*.txt`, a list of any of these, a data set
                 of the catalogue such as `msrd:train` or `mq2008:fold1/test`, or a frame: pandas, Polars, Arrow, or
                 another that narwhals knows
    columns      tables and frames: the columns of `query_id`, `doc_id` and `label`, where their names differ, and of
                 `features`, which are columns of numbers, or one column of lists; by default the list column
                 `features`, or else every column without another role
    groups       LETOR: files with the number of rows of each query, one per line, for rows without `qid:`
    n_features   LETOR: the number of features, if rows may leave out the last ones
    zero_based   LETOR: whether feature ids start at 0; by default they do if an id 0 occurs
    missing      the value to fill in where one is missing, or "keep" for models that can use that; by default a missing
                 value is refused
    cache        keep large files memory-mapped in the user's cache, so that the next load is immediate

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n2 qid:2 1:0.9\n")
    ...     load(path)
    RankingDataset(train: 2 queries, 3 rows, 1 feature, labels 0…2)

    The rows of a query need not lie together in a file or frame: they are brought together, and `source_rows` says
    where each lay. Features that would take more than half of the free memory are memory-mapped from a file.
    """
    check_missing(missing)
    if is_frame(source):
        return _loaded_frame(source, columns, missing, name, (groups, n_features, zero_based))
    files = feature_files(source)
    group_paths = group_paths_of(groups)
    check_format_options(files, columns, group_paths, n_features, zero_based)

    def read(folder: Path | None) -> RankingDataset:
        if files[0].format == "letor":
            from cldrank.data.letor import read_letor

            options: dict[str, Any] = {"groups": group_paths, "n_features": n_features, "zero_based": zero_based}
            return read_letor([file.path for file in files], **options, missing=missing, name=name, folder=folder)
        from cldrank.data.rows import dataset_of
        from cldrank.data.table_rows import TableSource, file_part

        return dataset_of(TableSource(list(map(file_part, files)), columns, missing), name=name, folder=folder)

    paths = [file.path for file in files]
    if cache and sum(path.stat().st_size for path in paths) >= _WORTH_KEEPING:
        options = {"columns": columns, "n_features": n_features, "zero_based": zero_based, "missing": missing}
        dataset = stored(read, [*paths, *(group_paths or [])], {**options, "name": name})
    else:
        dataset = read(None)
    return dataset if dataset.name else dataset.renamed(_name_of(source))


def _loaded_frame(frame: Any, columns: Any, missing: Missing, name: str, text_options: Sequence[Any]) -> RankingDataset:
    from cldrank.data.rows import dataset_of
    from cldrank.data.table_rows import TableSource, frame_part

    _refuse_text_options(*text_options)
    return dataset_of(TableSource([frame_part(frame)], columns, missing), name=name)


def feature_files(source: Source | Sequence[Source]) -> list[TableFile]:
    """The files that a source of `load` stands for, at least one; of a folder, those of one format."""
    if not isinstance(source, str | PathLike | Sequence):
        raise UsageError(
            f"a source is a path, the name of a data set, or a DataFrame, not {kind_of(source)}; "
            "RankingDataset.from_arrays takes arrays."
        )
    files: list[TableFile] = []
    for path in named_paths(source, "feature file"):
        if path.is_dir():
            below = table_files(path, _FORMATS, what="feature file", skip_others=True)
            chosen = next(form for form in _FORMATS if any(file.format == form for file in below))
            files += [file for file in below if file.format == chosen]
        else:
            files.append(TableFile(path, path.parent, feature_format(path)))
    return files


def feature_format(path: Path) -> Format:
    """The format of a file of candidates: by its name or else by its first bytes; what is neither is LETOR text."""
    try:
        return format_of(path, ("parquet", "csv"))
    except DataError:
        if not path.is_file():  # a pipe can be read only once
            return "letor"
    with reading(path, "a readable file"), path.open("rb") as file:
        return "parquet" if file.read(4) == b"PAR1" else "letor"


def check_format_options(
    files: Sequence[TableFile],
    columns: Mapping[str, Any] | None,
    groups: Sequence[Path] | None,
    n_features: int | None,
    zero_based: bool | None,
) -> None:
    """Refuse files of several formats, and options that are for another format."""
    formats = {file.format: file.path for file in files}
    if len(formats) > 1:
        one, two = list(formats.values())[:2]
        raise UsageError(f"{one} and {two} are of different formats; load them separately.")
    if "letor" not in formats:
        _refuse_text_options(groups, n_features, zero_based)
    elif columns:
        raise UsageError("`columns` is for tables with named columns; a LETOR row has no column names.")


def _refuse_text_options(groups: Any, n_features: int | None, zero_based: bool | None) -> None:
    given = {"groups": groups, "n_features": n_features, "zero_based": zero_based}
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"`{name}` is for LETOR files, not for tables with named columns.")


def group_paths_of(groups: Source | Sequence[Source] | None) -> list[Path] | None:
    """The group files that are named; refused where one is not there."""
    if groups is None:
        return None
    paths = [Path(path) for path in ([groups] if isinstance(groups, str | PathLike) else groups)]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such group file.")
    return paths


def _name_of(source: Source | Sequence[Source]) -> str:
    """What to call the data: a catalogue name as it is, a file by its name without suffixes."""
    named = [source] if isinstance(source, str | PathLike) else source
    names = [
        entry if isinstance(entry, str) and catalogue.is_reference(entry) else Path(entry).name.split(".")[0]
        for entry in named
    ]
    return " + ".join(dict.fromkeys(names))
