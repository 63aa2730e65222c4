"""What decides a result: the SHA-256 of files and values, the versions of packages, and the commit of this one."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank._version import __version__
from cldrank.catalogue import cache_folder
from cldrank.files import save_text
from cldrank.reading import reading

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "duckdb", "torch", "xgboost", "lightgbm")
_WORTH_REMEMBERING = 64 << 20  # bytes; smaller files are hashed in about 0.1 s
_SETTLED = 2.0  # seconds: a file that changed later than this ago may change again without a new time


def file_fingerprint(path: str | PathLike[str]) -> str:
    """The SHA-256 of all bytes of a file, as hexadecimal digits.

    That of a large file is remembered in the user's cache, and used again while path, size and time of the last
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
