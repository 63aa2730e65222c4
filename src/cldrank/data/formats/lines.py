"""Text files, plain or compressed: blocks of whole lines, and the header of CSV."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from cldrank.data.checks import check_file
from cldrank.errors import FormatError
from cldrank.reading import reading

BLOCK_BYTES = 1 << 22
_LONGEST_LINE = 1 << 26  # a row of a million features takes about a fifth of it
_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
_GZIP = b"\x1f\x8b"  # the first bytes of such a file
_DELIMITERS = ",\t;|"  # of CSV
_LONGEST_HEADER = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """Some whole lines of a file; the text always ends with a newline."""

    path: Path
    text: bytearray
    first_line: int

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both from 1, of a byte of the text."""
        start = self.text.rfind(b"\n", 0, at) + 1
        return self.first_line + self.text.count(b"\n", 0, at), at - start + 1

    def parts(self, most: int) -> Iterator[LineBlock]:
        r"""The same lines in blocks of at most `most` lines.

        >>> [bytes(part.text) for part in LineBlock(Path("a.txt"), bytearray(b"1\n2\n3\n"), 1).parts(2)]
        [b'1\n2\n', b'3\n']
        """
        if self.text.count(b"\n") <= most:
            yield self
            return
        lines = [line + b"\n" for line in bytes(self.text).split(b"\n")[:-1]]
        for start in range(0, len(lines), most):
            yield LineBlock(self.path, bytearray(b"".join(lines[start : start + most])), self.first_line + start)

    def token(self, at: int, most: int = 40) -> str:
        """The word that starts at a byte, for a message."""
        end = at
        while end < len(self.text) and not self.text[end : end + 1].isspace():
            end += 1
        word = self.text[at:end].decode("utf-8", errors="backslashreplace")
        return word if len(word) <= most else word[:most] + "…"


def is_compressed(path: Path) -> bool:
    """Whether the name says that the file is compressed.

    >>> is_compressed(Path("train.txt.zst"))
    True
    """
    return path.suffix in _COMPRESSED


def plain_suffix(path: Path) -> str:
    """The suffix of the format, without one of compression.

    >>> plain_suffix(Path("train.txt.xz"))
    '.txt'
    """
    return Path(path.stem).suffix if is_compressed(path) else path.suffix


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed as its suffix says."""
    check_file(path)
    _check_gzip(path)
    with reading(path, f"a complete {path.suffix} file"):
        match path.suffix:
            case ".gz":
                return cast(BinaryIO, gzip.open(path))
            case ".xz":
                return cast(BinaryIO, lzma.open(path))
            case ".bz2":
                return cast(BinaryIO, bz2.open(path))
            case ".zst":
                import pyarrow as pa

                return cast(BinaryIO, pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
            case _:
                return path.open("rb", buffering=0)


def _check_gzip(path: Path) -> None:
    """Refuse a file that is gzip although its name does not say so, or the other way round."""
    if not path.is_file():
        return  # a pipe can be read only once
    with reading(path, "a readable file"), path.open("rb") as file:
        first = file.read(len(_GZIP))
    if path.suffix == ".gz" and first and first != _GZIP:
        raise FormatError(
            "is not a gzip file; if it is plain text, rename it so that it does not end in .gz.", path=path
        )
    if not is_compressed(path) and first == _GZIP:
        raise FormatError(f"is a gzip file; rename it to {path.name}.gz.", path=path)


def csv_header(path: Path) -> tuple[tuple[str, ...], str]:
    r"""The names in the first line of a CSV file, and the delimiter between them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "log.csv").write_text('query_id;"title; match"\n1;0.5\n')
    ...     csv_header(Path(folder) / "log.csv")
    (('query_id', 'title; match'), ';')
    """
    with open_bytes(path) as file, reading(path, "a CSV file"):
        start = file.read(_LONGEST_HEADER).decode("utf-8-sig", errors="replace").lstrip("\r\n")
    line = start.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=line.count)
    with reading(path, "a CSV file"):
        names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter), [])
    if not names:
        raise FormatError("the file is empty; a CSV file begins with the names of its columns.", path=path)
    return tuple(names), delimiter


def read_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """All of a file, block after block; a file that is damaged or cut off raises FormatError."""
    line = 1
    rest = bytearray()
    with open_bytes(path) as file:
        for index, chunk in enumerate(_chunks(path, file, block_bytes)):
            text = rest + chunk if rest else chunk
            if index == 0 and text.startswith(_BYTE_ORDER_MARK):
                del text[: len(_BYTE_ORDER_MARK)]
            end = text.rfind(b"\n") + 1
            rest = text[end:]
            if len(rest) > _LONGEST_LINE:
                at = line + text.count(b"\n", 0, end)
                raise FormatError(
                    f"this line is longer than {_LONGEST_LINE >> 20} MiB; is it really text?", path=path, line=at
                )
            if end:
                del text[end:]
                yield LineBlock(path, text, line)
                line += text.count(b"\n")
    if rest:
        yield LineBlock(path, rest + b"\n", line)


def _chunks(path: Path, file: BinaryIO, size: int) -> Iterator[bytearray]:
    while True:
        chunk = bytearray(size)
        with reading(path, f"a complete {path.suffix} file" if is_compressed(path) else "a readable file"):
            count = _read_into(file, chunk)
        if count == 0:
            return
        del chunk[count:]
        yield chunk


def _read_into(file: BinaryIO, buffer: bytearray) -> int:
    """Fill a buffer, however many reads it takes; the number of bytes read, less than its size only at the end."""
    view = memoryview(buffer)
    filled = 0
    while filled < len(buffer):
        count = cast(io.RawIOBase, file).readinto(view[filled:])
        if not count:
            break
        filled += count
    view.release()
    return filled
