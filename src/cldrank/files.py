"""Files and folders that appear whole or not at all.

Everything is written under a temporary name beside its target and takes the target's name in one step. The temporary
is locked while its writer is alive, so that the next writer of the same target can distinguish what a killed process
left behind, and remove it, from what another process is writing now.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from cldrank.errors import CldrankError, UsageError

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: nothing is locked, and so nothing left behind is removed
    fcntl = None

_PART, _OLD = ".part", ".old"
_LONGEST_STEM = 200  # bytes; most file systems take names of 255
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}(\.part|\.old)", re.DOTALL)  # the middle is tempfile's
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_IN_WORDS = ("No space left on device", "File too large", " requested and ")  # of safetensors and of numpy


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write; it takes the name `path` when the block ends well, and vanishes otherwise.

    A file of that name is replaced and its permissions are kept; a symbolic link is followed. A pipe or a character
    device, such as /dev/stdout, receives the bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "notes.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = _followed(path)
    check_writable(target)
    if _is_stream(target):
        with scratch() as folder, _explaining(target, folder):
            yield folder / target.name
            with (folder / target.name).open("rb") as content, target.open("ab") as stream:
                shutil.copyfileobj(content, stream)
        return
    with _claimed(target, is_folder=False) as temporary, _explaining(target, temporary):
        yield temporary
        _take_permissions(temporary, target, 0o666)
        _settle(temporary)
        temporary.replace(target)
        _settle(target.parent)


def save_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file, whole or not at all, with line ends as they are."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def save_json(path: str | os.PathLike[str], content: Any, indent: int = 2) -> None:
    """Write a JSON file, whole or not at all; numbers must be finite."""
    save_text(path, json.dumps(content, indent=indent, allow_nan=False) + "\n")


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder to fill; it takes the name `path` when the block ends well, and vanishes otherwise.

    A folder that already has that name is replaced; at every moment either the old or the new one is there.
    """
    target = _followed(path)
    make_folder(target.parent)
    recover_folder(target)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file; name a folder to write.")
    with _claimed(target, is_folder=True) as temporary, _explaining(target, temporary):
        yield temporary
        _take_permissions(temporary, target, 0o777)
        for entry in temporary.rglob("*"):
            _settle(entry)
        _settle(temporary)
        _take_name(temporary, target)
        _settle(target.parent)


def recover_folder(path: str | os.PathLike[str]) -> None:
    """Restore a folder that a killed process had moved away to replace it, and remove what that process left."""
    target = Path(path)
    for retired in _named_after(target, _OLD):
        with _abandoned(retired.with_suffix(_PART)) as is_abandoned:
            if not is_abandoned:
                continue
            if target.exists():
                _remove(retired)
            else:
                with suppress(OSError):  # somebody else was faster
                    retired.rename(target)


def clear_abandoned(path: str | os.PathLike[str]) -> None:
    """Remove what killed processes left of writing one file or folder, and restore that if need be."""
    target = _followed(path)
    recover_folder(target)
    for junk in _named_after(target, _PART):
        _remove_abandoned(junk)


@contextmanager
def scratch(parent: str | os.PathLike[str] | None = None, name: str = "cldrank") -> Iterator[Path]:
    """A temporary folder that vanishes with the block; those that killed processes left under the same name go first.

    >>> with scratch() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    with _claimed(Path(parent or tempfile.gettempdir()) / name, is_folder=True) as temporary:
        yield temporary


@contextmanager
def holding(path: str | os.PathLike[str], *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file or folder, waiting until it is free; a process that is killed releases its locks.

    wait   False: do not wait, and say in the block whether it is held, that is whether nobody else has it
    """
    if fcntl is None:
        yield True
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        yield _lock(handle, wait=wait, where_none=True)
    finally:
        os.close(handle)


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove all temporaries that killed processes left in a folder."""
    for entry in _entries(Path(folder)):
        if _TEMPORARY.fullmatch(entry.name):
            _remove_abandoned(entry)


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written to, before hours of work are spent on its content."""
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file to write.")
    if path.exists() and not path.is_file() and not _is_stream(path):
        raise UsageError(f"{path} is neither a file, a pipe nor a character device; name a file to write.")
    if path.exists() and not os.access(path, os.W_OK):
        raise CldrankError(f"{path} cannot be written: the file is write-protected.")
    if not _is_stream(path) and not os.access(_followed(path).parent, os.W_OK):
        raise CldrankError(f"{path} cannot be written: the folder {path.parent} is write-protected.")


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder and those above it, where they are missing."""
    target = Path(path)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{target} is a file; name a folder to write.") from None
    except OSError as error:
        raise CldrankError(f"{target} cannot be made: {error.strerror}.") from None
    return target


# -- targets -------------------------------------------------------------------------------------------------------


def _followed(path: str | os.PathLike[str]) -> Path:
    """The file itself where `path` is a symbolic link to it."""
    target = Path(path)
    if not target.is_symlink() or _is_stream(target):
        return target
    try:
        return target.resolve(strict=False)
    except (OSError, RuntimeError):  # a loop: RuntimeError up to Python 3.12
        raise CldrankError(f"{target} is a symbolic link that leads back to itself; name a file to write.") from None


def _is_stream(path: Path) -> bool:
    """Whether it is a pipe, a character device, or something that a shell has opened for us."""
    if str(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/")):
        return path.exists()
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _take_permissions(temporary: Path, target: Path, default: int) -> None:
    """Give a temporary the permissions of what it replaces, or else the user's usual ones."""
    try:
        replaced = target.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(default & ~mask)
        return
    if hasattr(os, "chown"):
        with suppress(OSError):  # only an administrator may give files away
            os.chown(temporary, replaced.st_uid, replaced.st_gid)
    temporary.chmod(stat.S_IMODE(replaced.st_mode))


@contextmanager
def _explaining(target: Path, temporary: Path) -> Iterator[None]:
    """Turn what a library raises on a full disk into an error that names the target."""
    try:
        yield
    except CldrankError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None)
        elsewhere = not str(getattr(error, "filename", None) or temporary).startswith(str(temporary))
        if elsewhere or not (number in _FULL or any(words in str(error) for words in _FULL_IN_WORDS)):
            raise
        reason = os.strerror(number) if number in _FULL else str(error).splitlines()[0]
        raise CldrankError(
            f"{target} cannot be written: {reason}. Nothing was changed; make room there, or name another place."
        ) from error


# -- temporaries ---------------------------------------------------------------------------------------------------


@contextmanager
def _claimed(target: Path, *, is_folder: bool) -> Iterator[Path]:
    """A locked temporary beside the target, removed at the end if it is still there."""
    for junk in _named_after(target, _PART):
        _remove_abandoned(junk)
    try:
        handle, temporary = _made(target, is_folder)
    except OSError as error:
        raise CldrankError(f"{target} cannot be written: {error.strerror}.") from None
    try:
        yield temporary
    finally:
        _remove(temporary)
        if handle >= 0:
            os.close(handle)


def _made(target: Path, is_folder: bool) -> tuple[int, Path]:
    """A new temporary and the handle that holds its lock, -1 on systems without locks."""
    make = tempfile.mkdtemp if is_folder else _make_file
    while True:
        temporary = Path(make(prefix=f".{_stem(target)}.", suffix=_PART, dir=target.parent))
        if fcntl is None:
            return -1, temporary
        try:
            handle = os.open(temporary, os.O_RDONLY)
        except FileNotFoundError:
            continue  # another process removed it as abandoned, before it was locked
        _lock(handle, wait=True)
        if temporary.exists():
            return handle, temporary
        os.close(handle)


def _make_file(prefix: str, suffix: str, dir: Path) -> str:  # noqa: A002  as tempfile has it
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=dir)
    os.close(handle)
    return name


def _named_after(target: Path, suffix: str) -> list[Path]:
    """The temporaries of a target."""
    named = {entry: _TEMPORARY.fullmatch(entry.name) for entry in _entries(target.parent)}
    return [entry for entry, match in named.items() if match and match.groups() == (_stem(target), suffix)]


def _stem(target: Path) -> str:
    """The stem of the temporaries of a target; a name that is too long for more letters is shortened."""
    name = target.name
    if len(os.fsencode(name)) <= _LONGEST_STEM:
        return name
    return f"{name[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _remove_abandoned(temporary: Path) -> None:
    with _abandoned(temporary) as is_abandoned:
        if is_abandoned:
            _remove(temporary)


@contextmanager
def _abandoned(temporary: Path) -> Iterator[bool]:
    """Whether the writer of a temporary is no longer alive; the block holds its lock."""
    try:
        handle = os.open(temporary, os.O_RDONLY | os.O_NONBLOCK) if fcntl is not None else -1
    except FileNotFoundError:
        yield True
        return
    except OSError:
        yield False
        return
    try:
        yield _lock(handle, wait=False)
    finally:
        if handle >= 0:
            os.close(handle)


def _lock(handle: int, *, wait: bool, where_none: bool = False) -> bool:
    """Whether it is locked now; `where_none` is the answer on systems that have no locks."""
    if fcntl is None:
        return where_none
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:  # held by another process
        return False
    except OSError:  # a file system without locks
        return where_none
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        with suppress(OSError):
            path.chmod(0o700)  # a write-protected folder that was replaced
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _settle(path: Path) -> None:
    """Flush what was written to disk, so that a power failure cannot leave a name without its content."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # a file system that cannot flush
            raise
    finally:
        os.close(handle)


def _take_name(temporary: Path, target: Path) -> None:
    """Rename a folder, in place of one that may be there."""
    try:
        temporary.rename(target)  # nothing is there, or an empty folder
    except OSError:
        if not target.is_dir():
            raise
        if not _exchanged(temporary, target):
            _exchange_in_steps(temporary, target)


def _exchanged(one: Path, two: Path) -> bool:
    """Swap two names in one step, where the system can (Linux and macOS, on most file systems)."""
    library: Any = ctypes.CDLL(None, use_errno=True) if sys.platform in ("linux", "darwin") else None
    names = os.fsencode(one), os.fsencode(two)
    here, swap = -100, 2  # AT_FDCWD; RENAME_EXCHANGE, and RENAME_SWAP on macOS
    if hasattr(library, "renameat2"):
        return bool(library.renameat2(here, names[0], here, names[1], swap) == 0)
    if hasattr(library, "renamex_np"):
        return bool(library.renamex_np(*names, swap) == 0)
    return False


def _exchange_in_steps(temporary: Path, target: Path) -> None:
    """Replace a folder where names cannot be swapped; if killed between the steps, `recover_folder` restores it."""
    retired = temporary.with_suffix(_OLD)
    target.rename(retired)
    try:
        temporary.rename(target)
    except OSError:
        retired.rename(target)
        raise
    shutil.rmtree(retired, ignore_errors=True)
