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
from cldrank.errors import UsageError
from cldrank.tables import TableFile, is_frame, named_paths, table_files
from cldrank.tables.sources import Format, known_format, refuse_own
from cldrank.wording import kind_of

Source = str | PathLike[str]

_WORTH_KEEPING = 8 << 20  # bytes; smaller files are read again as quickly
_FORMATS: tuple[Format, ...] = ("parquet", "csv", "letor")  # of features, the first that a folder has is taken


def load(
    source: Source | Sequence[Source] | Any,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    n_features: int | None = None,
    zero_based: bool = False,
    missing: Missing = None,
    name: str = "",
    cache: bool = True,
) -> RankingDataset:
    r"""Load ranking data: a Parquet, CSV or LETOR / SVMlight file, several of them, a folder, a name, or a DataFrame.

    source       a path, a folder of parts, a pattern such as `days/*/part-*.txt`, a list of any of these, a data set
                 of the catalogue such as `msrd:train` or `mq2008:fold1/test`, or a frame: pandas, Polars, Arrow, or
                 another that narwhals knows
    columns      tables and frames: the columns of `query_id`, `doc_id` and `label`, where their names differ, and of
                 `features`, which are columns of numbers; by default every column without another role
    n_features   LETOR: the number of features, if rows may leave out the last ones
    zero_based   LETOR: whether feature ids start at 0; by default they start at 1, and an id 0 is refused
    missing      the number to fill in for missing values, or "keep" for models that can use them; by default missing
                 values are refused
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
    files = [] if is_frame(source) else feature_files(source)
    check_format_options(files, columns, n_features, zero_based)
    paths = [file.path for file in files]
    text: dict[str, Any] = {"n_features": n_features, "zero_based": zero_based, "missing": missing}

    def read(folder: Path | None) -> RankingDataset:
        if files and files[0].format == "letor":
            from cldrank.data.letor import read_letor

            return read_letor(paths, **text, name=name, folder=folder)
        from cldrank.data.rows import dataset_of
        from cldrank.data.table_rows import TableSource, table_parts

        return dataset_of(TableSource(table_parts(files or source), columns, missing), name=name, folder=folder)

    is_kept = files and cache and sum(path.stat().st_size for path in paths) >= _WORTH_KEEPING
    dataset = stored(read, paths, {**text, "columns": columns, "name": name}) if is_kept else read(None)
    return dataset if dataset.name or not files else dataset.renamed(_name_of(source))


def feature_files(source: Source | Sequence[Source]) -> list[TableFile]:
    """The files that a source of `load` stands for, at least one; of a folder, those of a single format."""
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
            refuse_own(path, "feature file")
            known = known_format(path)  # what is neither Parquet nor CSV is LETOR text
            files.append(TableFile(path, path.parent, known if known in ("parquet", "csv") else "letor"))
    return files


def check_format_options(
    files: Sequence[TableFile], columns: Mapping[str, Any] | None, n_features: int | None, zero_based: bool
) -> None:
    """Refuse files of several formats, and options that are for another format; a frame has no files."""
    formats = {file.format: file.path for file in files}
    if len(formats) > 1:
        first, second = list(formats.values())[:2]
        raise UsageError(f"{first} and {second} are of different formats; load them separately.")
    if "letor" in formats and columns:
        raise UsageError("`columns` is for tables with named columns; a LETOR row has no column names.")
    for name, is_set in (("n_features", n_features is not None), ("zero_based", zero_based)):
        if is_set and "letor" not in formats:
            raise UsageError(f"`{name}` is for LETOR files, not for tables with named columns.")


def _name_of(source: Source | Sequence[Source]) -> str:
    """What to call the data: a catalogue name as it is, a file by its name without suffixes."""
    named = [source] if isinstance(source, str | PathLike) else source
    names = [
        entry if isinstance(entry, str) and catalogue.is_reference(entry) else Path(entry).name.split(".")[0]
        for entry in named
    ]
    return " + ".join(dict.fromkeys(names))
