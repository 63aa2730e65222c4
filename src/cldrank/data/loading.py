"""`load`: ranking data by path or by name, whatever its format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from cldrank.data import catalogue
from cldrank.data.cache import cached
from cldrank.data.dataset import RankingDataset
from cldrank.data.lines import plain_suffix
from cldrank.data.parquet import read_parquet
from cldrank.data.parquet_columns import ColumnNames
from cldrank.errors import DataError, UsageError
from cldrank.reading import reading

Source = str | PathLike[str]

_WORTH_CACHING = 8 << 20  # bytes; smaller files are read again as quickly
_PARQUET = (".parquet", ".pq")


def load(
    source: Source | Sequence[Source],
    *,
    columns: ColumnNames | None = None,
    groups: Source | Sequence[Source] | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    missing: float | None = None,
    name: str = "",
    cache: bool = True,
) -> RankingDataset:
    r"""Load ranking data: a LETOR / SVMlight or Parquet file, several parts of one, a folder, a pattern, or a name.

    source       a path, a folder of parts, a pattern such as `part-*.txt`, a list of any of these, or a data set of
                 the catalogue such as `msrd:train` or `mq2008:fold1/test`
    columns      Parquet: what the columns are called (see `read_parquet`)
    groups       LETOR: files with the number of rows of each query, for rows without `qid:` (see `read_letor`)
    n_features   LETOR: how many features there are, if rows may leave out the last ones
    zero_based   LETOR: whether feature ids start at 0; found out if not given
    missing      what to put where a value is missing; refused if not given
    cache        keep large files memory-mapped in the user's cache, so that the next load is immediate

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n2 qid:2 1:0.9\n")
    ...     load(path)
    RankingDataset(train: 2 queries, 3 rows, 1 feature, labels 0…2)
    """
    if not isinstance(source, str | PathLike | Sequence):
        raise UsageError(f"load takes paths or names of data sets, not a {type(source).__name__}.")
    sources = [source] if isinstance(source, str | PathLike) else list(source)
    paths = [path for one in sources for path in _expanded(one)]
    if not paths:
        raise UsageError("there is nothing to load: no file was named.")
    parquet = {_is_parquet(path) for path in paths}
    if len(parquet) > 1:
        raise UsageError(f"{paths[0]} and {paths[-1]} are of different formats; load Parquet and text separately.")
    _check_filler(missing)
    group_paths = _group_paths(groups)

    def read() -> RankingDataset:
        try:
            dataset = read_as_named()
        except DataError as error:
            if any(str(path) in str(error) for path in paths):
                raise
            raise DataError(f"{paths[0]}: {error}") from None  # what only the dataset sees, it says without the file
        return dataset if dataset.name else dataset.renamed(_name_of(sources))

    def read_as_named() -> RankingDataset:
        if parquet == {True}:
            if groups is not None or n_features is not None or zero_based is not None:
                raise UsageError("groups, n_features and zero_based are for text files; a Parquet file has columns.")
            return read_parquet(paths, columns=columns, missing=missing, name=name)
        if columns is not None:
            raise UsageError("columns is for Parquet files; a LETOR row has no column names.")
        from cldrank.data.letor import read_letor

        return read_letor(
            paths, groups=group_paths, n_features=n_features, zero_based=zero_based, missing=missing, name=name
        )

    if not cache or sum(path.stat().st_size for path in paths) < _WORTH_CACHING:
        return read()
    from cldrank.data.letor import GROUP_SUFFIXES

    beside = [path.with_name(path.name + suffix) for path in paths for suffix in GROUP_SUFFIXES]
    watched = [*paths, *(group_paths or [path for path in beside if path.exists()])]
    options = {"columns": columns, "n_features": n_features, "zero_based": zero_based, "missing": missing, "name": name}
    return cached(read, watched, options)


def _check_filler(missing: float | None) -> None:
    if missing is not None and not math.isfinite(missing):
        raise UsageError(f"missing is {missing}; what stands for a missing value must be a finite number.")


def _expanded(source: Source) -> list[Path]:
    """The files that a source stands for."""
    path = Path(source)
    if path.is_dir():
        parts = sorted(part for part in path.iterdir() if part.is_file() and not part.name.startswith((".", "_")))
        parts = [part for part in parts if _is_parquet(part)] or [p for p in parts if plain_suffix(p) in _TEXT]
        if not parts:
            raise DataError(f"{path}: the folder holds no .parquet, .txt, .letor, .libsvm, .svm or .dat file.")
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


_TEXT = (".txt", ".letor", ".libsvm", ".svm", ".svmlight", ".dat", ".train", ".test", ".vali")


def _is_parquet(path: Path) -> bool:
    if path.suffix in _PARQUET:
        return True
    with reading(path, "a readable file"), path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _group_paths(groups: Source | Sequence[Source] | None) -> list[Path] | None:
    if groups is None:
        return None
    paths = [Path(path) for path in ([groups] if isinstance(groups, str | PathLike) else groups)]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such group file.")
    return paths


def _name_of(sources: Sequence[Source]) -> str:
    """What to call the data: a catalogue name as it is, a file by its name without suffixes."""
    names = [
        one if isinstance(one, str) and catalogue.is_reference(one) else Path(one).name.split(".")[0] for one in sources
    ]
    return " + ".join(dict.fromkeys(names))
