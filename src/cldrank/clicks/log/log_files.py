"""The files of a log that were counted, known by their content, so that none is counted twice unnoticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cldrank.errors import DataError
from cldrank.fingerprints import file_fingerprint
from cldrank.reading import reading
from cldrank.tables import TableFile
from cldrank.wording import some

_SMALL = 1 << 12  # bytes of a text file that may hold a header and nothing else
_MOST_NAMED = 3
_SHORT = 8  # digits of a fingerprint, in a name


@dataclass(frozen=True)
class LogFile:
    """A file of a log that was counted.

    name      its name; a copy under another name is the same file
    size      in bytes
    sha256    of its content
    part      which of its rows were counted, such as "day=2026-11-15"; empty: all
    folder    the name of the folder that it lay in: days often have files of the same names
    """

    name: str
    size: int
    sha256: str
    part: str = ""
    folder: str = ""

    @property
    def place(self) -> str:
        """Its name behind that of its folder."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def is_valid(self) -> bool:
        """Whether all fields have the right types, since a damaged file of cells may hold anything."""
        texts = (self.name, self.sha256, self.part, self.folder)
        return type(self.size) is int and all(isinstance(text, str) for text in texts)

    def same_content(self, other: LogFile) -> bool:
        """Whether both have the same bytes."""
        return (self.size, self.sha256) == (other.size, other.sha256)

    def shares_rows(self, other: LogFile) -> bool:
        """Whether both files share rows: the same content, and the same part of it or all of it."""
        return self.same_content(other) and (self.part == other.part or not self.part or not other.part)

    def is_changed(self, earlier: LogFile) -> bool:
        """Whether it seems to be an earlier file with other content, by its name and that of its folder."""
        return self.place == earlier.place and not self.same_content(earlier)


def log_files(files: Sequence[TableFile]) -> dict[Path, LogFile]:
    """The files by their content; those without rows are left out, and two of the same content are refused."""
    known: dict[tuple[int, str], tuple[LogFile, Path]] = {}
    for file in (file.path for file in files):
        with reading(file, "a log"):
            if is_empty(file):
                continue
            named = LogFile(file.name, file.stat().st_size, file_fingerprint(file), folder=_folder(file))
        _, earlier = known.setdefault((named.size, named.sha256), (named, file))
        if earlier is not file:
            what = "is named twice" if earlier.samefile(file) else f"has the same content as {earlier}"
            raise DataError(f"{file} {what} and would be counted twice; name it once.")
    return {file: named for named, file in known.values()}


def _folder(file: Path) -> str:
    return file.resolve().parent.name


def in_both(first: Iterable[LogFile], second: Iterable[LogFile]) -> list[LogFile]:
    """The files that both have, in part or as a whole, under the names of the second."""
    known: dict[str, list[LogFile]] = {}
    for file in first:
        known.setdefault(file.sha256, []).append(file)
    return [file for file in second if any(map(file.shares_rows, known.get(file.sha256, ())))]


def counted_before(
    files: Iterable[Path], sources: Mapping[Path, LogFile], counted: Sequence[LogFile]
) -> dict[Path, LogFile]:
    """The files that were counted before; a file that is empty now, or changed since, is refused.

    sources   all of the files that have rows
    """
    before = set(in_both(counted, sources.values()))
    for file in files:
        own = sources.get(file, LogFile(file.name, 0, "", folder=_folder(file)))
        if own not in before and any(map(own.is_changed, counted)):
            now = "with other content" if file in sources else "and is empty now"
            raise DataError(
                f"{file} was counted before, {now}, and cells cannot be taken away again. If it was corrected, rebuild "
                "the cells from all logs (in a folder of days, delete the files of its days, and add their logs "
                "again); if it is another file that has the same name, rename it."
            )
    return {file: named for file, named in sources.items() if named in before}


def names_of(files: Iterable[LogFile]) -> str:
    """The names of some files, for a message."""
    return some((f"{file.name} ({file.part})" if file.part else file.name for file in files), _MOST_NAMED)


def is_empty(path: Path) -> bool:
    """Whether a file certainly has no rows; Spark writes such files for empty parts, all with the same content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if ".parquet" in path.suffixes or ".pq" in path.suffixes:
        return bool(pq.read_metadata(path).num_rows == 0)
    if path.stat().st_size > _SMALL:
        return False
    with pa.input_stream(str(path), compression="detect") as stream:
        content = stream.read()
    header = 0 if {".json", ".jsonl", ".ndjson"} & set(path.suffixes) else 1
    return len(content.splitlines()) <= header
