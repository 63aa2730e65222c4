"""How much memory there is: on this machine, in this control group, for this process."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_ASSUMED_FREE = 4 << 30  # bytes, where the system does not say


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


def _of_machine(free: bool) -> list[int]:
    with suppress(OSError, KeyError, ValueError):
        return [_kibibytes("/proc/meminfo")["MemAvailable" if free else "MemTotal"] << 10]
    try:
        return [os.sysconf("SC_AVPHYS_PAGES" if free else "SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):
        return []


def _of_groups(free: bool) -> list[int]:
    """The limits of the control groups (version 2) that this process is in; what files take there can be dropped."""
    limits = []
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
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

        taken = _kibibytes("/proc/self/status")
        limits = [(resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")]
        known = [(resource.getrlimit(limit)[0], taken[name] << 10) for limit, name in limits]
        return [limit - used * free for limit, used in known if limit != resource.RLIM_INFINITY]
    return []


def _kibibytes(path: str) -> dict[str, int]:
    """The sizes that a file of the system names, in KiB."""
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[-1] == "kB"}
