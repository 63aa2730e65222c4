"""Text files, plain or compressed, as blocks of whole lines."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cldrank.errors import FormatError
from cldrank.reading import reading

BLOCK_BYTES = 1 << 21
COMPRESSED = (".gz", ".xz", ".zst")
_LONGEST_WORD = 40  # in a message
_LONGEST_LINE = 1 << 26  # a row of a million features takes about a fifth of it
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineBlock:
    """Some whole lines of a file; the text always ends with a newline."""

    path: Path
    text: bytes
    first_line: int

    def place(self, at: int) -> tuple[int, int]:
        """Line and column, both from 1, of a byte of the text."""
        return self.first_line + self.text.count(b"\n", 0, at), at - self.text.rfind(b"\n", 0, at)

    def parts(self, most: int) -> Iterator[LineBlock]:
        """The same lines in blocks of at most `most` lines."""
        if self.text.count(b"\n") <= most:
            yield self
            return
        lines = self.text.splitlines(keepends=True)
        for start in range(0, len(lines), most):
            yield LineBlock(self.path, b"".join(lines[start : start + most]), self.first_line + start)

    def token(self, at: int) -> str:
        """The word that starts at a byte, for a message."""
        end = self.text.index(b"\n", at)
        word = b"" if self.text[at : at + 1].isspace() else self.text[at : end + 1].split(maxsplit=1)[0]
        text = word.decode("utf-8", errors="backslashreplace")
        return text if len(text) <= _LONGEST_WORD else text[:_LONGEST_WORD] + "…"


def open_bytes(path: Path) -> Any:
    """Open a file for reading, decompressed if its first bytes are those of gzip, xz or Zstandard."""
    with reading(path, "a readable file"):
        file = path.open("rb")
        start = file.peek(6)
    opened = next((opened for first, opened in _DECOMPRESSORS.items() if start.startswith(first)), None)
    if opened is None:
        return file
    file.close()
    return opened(path)


def _open_zstandard(path: Path) -> Any:
    import pyarrow as pa

    return pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")


_DECOMPRESSORS: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstandard,
}


def read_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[LineBlock]:
    """All of a file, block after block; a file that is damaged or cut off raises FormatError."""
    line, rest = 1, b""
    with open_bytes(path) as file:
        while True:
            with reading(path, "a complete file"):
                chunk = file.read(block_bytes)
            if not chunk:
                break
            if line == 1 and not rest:
                chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
            end = chunk.rfind(b"\n") + 1
            if end:
                text = b"".join([rest, memoryview(chunk)[:end]])
                yield LineBlock(path, text, line)
                line, rest = line + text.count(b"\n"), b""
            rest += chunk[end:]
            if len(rest) > _LONGEST_LINE:
                longest = f"{_LONGEST_LINE >> 20} MiB"
                raise FormatError(f"this line is longer than {longest}; is it really text?", path=path, line=line)
    if rest:
        yield LineBlock(path, rest + b"\n", line)
