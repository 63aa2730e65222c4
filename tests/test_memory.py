from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cldrank import memory
from cldrank.memory import machine_memory

GIB = 1 << 30


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group with a limit of 2 GiB, of which 1.5 GiB are taken, 1 GiB of that by files that can be dropped."""
    files = {"memory.max": f"{2 * GIB}\n", "memory.current": str(3 * GIB // 2), "memory.stat": f"inactive_file {GIB}\n"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    return tmp_path


def test_free_memory_is_no_more_than_all_of_it() -> None:
    free, whole = machine_memory(free=True), machine_memory(free=False)
    assert free is not None
    assert whole is not None
    assert 0 < free <= whole


@pytest.mark.skipif(not memory._of_machine(free=True), reason="the system does not say")
def test_the_limit_of_a_control_group_counts(group: Path) -> None:
    if "0::" not in Path("/proc/self/cgroup").read_text():
        pytest.skip("there are no control groups of version 2")
    assert memory._of_groups(free=False) == [2 * GIB]
    assert memory._of_groups(free=True) == [3 * GIB // 2]
    (group / "memory.max").write_text("max\n")
    assert memory._of_groups(free=True) == []


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_limit_of_the_process_counts() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (1 << 31, 1 << 31)); "
        "from cldrank.memory import machine_memory as found; print(found(free=False), found(free=True))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    whole, free = map(int, done.stdout.split())
    assert whole == 2 * GIB
    assert 0 < free < 2 * GIB
