"""`load`: ranking data by path or by name, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.arguments import check_flag
from cldrank.data import catalogue
from cldrank.data.cache import cached, stored
from cldrank.data.checks import Missing, check_missing
from cldrank.data.dataset import RankingDataset
from cldrank.data.formats import FeatureFormat, feature_format, is_csv_name, is_letor_name, is_parquet
from cldrank.data.formats.letor_groups import group_candidates
from cldrank.data.formats.parquet_columns import ARGUMENTS, ColumnNames
from cldrank.errors import CldrankWarning, DataError, Spelling, UsageError, warn
from cldrank.memory import machine_memory
from cldrank.wording import kind_of

Source = str | PathLike[str]

_WORTH_CACHING = 8 << 20  # bytes; smaller files are read again as quickly


def load(
    source: Source | Sequence[Source] | Any,
    *,
    query: str | None = None,
    doc: str | None = None,
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    groups: Source | Sequence[Source] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: Missing = None,
    name: str = "",
    cache: bool = True,
    stream: bool | None = None,
) -> RankingDataset:
    r"""Load ranking data: a Parquet, CSV or LETOR / SVMlight file, several of them, a folder, a name, or a DataFrame.

    source       a path, a folder of parts, a pattern such as `part-*.txt`, a list of any of these, a data set of
                 the catalogue such as `msrd:train` or `mq2008:fold1/test`, or a frame: pandas, Polars, Arrow, or
                 another that narwhals knows
    query        tables and frames: the column of query ids, `query_id` if not given
    doc, label   the same for document ids and labels, `doc_id` and `label` where there are such columns
    features     columns of numbers, or one column of lists; by default the list column `features`, or else every
                 column without another role
    groups       LETOR: files with the number of rows of each query, for rows without `qid:` (see `read_letor`)
    n_features   LETOR: the number of features, if rows may leave out the last ones
    zero_based   LETOR: whether feature ids start at 0; inferred if not given
    missing      the value to fill in where one is missing, or "keep" for models that can use that; by default a missing
                 value is refused
    cache        keep large files memory-mapped in the user's cache, so that the next load is immediate
    stream       Parquet: whether features stay on disk and are read as they are needed; by default, where they would
                 take more than half of the memory that is free and are not in the cache

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n2 qid:2 1:0.9\n")
    ...     load(path)
    RankingDataset(train: 2 queries, 3 rows, 1 feature, labels 0…2)

    Row i of a frame is row i of the dataset, so the rows of a query must lie together there. In a file they may be
    scattered: `source_rows` says where each lay.
    """
    columns = columns_by_role(query, doc, label, features)
    if stream is not None:
        check_flag("stream", stream)
    if not isinstance(source, str | PathLike | Sequence):
        from cldrank.data.frames import is_frame, read_frame

        if is_frame(source):
            _refuse_text_options(groups, n_features, zero_based)
            if stream:
                raise UsageError("stream=True is for Parquet files; a frame is in memory already.")
            return read_frame(source, columns=columns, missing=missing, name=name)
    paths = source_files(source)
    check_missing(missing)
    group_paths = group_paths_of(groups)
    read = _reader(paths, columns, group_paths, n_features, zero_based, missing, name)
    options = {"columns": columns, "n_features": n_features, "zero_based": zero_based, "missing": missing, "name": name}
    cacheable = cache and sum(path.stat().st_size for path in paths) >= _WORTH_CACHING
    sources = [*paths, *(group_paths or groups_beside(paths))]
    dataset = stored(sources, options) if cacheable and not stream else None
    if dataset is None and _stays_on_disk(paths, columns, stream):
        dataset = _streamed(paths, columns, missing, name, asked=bool(stream))
    if dataset is None:
        dataset = cached(read, sources, options) if cacheable else read()
    return dataset if dataset.name else dataset.renamed(_name_of(_listed(source)))


def columns_by_role(
    query: str | None, doc: str | None, label: str | None, features: str | Sequence[str] | None
) -> ColumnNames | None:
    """The names of columns by role, as `read_parquet` takes them; None where none is named.

    >>> columns_by_role("qid", None, None, ["bm25", "length"])
    {'query_id': 'qid', 'features': ['bm25', 'length']}
    """
    named = dict(zip(ARGUMENTS, (query, doc, label, features), strict=True))
    return {role: name for role, name in named.items() if name is not None} or None


def source_files(source: Source | Sequence[Source]) -> list[Path]:
    """The files that a source of `load` stands for, at least one."""
    if not isinstance(source, str | PathLike | Sequence):
        raise UsageError(
            f"a source is a path, the name of a data set, or a DataFrame, not {kind_of(source)}; "
            "RankingDataset.from_arrays takes arrays."
        )
    for one in _listed(source):
        if not isinstance(one, str | PathLike):
            raise UsageError(f"a list of sources holds paths and names, not {kind_of(one)}; concatenate frames first.")
    paths = [path for one in _listed(source) for path in _expanded(one)]
    if not paths:
        raise UsageError("there is nothing to load: no file was named.")
    return paths


def format_of_files(
    paths: Sequence[Path],
    columns: ColumnNames | None,
    groups: Sequence[Path] | None,
    n_features: int | None,
    zero_based: bool | None,
) -> FeatureFormat:
    """The format of files; refused where they are mixed, or an option is for another format."""
    formats = {feature_format(path): path for path in paths}
    if len(formats) > 1:
        one, two = list(formats.values())[:2]
        raise UsageError(f"{one} and {two} are of different formats; load them separately.")
    found = next(iter(formats))
    if found != "letor":
        _refuse_text_options(groups, n_features, zero_based)
    elif columns is not None:
        option = Spelling(f"{ARGUMENTS[next(iter(columns))]} names a column, and columns are", "--column is")
        raise UsageError("{} for Parquet and CSV files; a LETOR row has no column names.", option)
    return found


def _refuse_text_options(groups: Any, n_features: int | None, zero_based: bool | None) -> None:
    if groups is not None or n_features is not None or zero_based is not None:
        options = Spelling("groups, n_features and zero_based", "--groups and --n-features")
        raise UsageError("{} are for LETOR files, not for tables with named columns.", options)


def _listed(source: Source | Sequence[Source]) -> list[Source]:
    return [source] if isinstance(source, str | PathLike) else list(source)


def _reader(
    paths: Sequence[Path],
    columns: ColumnNames | None,
    groups: Sequence[Path] | None,
    n_features: int | None,
    zero_based: bool | None,
    missing: Missing,
    name: str,
) -> Callable[[], RankingDataset]:
    """The function that reads these files, which must all be of one format."""
    found = format_of_files(paths, columns, groups, n_features, zero_based)
    if found == "parquet":
        from cldrank.data.formats.parquet import read_parquet

        return partial(read_parquet, paths, columns=columns, missing=missing, name=name)
    if found == "csv":
        from cldrank.data.formats.csv import read_csv

        return partial(read_csv, paths, columns=columns, missing=missing, name=name)
    from cldrank.data.formats.letor import read_letor

    return partial(
        read_letor, paths, groups=groups, n_features=n_features, zero_based=zero_based, missing=missing, name=name
    )


def _stays_on_disk(paths: Sequence[Path], columns: ColumnNames | None, stream: bool | None) -> bool:
    """Whether the features of some files are not to be loaded: as it is said, or because they would take too much."""
    parquet = feature_format(paths[0]) == "parquet"
    if stream and not parquet:
        raise UsageError(
            "{} is for Parquet files, and {} is text; convert it first: `cldrank data convert {} --out FILE.parquet`.",
            Spelling("stream=True", "--stream"),
            paths[0],
            paths[0],
        )
    if stream is not None or not parquet:
        return bool(stream)
    return _share_of_memory(paths, columns) > 0.5


def _share_of_memory(paths: Sequence[Path], columns: ColumnNames | None) -> float:
    """The features of Parquet files as a share of the memory that is free; 0 where that is not known."""
    from cldrank.data.formats.parquet_on_disk import decoded_bytes

    free = machine_memory(free=True)
    return 0.0 if free is None else decoded_bytes(paths, columns) / max(free, 1)


def _streamed(
    paths: Sequence[Path], columns: ColumnNames | None, missing: Missing, name: str, *, asked: bool
) -> RankingDataset | None:
    """The data with features on disk; None where that was not asked for, cannot be, and memory will do."""
    from cldrank.data.formats.parquet_on_disk import ScatteredRowsError, open_parquet

    try:
        return open_parquet(paths, columns=columns, missing=missing, name=name)
    except ScatteredRowsError as error:
        if asked or _share_of_memory(paths, columns) > 1:
            raise
        warn(
            CldrankWarning(
                "the features of {} take more than half of the free memory, but cannot stay on disk, as the rows of "
                "query {!r} do not lie together; they are loaded into memory. Sort the rows by query, or say {}.",
                error.path,
                error.query,
                Spelling("stream=False", "--no-stream"),
            )
        )
        return None


def _expanded(source: Source) -> list[Path]:
    """The files that a source stands for."""
    path = Path(source)
    if path.is_dir():
        parts = sorted(part for part in path.iterdir() if part.is_file() and not part.name.startswith((".", "_")))
        tables = [part for part in parts if is_parquet(part)] or [part for part in parts if is_csv_name(part)]
        parts = tables or [part for part in parts if is_letor_name(part)]
        if not parts:
            raise DataError(
                f"{path}: the folder holds no .parquet, .csv, .tsv, .txt, .letor, .libsvm, .svm or .dat file."
            )
        return parts
    if path.exists():
        return [path]
    if isinstance(source, str) and catalogue.is_reference(source):
        return catalogue.resolve(source)
    if any(letter in path.name for letter in "*?["):
        parts = sorted(path.parent.glob(path.name))
        if not parts:
            raise UsageError(f"{path}: no file matches this pattern.")
        return parts
    raise UsageError(
        f"{path}: no such file. Name a file, a folder, a pattern, or a data set as `cldrank data list` shows them."
    )


def group_paths_of(groups: Source | Sequence[Source] | None) -> list[Path] | None:
    """The group files that are named; refused where one is not there."""
    if groups is None:
        return None
    paths = [Path(path) for path in ([groups] if isinstance(groups, str | PathLike) else groups)]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such group file.")
    return paths


def groups_beside(paths: Sequence[Path]) -> list[Path]:
    """The group files that the LETOR reader would find by itself."""
    return [beside for path in paths for beside in group_candidates(path) if beside.exists()]


def _name_of(sources: Sequence[Source]) -> str:
    """What to call the data: a catalogue name as it is, a file by its name without suffixes."""
    names = [
        one if isinstance(one, str) and catalogue.is_reference(one) else Path(one).name.split(".")[0] for one in sources
    ]
    return " + ".join(dict.fromkeys(names))
