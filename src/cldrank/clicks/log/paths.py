"""The files of a log: which ones a path names, their formats and partitions, and a fingerprint of each.

The fingerprints go into cells, so that no file is counted twice unnoticed.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from cldrank.data import catalogue
from cldrank.errors import DataError, Spelling, UsageError
from cldrank.reading import reading
from cldrank.wording import some

if TYPE_CHECKING:
    from cldrank.data.frames import FramePart

Paths = str | PathLike[str] | Sequence[str | PathLike[str]] | Any  # or a frame
Format = Literal["parquet", "csv", "json"]

HIDDEN = (".", "_")  # as in Hive and Spark: _SUCCESS, _temporary, .part-0.crc, …
_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")
AGAIN = Spelling("again=True", "--again")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # Hive's name for the folder of rows without a value
_WHOLE = 1 << 24  # bytes; of larger files only samples are read
_SAMPLES = 64
_SMALL = 1 << 12  # bytes of a text file that may hold a header and nothing else
_MOST_NAMED = 3  # files, in a message


@dataclass(frozen=True, eq=False)
class LogFrame:
    """A log in memory, or in an engine of its own, that stands where the path of a file does."""

    frame: Any

    @property
    def name(self) -> str:
        """What messages call it."""
        from cldrank.data.frames import frame_name

        return frame_name(self.frame)

    @cached_property
    def part(self) -> FramePart:
        """Its columns, each converted to Arrow once; not for a frame that is yet to be computed."""
        from cldrank.data.frames import FramePart

        return FramePart(self.frame)

    def __str__(self) -> str:
        return self.name

    __fspath__ = __str__

    def table_in(self, connection: Any) -> Any:
        """The log as a table of an Ibis connection, if it lies in that engine already; None for others."""
        module = type(self.frame).__module__
        if module.startswith("ibis."):
            return self.frame
        if module.startswith("pyspark.") and connection.name == "pyspark":
            from ibis.util import gen_name

            name = gen_name("log_frame")
            self.frame.createOrReplaceTempView(name)
            return connection.table(name)
        return None


LogSource = Path | LogFrame


# -- which files are named --------------------------------------------------------------------------------------------


def existing(paths: Paths) -> list[LogSource]:
    """The files and folders that paths name, or the frame that a log is.

    A path that does not exist may be a pattern: `2024-*.parquet`, `days/*/*.parquet` and `days/**/*.parquet` name all
    that match, sorted, without hidden files. Or it is a log of the catalogue, such as `ranklens:impressions`.
    """
    frame = frame_of(paths)
    if frame is not None:
        return [frame]
    found: list[Path] = []
    for path in _as_paths(paths):
        if os.path.exists(path):  # noqa: PTH110  Path.exists raises where a name is too long
            found.append(path)
        elif glob.has_magic(str(path)):
            found += _matches(path)
        elif catalogue.is_reference(str(path)):
            found += catalogue.resolve(str(path))
        else:
            raise UsageError(f"{path}: no such log.")
    _check_once(found)
    return [*found]


def frame_of(paths: Any) -> LogFrame | None:
    """The frame, if that is what a log is given as; also alone in a list, as `existing` gives it."""
    if isinstance(paths, list) and len(paths) == 1:
        paths = paths[0]
    if isinstance(paths, LogFrame):
        return paths
    if isinstance(paths, str | PathLike | Sequence):
        return None
    from cldrank.data.frames import is_frame

    return LogFrame(paths) if is_frame(paths) else None


def _as_paths(paths: Paths) -> list[Path]:
    named = [paths] if isinstance(paths, str | PathLike) else paths
    if not isinstance(named, list | tuple) or not all(isinstance(path, str | PathLike) for path in named):
        raise UsageError(
            f"a log is given by the paths of its files or as one DataFrame, not as {type(paths).__name__}; write a "
            "table of another kind to a Parquet file first, and pass its path."
        )
    if not named or not all(os.fspath(path) for path in named):
        raise UsageError("no log was given.")
    return [Path(path) for path in named]


def _matches(pattern: Path) -> list[Path]:
    """All that match a pattern; where a folder matches, not what is in it."""
    fixed = next(place for place, part in enumerate(pattern.parts) if glob.has_magic(part))
    explicit = [part for part in pattern.parts if part.startswith(HIDDEN)]

    def is_hidden(part: str) -> bool:
        return part.startswith(HIDDEN) and not any(fnmatch(part, name) for name in explicit)

    matches = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))  # noqa: PTH207  ** as well
    matches = [path for path in matches if not any(map(is_hidden, path.parts[fixed:]))]
    if not matches:
        raise UsageError(f"{pattern}: no log matches.")
    return [path for path in matches if not set(path.parents).intersection(matches)]


def _check_once(found: list[Path]) -> None:
    seen: set[Path] = set()
    for path in found:
        whole = path.resolve()
        if whole in seen or seen.intersection(whole.parents) or any(whole in other.parents for other in seen):
            raise UsageError(f"{path} is named twice, and its rows would be counted twice.")
        seen.add(whole)


def partition(path: Path, root: Path) -> dict[str, str | None]:
    """The keys and values in the names of the folders between a file and the folder that was named.

    >>> partition(Path("log/day=1/surface=a%20b/part.parquet"), Path("log"))
    {'day': '1', 'surface': 'a b'}
    """
    pairs = (folder.partition("=") for folder in path.relative_to(root).parts[:-1] if "=" in folder)
    return {key: None if value == _NO_PARTITION else unquote(value) for key, _, value in pairs if key}


def format_of(path: Path) -> Format:
    """The format of a log file, by its name.

    >>> format_of(Path("log.csv.gz"))
    'csv'
    """
    suffixes = [suffix for suffix in map(str.lower, path.suffixes) if suffix not in _COMPRESSIONS]
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise DataError(f"{path}: the name of a log ends in {', '.join(_SUFFIXES)}, perhaps compressed.")
    return _SUFFIXES[suffixes[-1]]


def files_below(paths: Sequence[LogSource], left_out: Container[Path] = ()) -> list[tuple[Path, Path]]:
    """Every file but those left out, with the folder that was named for it; hidden files only if they are named."""
    found = []
    for path in paths:
        if isinstance(path, LogFrame):
            continue
        if path.is_file():
            found.append((path, path.parent))
            continue
        if not path.is_dir():
            raise UsageError(f"{path} is neither a file nor a folder.")
        below = sorted(file for file in path.rglob("*") if file.is_file())
        below = [file for file in below if not any(p.startswith(HIDDEN) for p in file.relative_to(path).parts)]
        if not below:
            raise DataError(f"{path}: the folder has no files.")
        found += [(file, path) for file in below]
    return [(file, root) for file, root in found if file not in left_out]


# -- what was counted -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogFile:
    """A file of a log that was counted.

    name      its name; a copy under another name is the same file
    size      in bytes
    sha256    of its content; of a file above 16 MiB, of 64 samples of 256 KiB, the first and the last bytes among them
    part      which of its rows were counted, such as "device=phone"; empty: all
    folder    the name of the folder that it lay in: days often have files of the same names
    """

    name: str
    size: int
    sha256: str
    part: str = ""
    folder: str = ""

    @property
    def content(self) -> tuple[int, str, str]:
        """What two files with the same rows have in common."""
        return self.size, self.sha256, self.part

    @property
    def place(self) -> str:
        """Its name behind that of its folder."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    def shares_rows(self, other: LogFile) -> bool:
        """Whether rows of one are rows of the other: the same content, and the same part of it or all of it."""
        alike = self.size == other.size and self.sha256 == other.sha256
        return alike and (self.part == other.part or not self.part or not other.part)

    def is_changed(self, earlier: LogFile) -> bool:
        """Whether it seems to be an earlier file with other content, by its name and that of its folder."""
        return self.place == earlier.place and (self.size, self.sha256) != (earlier.size, earlier.sha256)


def log_files(paths: Sequence[LogSource], *, part: str = "", again: bool = False) -> dict[LogSource, LogFile]:
    """The files below the paths, each content once; those without rows are left out.

    again   accept a file that is named twice, or two of the same content
    """
    found: dict[tuple[int, str, str], tuple[LogFile, Path]] = {}
    for file, _ in files_below(paths):
        with reading(file, "a log"):
            state = file.stat()
            if _is_empty(file, state.st_size):
                continue
            digest = _fingerprint(file, state.st_size, state.st_mtime_ns)
            one = LogFile(file.name, state.st_size, digest, part, file.resolve().parent.name)
        _, earlier = found.setdefault(one.content, (one, file))
        if earlier is not file and not again:
            what = "is named twice" if earlier.samefile(file) else f"has the same content as {earlier}"
            raise DataError("{} {} and would be counted twice; name it once, or set {} if intended.", file, what, AGAIN)
    return {file: one for one, file in found.values()}


def in_both(one: Iterable[LogFile], two: Iterable[LogFile]) -> list[LogFile]:
    """The files that both have, in part or as a whole, under the names of the second."""
    known: dict[str, list[LogFile]] = {}
    for file in one:
        known.setdefault(file.sha256, []).append(file)
    return [file for file in two if any(map(file.shares_rows, known.get(file.sha256, ())))]


class ChangedFileError(DataError):
    """A file that was counted before has other content now."""

    def __init__(self, file: LogSource) -> None:
        super().__init__(
            "{} was counted before, with other content, and cells cannot be taken away again. If it was corrected, "
            "rebuild the cells from all logs, or, in a folder of days, its days with {}; if it is another file that "
            "has the same name, rename it, or add it with {}.",
            file,
            Spelling("replace=True", "--replace"),
            AGAIN,
        )


def counted_before(sources: Mapping[LogSource, LogFile], counted: tuple[LogFile, ...]) -> dict[LogSource, LogFile]:
    """The files that were counted; one that has changed since is refused, as what it held cannot be taken away."""
    before = set(in_both(counted, sources.values()))
    for file, one in sources.items():
        if one not in before and any(map(one.is_changed, counted)):
            raise ChangedFileError(file)
    return {file: one for file, one in sources.items() if one in before}


def names_of(files: Iterable[LogFile]) -> str:
    """The names of some files, for a message."""
    return some((f"{one.name} ({one.part})" if one.part else one.name for one in files), _MOST_NAMED)


@lru_cache(maxsize=4096)  # segments of one log are read one after the other
def _fingerprint(path: Path, size: int, changed: int) -> str:
    del changed
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if size <= _WHOLE:
            digest.update(file.read())
        else:
            length = _WHOLE // _SAMPLES
            for sample in range(_SAMPLES):
                file.seek((size - length) * sample // (_SAMPLES - 1))
                digest.update(file.read(length))
    return digest.hexdigest()


def _is_empty(path: Path, size: int) -> bool:
    """Whether a file certainly has no rows; Spark writes such files for empty parts, all with the same content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if ".parquet" in path.suffixes or ".pq" in path.suffixes:
        return bool(pq.read_metadata(path).num_rows == 0)
    if size > _SMALL:
        return False
    with pa.input_stream(str(path), compression="detect") as stream:
        content = stream.read()
    header = 0 if {".json", ".jsonl", ".ndjson"} & set(path.suffixes) else 1
    return len(content.splitlines()) <= header
