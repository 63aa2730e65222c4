"""What decides a result: the SHA-256 of files, arrays and values, the versions of packages, the commit of cldrank."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cldrank._version import __version__
from cldrank.catalogue import cache_folder
from cldrank.files import save_text
from cldrank.host import available_cores
from cldrank.reading import reading
from cldrank.workers import ahead, fair_threads

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "duckdb", "torch", "xgboost", "lightgbm")
_WORTH_REMEMBERING = 64 << 20  # bytes; smaller files are hashed in about 0.1 s
_BLOCK = 1 << 20  # values, of whose digests a fingerprint is made: what is memory-mapped is never read as a whole
_SETTLED = 2.0  # seconds: a file that changed later than this ago may change again without a new time


def file_fingerprint(path: str | PathLike[str]) -> str:
    """The SHA-256 of all bytes of a file, as hexadecimal digits.

    The digest of a large file is kept in the user's cache, and used while path, size and time of the last
    change stay the same.
    """
    with reading(path, "a file"):
        whole = Path(path).resolve()
        state = whole.stat()
        if time.time() - state.st_mtime < _SETTLED:
            return _digest(whole)
        return _remembered(whole, state.st_size, state.st_mtime_ns)


def content_hash(content: Mapping[str, Any]) -> str:
    """The SHA-256 of values that JSON can hold, whatever their order."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=4096)
def _remembered(path: Path, size: int, changed: int) -> str:
    if size < _WORTH_REMEMBERING:
        return _digest(path)
    note = cache_folder() / "fingerprints" / hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    known = f"{size} {changed} "
    with suppress(OSError, UnicodeDecodeError):
        text = note.read_text(encoding="ascii")
        if text.startswith(known):
            return text.removeprefix(known)
    digest = _digest(path)
    with suppress(Exception):  # a cache that cannot be written only costs time
        note.parent.mkdir(parents=True, exist_ok=True)
        save_text(note, known + digest)
    return digest


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- arrays ------------------------------------------------------------------------------------------------------------


def fingerprint_of(parts: dict[str, NDArray[Any] | Sequence[str] | None]) -> str:
    """The fingerprint of named arrays of numbers or texts; None is a part of its own.

    Equal values have equal fingerprints: the width of texts, the sign of a zero and the bits of a NaN do not count.

    >>> fingerprint_of({"ids": ["a", "b"]})[:8]
    '538e31b5'
    >>> fingerprint_of({"x": np.array([0.0, 1.0])}) == fingerprint_of({"x": np.array([-0.0, 1.0])})
    True
    """
    digest = hashlib.sha256()
    for name, values in parts.items():
        array: Any = None if values is None else np.asarray(values)
        if array is not None and not array.size and array.dtype.kind != "U":
            array = array.astype(np.float32)  # of no values, the type means nothing
        shape = None if array is None else array.shape
        kind = "" if array is None else "text" if array.dtype.kind == "U" else array.dtype.newbyteorder("<").str
        digest.update(f"{name} {kind} {shape}\n".encode())
        if array is not None:
            _add(digest, array)
    return digest.hexdigest()


def _add(digest: Any, array: NDArray[Any]) -> None:
    """Add the digests of all blocks, which threads compute side by side."""
    rows = max(1, _BLOCK // max(1, array[:1].size))
    blocks = (array[start : start + rows] for start in range(0, len(array), rows))
    threads = fair_threads(available_cores())
    digests = ahead(_block_digest, blocks, threads, 2 * threads) if len(array) > rows else map(_block_digest, blocks)
    for part in digests:
        digest.update(part)


def _block_digest(block: NDArray[Any]) -> bytes:
    if block.dtype.kind == "U":
        lengths = np.char.str_len(block).astype("<i8").tobytes()
        return hashlib.sha256(lengths + "".join(block.ravel().tolist()).encode("utf-8", "surrogatepass")).digest()
    if block.dtype.kind == "f":
        block = block + block.dtype.type(0)  # -0 + 0 = 0
        block[np.isnan(block)] = np.nan
    return hashlib.sha256(np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).data).digest()


# -- versions ------------------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Python, this package, and the packages that it computes with, if they are installed."""
    installed = {package: version_of(package) for package in _PACKAGES if version_of(package)}
    return {"python": platform.python_version(), "cldrank": __version__, **installed}


@cache
def version_of(package: str) -> str:
    """The version of a package; empty where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@cache
def commit() -> str:
    """The commit of this package's source, with `+changes` if it was changed; empty outside a git repository."""
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return ""  # installed, perhaps inside somebody else's repository
    changed = _git("diff", "--quiet", "HEAD", "--", ".") is None
    return f"{_git('rev-parse', 'HEAD')}{'+changes' if changed else ''}"


def _git(*arguments: str) -> str | None:
    """What git prints, or None if it fails or is not installed."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
