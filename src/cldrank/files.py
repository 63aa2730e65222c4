"""Files and folders that appear whole or not at all.

Everything is written under a temporary name beside its target and takes the target's name in one step. The temporary
is locked while its writer is alive, so that the next writer of the same target can distinguish what a killed process
left behind, and remove it, from what another process is writing now.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from cldrank import host
from cldrank.errors import CldrankError, UsageError

_LONGEST_STEM = 200  # bytes; most file systems take names of 255
_TEMPORARY = re.compile(r"\.(.+)\.[a-z0-9_]{8}\.(part|old)", re.DOTALL)  # the middle is tempfile's
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_IN_WORDS = ("No space left on device", "File too large", " requested and ")  # of safetensors and of numpy


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write; it takes the name `path` when the block ends well, and vanishes otherwise.

    A file of that name is replaced and its permissions are kept; a symbolic link is followed. A pipe or a character
    device, such as /dev/stdout, receives the bytes.

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

    A folder that already has that name is replaced; at every moment either the old folder or the new is there.
    """
    target = _followed(path)
    make_folder(target.parent)
    recover_folder(target)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file; name a folder to write.")
    with _claimed(target, is_folder=True) as temporary, _explaining(target, temporary):
        yield temporary
        _take_permissions(temporary, target, 0o777)
        for entry in (*temporary.rglob("*"), temporary):
            _settle(entry)
        _take_name(temporary, target)
        _settle(target.parent)


def recover_folder(path: str | os.PathLike[str]) -> None:
    """Restore a folder that a killed process had moved away to replace it, and remove what killed processes left."""
    target = Path(path)
    for retired in _temporaries(target.parent, target, "old"):
        with _abandoned(retired.with_suffix(".part")) as is_abandoned:
            if is_abandoned and target.exists():
                _remove(retired)
            elif is_abandoned:
                with suppress(OSError):  # another process was faster
                    retired.rename(target)
    sweep(target.parent, target)


def sweep(folder: str | os.PathLike[str], target: Path | None = None) -> None:
    """Remove all temporaries that killed processes left in a folder, or only those of `target`."""
    for temporary in _temporaries(Path(folder), target, "part" if target else ""):
        with _abandoned(temporary) as is_abandoned:
            if is_abandoned:
                _remove(temporary)


@contextmanager
def scratch(parent: str | os.PathLike[str] | None = None, name: str = "cldrank") -> Iterator[Path]:
    """A temporary folder that vanishes with the block; those that killed processes left under the same name go first.

    >>> with scratch() as folder:
    ...     folder.is_dir()
    True
    """
    with _claimed(Path(parent or tempfile.gettempdir()) / name, is_folder=True) as temporary:
        yield temporary


@contextmanager
def holding(path: str | os.PathLike[str], *, wait: bool = True, without_locks: bool = True) -> Iterator[bool]:
    """Hold the lock of a file or folder, waiting until it is free; a process that is killed releases its locks.

    wait            False: do not wait; the block learns whether this process holds the lock
    without_locks   the answer on a file system without locks
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield host.lock(handle, wait, without_locks)
    finally:
        os.close(handle)


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written to, before hours of work are spent on its content."""
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file to write.")
    is_stream = _is_stream(path)
    if path.exists() and not path.is_file() and not is_stream:
        raise UsageError(f"{path} is neither a file, a pipe nor a character device; name a file to write.")
    for place in [path] * path.exists() + [_followed(path).parent] * (not is_stream):
        if not os.access(place, os.W_OK):
            raise CldrankError(f"{path} cannot be written: {place} is write-protected.")


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
    if str(path).startswith(host.OPENED_BY_A_SHELL):
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
        host.set_mode(temporary, default & ~mask)
        return
    with suppress(OSError):  # only an administrator may give files away
        os.chown(temporary, replaced.st_uid, replaced.st_gid)
    host.set_mode(temporary, stat.S_IMODE(replaced.st_mode))


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
    sweep(target.parent, target)
    try:
        handle, temporary = _made(target, is_folder)
    except OSError as error:
        raise CldrankError(f"{target} cannot be written: {error.strerror}.") from None
    try:
        yield temporary
    finally:
        _remove(temporary)
        os.close(handle)


def _made(target: Path, is_folder: bool) -> tuple[int, Path]:
    """A new temporary and the handle that holds its lock."""
    named: dict[str, Any] = {"prefix": f".{_stem(target)}.", "suffix": ".part", "dir": target.parent}
    while True:
        handle, path = (-1, tempfile.mkdtemp(**named)) if is_folder else tempfile.mkstemp(**named)
        try:
            handle = os.open(path, os.O_RDONLY) if is_folder else handle
        except FileNotFoundError:
            continue  # another process removed it as abandoned, before it was locked
        host.lock(handle, wait=True)
        if Path(path).exists():
            return handle, Path(path)
        os.close(handle)


def _temporaries(folder: Path, target: Path | None, suffix: str) -> list[Path]:
    """The temporaries in a folder, or only those of `target`."""
    try:
        named = [(entry, _TEMPORARY.fullmatch(entry.name)) for entry in folder.iterdir()]
    except OSError:
        return []
    wanted = None if target is None else (_stem(target), suffix)
    return [entry for entry, match in named if match and (wanted is None or match.groups() == wanted)]


def _stem(target: Path) -> str:
    """The stem of the temporaries of a target; a name that is too long for more letters is shortened."""
    name = target.name
    if len(os.fsencode(name)) <= _LONGEST_STEM:
        return name
    return f"{name[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


@contextmanager
def _abandoned(temporary: Path) -> Iterator[bool]:
    """Whether the writer of a temporary is no longer alive; the block holds its lock."""
    with ExitStack() as stack:
        try:
            is_abandoned = stack.enter_context(holding(temporary, wait=False, without_locks=False))
        except OSError as error:
            is_abandoned = isinstance(error, FileNotFoundError)
        yield is_abandoned


def _remove(path: Path) -> None:
    is_folder = path.is_dir() and not path.is_symlink()
    with suppress(OSError):
        path.chmod(0o700) if is_folder else path.unlink()  # a replaced folder may be write-protected
    if is_folder:
        shutil.rmtree(path, ignore_errors=True)


def _settle(path: Path) -> None:
    """Flush what was written to disk, so that a power failure cannot leave a name without its content."""
    handle = os.open(path, os.O_RDONLY)
    try:
        host.flush(handle)
    finally:
        os.close(handle)


def _take_name(temporary: Path, target: Path) -> None:
    """Rename a folder, replacing any folder of that name.

    Where names cannot be swapped and a process is killed between the two renames, `recover_folder` restores the folder.
    """
    try:
        temporary.rename(target)  # nothing is there, or an empty folder
    except OSError:
        if not target.is_dir():
            raise
        if host.exchange(temporary, target):
            return
        retired = temporary.with_suffix(".old")
        target.rename(retired)
        try:
            temporary.rename(target)
        except OSError:
            retired.rename(target)
            raise
        shutil.rmtree(retired, ignore_errors=True)
