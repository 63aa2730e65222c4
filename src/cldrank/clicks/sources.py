"""What went into cells: a fingerprint of each log file, so that none is counted twice unnoticed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.clicks.parts import files_below
from cldrank.errors import DataError
from cldrank.reading import reading

_WHOLE = 1 << 24  # bytes; of larger files only samples are read
_SAMPLES = 64
_SMALL = 1 << 12  # bytes of a text file that may hold a header and nothing else
_MOST_NAMED = 3


@dataclass(frozen=True)
class Source:
    """A log file that was counted.

    name      what it was called; a copy under another name is the same source
    size      in bytes
    sha256    of its content; of a file above 16 MiB, of 64 samples of 256 KiB, the first and the last bytes among them
    part      which of its rows were counted, "device=phone"; empty: all
    """

    name: str
    size: int
    sha256: str
    part: str = ""

    @property
    def content(self) -> tuple[int, str, str]:
        """What two sources that hold the same rows have in common."""
        return self.size, self.sha256, self.part


def sources_of(paths: Sequence[Path], *, part: str = "", again: bool = False) -> tuple[Source, ...]:
    """The sources that files and folders hold, each once; those without a row are none.

    again   accept a file that is named twice, or two of the same content
    """
    found: dict[tuple[int, str, str], tuple[Source, Path]] = {}
    for file, _ in files_below(paths):
        with reading(file, "a log"):
            state = file.stat()
            if _is_empty(file, state.st_size):
                continue
            source = Source(file.name, state.st_size, _fingerprint(file, state.st_size, state.st_mtime_ns), part)
        _, earlier = found.setdefault(source.content, (source, file))
        if earlier is not file and not again:
            told = "is named twice" if earlier.samefile(file) else f"has the same content as {earlier}"
            raise DataError(
                f"{file} {told} and would be counted twice; name it once, or say again=True (--again) if that is meant."
            )
    return tuple(source for source, _ in found.values())


def in_both(one: Iterable[Source], two: Iterable[Source]) -> list[Source]:
    """The sources that both have, as the second names them."""
    known = {source.content for source in one}
    return [source for source in two if source.content in known]


def named(sources: Sequence[Source]) -> str:
    """The names of sources, for a message."""
    more = f" and {len(sources) - _MOST_NAMED} more" if len(sources) > _MOST_NAMED else ""
    return ", ".join(f"{s.name} ({s.part})" if s.part else s.name for s in sources[:_MOST_NAMED]) + more


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
    """Whether a file surely has no rows, as Spark writes for empty parts: all of those are alike."""
    if ".parquet" in path.suffixes or ".pq" in path.suffixes:
        return bool(pq.read_metadata(path).num_rows == 0)
    if size > _SMALL:
        return False
    with pa.input_stream(str(path), compression="detect") as stream:
        content = stream.read()
    header = 0 if {".json", ".jsonl", ".ndjson"} & set(path.suffixes) else 1
    return len(content.splitlines()) <= header
