"""Linux as it is, and other systems as far as taking things away from Linux shows them."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cldrank import host
from cldrank.files import replacing
from cldrank.host import machine_memory, spare_memory

GIB = 1 << 30
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture
def without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without /proc and control groups, which has 12 GiB and does not say what is free: macOS."""
    sizes = {"SC_PHYS_PAGES": 12 * GIB // 4096, "SC_PAGE_SIZE": 4096}

    def sysconf(name: str) -> int:
        if name not in sizes:
            raise ValueError("unrecognized configuration name")
        return sizes[name]

    monkeypatch.setattr(host, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(host, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sysconf", sysconf)


def as_macos(monkeypatch: pytest.MonkeyPatch, **library: Any) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(host, "_c_library", lambda: SimpleNamespace(**library))


def test_nothing_else_knows_the_system() -> None:
    systems = re.compile(r"^\s*(?:import|from) (?:ctypes|fcntl|resource)\b|sys\.platform|sched_|/proc/|os\.fork")
    modules = Path(host.__file__).parent.rglob("*.py")
    knowing = {path.name for path in modules for line in path.read_text("utf-8").splitlines() if systems.search(line)}
    assert knowing == {"host.py"}


# -- files -----------------------------------------------------------------------------------------------------------


def test_macos_swaps_names_by_its_own_call_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    as_macos(monkeypatch, renamex_np=lambda *given: 0 if given == (b"a", b"b", 2) else -1)  # RENAME_SWAP
    assert host.exchange(Path("a"), Path("b"))
    assert not host.exchange(Path("a"), Path("on a file system that cannot"))
    as_macos(monkeypatch)
    assert not host.exchange(Path("a"), Path("b"))


def test_macos_flushes_the_cache_of_the_drive_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def control(handle: int, command: int) -> None:
        calls.append((handle, command))
        if handle:
            raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", calls.append)
    host.flush(0)
    host.flush(1)
    assert calls == [(0, 51), (1, 51), 1]


def test_a_disk_that_fails_is_not_taken_for_one_that_cannot_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    host.flush(errno.EINVAL)
    with pytest.raises(OSError, match="Input/output error"):
        host.flush(errno.EIO)


def test_a_drive_of_windows_refuses_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    with replacing(tmp_path / "file") as temporary:
        temporary.write_text("whole")
    assert (tmp_path / "file").read_text() == "whole"


# -- cores and memory ------------------------------------------------------------------------------------------------


def test_cores_where_a_process_cannot_be_bound_to_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert host.available_cores() == 6


@pytest.mark.usefixtures("without_proc")
def test_macos_has_half_of_its_memory_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (machine_memory(free=False), machine_memory(free=True)) == (12 * GIB, 6 * GIB)
    monkeypatch.delattr(os, "sysconf")
    assert machine_memory(free=True) is None
    assert spare_memory() == 2 * GIB  # half of 4


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group with a limit of 2 GiB, of which 1.5 GiB are taken, 1 GiB of that by files that can be dropped."""
    files = {"memory.max": f"{2 * GIB}\n", "memory.current": str(3 * GIB // 2), "memory.stat": f"inactive_file {GIB}\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(host, "_GROUPS", tmp_path)
    return tmp_path


def test_free_memory_is_no_more_than_all_of_it() -> None:
    free, whole = machine_memory(free=True), machine_memory(free=False)
    assert free is not None
    assert whole is not None
    assert 0 < free <= whole


@LINUX
def test_the_limit_of_a_control_group_counts(group: Path) -> None:
    if "0::" not in Path("/proc/self/cgroup").read_text():
        pytest.skip("there are no control groups of version 2")
    assert host._of_groups(free=False) == [2 * GIB]
    assert host._of_groups(free=True) == [3 * GIB // 2]
    (group / "memory.max").write_text("max\n")
    assert host._of_groups(free=True) == []


@LINUX
def test_a_limit_of_the_process_counts() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 31, 1 << 31)); "
        "from cldrank.host import machine_memory as found; print(found(free=False), found(free=True))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    whole, free = map(int, done.stdout.split())
    assert whole == 2 * GIB
    assert 0 < free < 2 * GIB
