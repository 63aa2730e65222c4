"""What differs between the systems that cldrank runs on: Linux, Windows under WSL, and macOS.

Everything else relies on POSIX alone: signals, `flock`, processes that are spawned, never forked.

| | Linux | macOS | otherwise |
|---|---|---|---|
| two names swapped in one step | renameat2 | renamex_np | two renames, and `files.recover_folder` after a kill |
| what is written reaches the disk | fsync | F_FULLFSYNC | fsync |
| free memory | /proc, control groups, limits | half of the machine's | 4 GiB |
| cores of this process | sched_getaffinity | the machine's | the machine's |
| freed memory | kept for the next request | given back | given back |
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

OPENED_BY_A_SHELL = ("/dev/std", "/dev/fd/", "/proc/self/fd/")  # beginnings of paths
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_ASSUMED_FREE = 4 << 30  # bytes, where the system does not say
_HERE, _SWAP = -100, 2  # AT_FDCWD; RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOTTY)  # a file system that has nothing to flush


def available_cores() -> int:
    """The cores that this process may use.

    >>> available_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- files ---------------------------------------------------------------------------------------------------------


def exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step; False where the system or the file system cannot."""
    names = os.fsencode(first), os.fsencode(second)
    library = _c_library()
    if sys.platform == "darwin":
        return hasattr(library, "renamex_np") and bool(library.renamex_np(*names, _SWAP) == 0)
    return hasattr(library, "renameat2") and bool(library.renameat2(_HERE, names[0], _HERE, names[1], _SWAP) == 0)


def flush(handle: int) -> None:
    """Let what was written reach the disk; macOS's fsync alone leaves it in the cache of the drive."""
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):
            with suppress(OSError):  # a network's file system
                fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
                return
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise


def lock(handle: int, wait: bool, without_locks: bool = False) -> bool:
    """Lock an open file or folder; whether that succeeded, or `without_locks` on a file system that has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:  # held by another process, or a file system without locks
        return without_locks and not isinstance(error, BlockingIOError)
    return True


def set_mode(path: Path, mode: int) -> None:
    """Set the permissions of a file or folder, where there are any: drives of Windows refuse them under WSL."""
    with suppress(PermissionError):
        path.chmod(mode)


def _c_library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


# -- memory --------------------------------------------------------------------------------------------------------


def spare_memory() -> int:
    """The bytes that an array may take: half of what is free now."""
    free = machine_memory(free=True)
    return (_ASSUMED_FREE if free is None else free) // 2


def machine_memory(*, free: bool) -> int | None:
    """The memory in bytes that this process may have, all of it or what is free now; None where that is not known.

    The least of what the machine has, and of the limits of its control group and of the process.
    """
    limits = [*_of_machine(free), *_of_groups(free), *_of_process(free)]
    return max(min(limits), 0) if limits else None


def keep_memory(size: int) -> None:
    """Let glibc keep up to `size` freed bytes for the next use: fetching them from the system again takes longer."""
    with suppress(OSError, AttributeError):  # another library
        mallopt = _c_library().mallopt
        mallopt(_TRIM_THRESHOLD, size)
        mallopt(_MMAP_THRESHOLD, size)


def _of_machine(free: bool) -> list[int]:
    with suppress(OSError, KeyError, ValueError):
        return [_kibibytes("meminfo")["MemAvailable" if free else "MemTotal"] << 10]
    with suppress(AttributeError, ValueError, OSError):
        # macOS counts what can be taken back from caches as taken; so take half for granted
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 + free)]
    return []


def _of_groups(free: bool) -> list[int]:
    """The limits of the control groups (version 2) that this process is in; what files take there can be dropped."""
    limits = []
    with suppress(OSError, StopIteration):
        lines = (_PROC / "self/cgroup").read_text().splitlines()
        own = _GROUPS / next(line for line in lines if line.startswith("0::")).removeprefix("0::").strip("/")
        for group in (own, *own.parents):
            if not group.is_relative_to(_GROUPS):
                break
            with suppress(OSError, ValueError, StopIteration):
                limit = int((group / "memory.max").read_text())
                kept = (group / "memory.stat").read_text().splitlines()
                files = int(next(line for line in kept if line.startswith("inactive_file ")).split()[1])
                limits.append(limit - (int((group / "memory.current").read_text()) - files) * free)
    return limits


def _of_process(free: bool) -> list[int]:
    """The limits that `ulimit -v` and `ulimit -d` set."""
    with suppress(ImportError, OSError, KeyError, ValueError):
        import resource

        taken = _kibibytes("self/status")
        limits = [(resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")]
        known = [(resource.getrlimit(limit)[0], taken[name] << 10) for limit, name in limits]
        return [limit - used * free for limit, used in known if limit != resource.RLIM_INFINITY]
    return []


def _kibibytes(name: str) -> dict[str, int]:
    """The sizes that a file of /proc names, in KiB."""
    lines = (line.split() for line in (_PROC / name).read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}
