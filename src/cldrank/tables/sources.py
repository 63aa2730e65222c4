"""The files of a table: which ones a path names, their formats, and the values in the names of their folders."""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Literal, cast
from urllib.parse import unquote

from cldrank import catalogue
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.reading import reading
from cldrank.wording import kind_of, some

Source = str | PathLike[str] | Sequence[str | PathLike[str]]
Format = Literal["parquet", "csv", "json", "letor"]

HIDDEN = (".", "_")  # as in Hive and Spark: _SUCCESS, _temporary, .part-0.crc, …
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".txt": "letor",
    ".letor": "letor",
    ".libsvm": "letor",
    ".svm": "letor",
    ".svmlight": "letor",
    ".dat": "letor",
}
COMPRESSIONS = (".gz", ".zst", ".xz")  # the last for LETOR text only
TABLES: tuple[Format, ...] = ("parquet", "csv", "json")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # Hive's name for the folder of rows without a value
_DELIMITERS = ",\t;|"
_LONGEST_HEADER = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TableFile:
    """A file of a table.

    root   the folder that was searched; for a file that was named directly, the folder that it lies in
    """

    path: Path
    root: Path
    format: Format

    @property
    def partition(self) -> dict[str, str | None]:
        """The keys and values in the names of the folders between `root` and the file.

        >>> TableFile(Path("log/day=1/surface=a%20b/part.parquet"), Path("log"), "parquet").partition
        {'day': '1', 'surface': 'a b'}
        """
        folders = self.path.relative_to(self.root).parts[:-1]
        pairs = (folder.partition("=") for folder in folders if "=" in folder)
        return {key: None if value == _NO_VALUE else unquote(value) for key, _, value in pairs if key}


def table_files(
    source: Source | list[TableFile],
    formats: Sequence[Format] = TABLES,
    *,
    what: str = "table",
    skip_others: bool = False,
) -> list[TableFile]:
    """The files that a source stands for: paths, folders with all that is below them, patterns, names of the catalogue.

    A pattern such as `2024-*.parquet`, `days/*/*.parquet` or `days/**/*.parquet` stands for all that match, sorted.
    Hidden files are left out unless they are named. A file that is named twice is refused. A list of
    `TableFile` is returned as it is.

    formats       the formats that the caller reads
    what          what messages call it
    skip_others   whether other files in a folder are left out; by default they are refused
    """
    if isinstance(source, list) and source and isinstance(source[0], TableFile):
        return cast("list[TableFile]", source)
    files: list[TableFile] = []
    for path in named_paths(cast("Source", source), what):
        if path.is_dir():
            files += _below(path, formats, skip_others, what)
        else:
            files.append(TableFile(path, path.parent, format_of(path, formats)))
    for file in files:
        if refuse_own(file.path, what).startswith(b"["):
            raise FormatError("the file is a single array; write an object per line (JSON Lines).", path=file.path)
    return files


def text_files(source: Source) -> list[Path]:
    """The files that a source stands for, whatever their formats."""
    files = [file for path in named_paths(source) for file in (_shown(path) if path.is_dir() else [path])]
    if not files:
        raise DataError(f"{source}: the folder holds no files.")
    return files


def named_paths(source: Source, what: str = "table") -> list[Path]:
    """The files and folders that a source names, patterns and names of the catalogue resolved; folders stay folders."""
    named = [source] if isinstance(source, str | PathLike) else source
    if not isinstance(named, list | tuple) or not all(isinstance(path, str | PathLike) for path in named):
        raise UsageError(
            f"a {what} is given by the paths of its files or as a DataFrame, not as {kind_of(source)}; write a table "
            "of another kind to a Parquet file first."
        )
    if not named or not all(map(os.fspath, named)):
        raise UsageError(f"no {what} was named.")
    paths: list[Path] = []
    for path in map(os.fspath, named):
        if os.path.exists(path):  # noqa: PTH110  Path.exists raises where a name is too long
            paths.append(Path(path))
        elif glob.has_magic(path):
            paths += _matching(Path(path), what)
        elif catalogue.is_reference(path):
            paths += catalogue.resolve(path)
        else:
            raise UsageError(
                f"{path}: no such file. Name a file, a folder, a pattern, or a data set as `cldrank data list` shows."
            )
    seen: set[Path] = set()
    for entry in paths:
        whole = entry.resolve()
        if whole in seen or seen.intersection(whole.parents) or any(whole in other.parents for other in seen):
            raise UsageError(f"{entry} is named twice, and its rows would count twice.")
        seen.add(whole)
    return paths


def format_of(path: Path, formats: Sequence[Format] = TABLES) -> Format:
    """The format of a file by its name."""
    known = known_format(path)
    if known is None or known not in formats:
        endings = ", ".join(ending for ending, form in _FORMATS.items() if form in formats)
        raise DataError(f"{path}: the name of a file ends in {endings}, perhaps followed by .gz or .zst.")
    return known


def csv_header(path: Path) -> tuple[tuple[str, ...], str]:
    """The names of the columns of a CSV file, and its delimiter: a comma, tab, semicolon or bar."""
    import pyarrow as pa

    with reading(path, "a CSV file"):
        with pa.input_stream(str(path), compression="detect") as stream:
            start = stream.read(_LONGEST_HEADER).removeprefix(_BYTE_ORDER_MARK)
        text = start.decode("utf-8", errors="replace").lstrip("\r\n")
        delimiter = max(_DELIMITERS, key=text.split("\n", 1)[0].count)
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    if not names:
        raise FormatError("the file is empty; a CSV file begins with the names of its columns.", path=path)
    return tuple(names), delimiter


def csv_line(path: Path, row: int) -> int | None:
    """The line of a CSV file, from 1, on which a row ends, counted from 0 below the header."""
    import pyarrow as pa

    _, delimiter = csv_header(path)
    with reading(path, "a CSV file"), pa.input_stream(str(path), compression="detect") as stream:
        lines = csv.reader(io.TextIOWrapper(stream, "utf-8", "replace", newline=""), delimiter=delimiter)
        found = next(islice(filter(None, lines), row + 1, None), None)
        return None if found is None else lines.line_num


def refuse_own(path: Path, what: str) -> bytes:
    """Refuse a JSON file that cldrank wrote for something else; else how the file begins."""
    if path.suffix != ".json":
        return b""
    with reading(path, what), path.open("rb") as file:
        start = file.read(200).lstrip()
    own = re.match(rb'\{\s*"format":\s*"cldrank-([a-z-]+)"', start)
    if own:
        raise UsageError(f"{path} holds {own[1].decode().replace('-', ' ')}, not a {what}.")
    return start


def known_format(path: Path) -> Format | None:
    """The format that the name of a file says, if it does."""
    suffixes = [suffix for suffix in map(str.lower, path.suffixes) if suffix not in COMPRESSIONS]
    known = _FORMATS.get(suffixes[-1]) if suffixes else None
    return None if path.suffix == ".xz" and known != "letor" else known


def _below(folder: Path, formats: Sequence[Format], skip_others: bool, what: str) -> list[TableFile]:
    """All files below a folder, sorted."""
    if (folder / "ranker.json").is_file():
        raise UsageError(f"{folder} is a saved ranker, not a {what}.")
    below = [file for file in _shown(folder) if not skip_others or known_format(file) in formats]
    if not below:
        endings = some([ending for ending, form in _FORMATS.items() if form in formats], 20)
        raise DataError(f"{folder}: the folder holds no file whose name ends in {endings}.")
    return [TableFile(file, folder, format_of(file, formats)) for file in below]


def _shown(folder: Path) -> list[Path]:
    """The files below a folder that are not hidden, sorted."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return [file for file in files if not any(part.startswith(HIDDEN) for part in file.relative_to(folder).parts)]


def _matching(pattern: Path, what: str) -> list[Path]:
    """All that match a pattern; where a folder matches, not what is in it."""
    fixed = next(place for place, part in enumerate(pattern.parts) if glob.has_magic(part))
    matches = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))  # noqa: PTH207  ** as well
    if not any(part.startswith(HIDDEN) for part in pattern.parts[fixed:]):
        matches = [path for path in matches if not any(part.startswith(HIDDEN) for part in path.parts[fixed:])]
    if not matches:
        raise UsageError(f"{pattern}: no {what} matches this pattern.")
    return [path for path in matches if not set(path.parents).intersection(matches)]
