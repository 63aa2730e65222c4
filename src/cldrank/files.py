"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cldrank.errors import CldrankError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write; it takes the name `path` when the block ends well, and vanishes otherwise.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "notes.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = Path(path)
    check_writable(target)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise CldrankError(f"{target} cannot be written: {error.strerror}.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes private files; ours should be as any other
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a path that no file can be written to, before hours of work are done for it."""
    if not path.parent.is_dir():
        raise CldrankError(f"{path}: the folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise CldrankError(f"{path} is a folder; name a file to write.")
    if not os.access(path.parent, os.W_OK):
        raise CldrankError(f"{path} cannot be written: the folder {path.parent} may not be written to.")


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder to fill; it takes the name `path` when the block ends well, and vanishes otherwise.

    A folder that already has that name is replaced.
    """
    target = Path(path)
    make_folder(target.parent)
    if target.exists() and not target.is_dir():
        raise CldrankError(f"{target} is a file; name a folder to write.")
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise CldrankError(f"{target} cannot be written: {error.strerror}.") from None
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        retired = temporary.with_suffix(".old")
        if target.exists():
            target.rename(retired)
        temporary.rename(target)
        shutil.rmtree(retired, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and those above it, where they are missing."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CldrankError(f"{target} is a file; name a folder to write.") from None
    except OSError as error:
        raise CldrankError(f"{target} cannot be made: {error.strerror}.") from None
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
