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
    if not target.parent.is_dir():
        raise CldrankError(f"{target}: the folder {target.parent} does not exist; create it first.")
    if target.is_dir():
        raise CldrankError(f"{target} is a folder; name a file to write.")
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


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder to fill; it takes the name `path` when the block ends well, and vanishes otherwise.

    A folder that already has that name is replaced.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_dir():
        raise CldrankError(f"{target} is a file; name a folder to write.")
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
