from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenes import scene

from cldrank.errors import CldrankError
from cldrank.estimators import IPS
from cldrank.workers import Finished, Workers, ahead, share

# -- processes ---------------------------------------------------------------------------------------------------


def test_a_process_that_dies_costs_only_its_own_task() -> None:
    tasks = ["6 * 7", "__import__('os')._exit(3)", "__import__('os').kill(__import__('os').getpid(), 9)", "'the rest'"]
    with Workers(eval, 1, 1) as workers:
        found = list(workers.run(tasks))
        again = list(workers.run(["1 + 1"]))
    assert found == [
        Finished(tasks[0], 42),
        Finished(tasks[1], None, "the process exited with code 3"),
        Finished(tasks[2], None, "the process was killed by SIGKILL; if memory ran out, use fewer jobs"),
        Finished(tasks[3], "the rest"),
    ]
    assert again == [Finished("1 + 1", 2)]


def test_processes_and_threads_are_as_many_as_asked_for() -> None:
    task = "(__import__('time').sleep(0.2), __import__('os').getpid(), __import__('os').environ['OMP_NUM_THREADS'])"
    with Workers(eval, 2, 3) as workers:
        found: list[Any] = [done.result for done in workers.run([task] * 6)]
    assert len({process for _, process, _ in found}) == 2
    assert {threads for *_, threads in found} == {"3"}


SLEEPER = """
import pathlib, time
try:
    pathlib.Path("begun").touch()
    time.sleep(60)
except KeyboardInterrupt:
    pathlib.Path("ended in order").touch()
    raise
"""


@pytest.mark.parametrize("grace", [0.0, 20.0])
def test_processes_end_with_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grace: float) -> None:
    monkeypatch.chdir(tmp_path)

    def look() -> None:
        if Path("begun").exists():
            raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Workers(exec, 1, 1, grace=grace) as workers:
        list(workers.run([SLEEPER], waiting=look))
    assert time.monotonic() - begun < 15
    assert Path("ended in order").exists() == (grace > 0)


def test_a_process_that_is_just_starting_does_not_see_ctrl_c() -> None:
    """Spawned processes import the main module before any line of ours could tell them to ignore it."""
    code = """if True:
        import os, signal
        from cldrank import workers
        if __name__ == "__main__":
            worker = workers._Worker(eval, 1)
            os.kill(worker.process.pid, signal.SIGINT)  # long before it has imported anything
            worker.connection.close()
            worker.process.join(30)
            print(worker.process.exitcode)
            signal.raise_signal(signal.SIGINT)  # we ourselves still do
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "0\n", ended.stderr
    assert ended.stderr.count("Traceback") == 1
    assert ended.returncode in (130, -signal.SIGINT)


# -- shared arrays -----------------------------------------------------------------------------------------------


def test_arrays_come_back_equal_and_mapped(tmp_path: Path) -> None:
    given = scene(0)
    on_disk = np.memmap(tmp_path / "numbers", dtype=np.float32, mode="w+", shape=(1000, 7))
    on_disk[:] = np.arange(7000).reshape(1000, 7)
    rest = {
        "words": np.array(["a", None], dtype=object),
        "none": np.zeros(0),
        "by column": np.asfortranarray(np.eye(3)),
    }
    shared = share((given, on_disk, rest), tmp_path)
    again, numbers, others = pickle.loads(pickle.dumps(shared)).load()  # noqa: S301  as another process gets it
    np.testing.assert_array_equal(numbers, on_disk)
    for array in (numbers, again.data.features, again.clicks.row):
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.ctypes.data % 64 == 0
    assert len(shared.frame) < on_disk.nbytes
    assert {path.name for path in tmp_path.iterdir()} == {"arrays", "numbers"}  # nothing that could run as code
    assert others["words"].tolist() == ["a", None]
    assert len(others["none"]) == 0
    np.testing.assert_array_equal(others["by column"], np.eye(3))
    np.testing.assert_array_equal(IPS().fit(*again).predict(again.data), IPS().fit(*given).predict(given.data))


def test_without_arrays(tmp_path: Path) -> None:
    assert share({"l2": 0.1}, tmp_path).load() == {"l2": 0.1}


def test_a_full_disk_is_reported_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "arrays").symlink_to("/dev/full")
    with pytest.raises(CldrankError, match=r"arrays cannot be written: No space left on device.*one job"):
        share(np.zeros(100_000), tmp_path)


def test_work_is_done_ahead_but_not_far() -> None:
    started: list[int] = []

    def work(item: int) -> int:
        started.append(item)
        return item

    found = ahead(work, range(100), threads=1, most=3)
    assert next(found) == 0
    time.sleep(0.05)
    assert len(started) <= 5
    assert list(found) == list(range(1, 100))


def test_an_error_ahead_reaches_the_one_who_waits_and_no_thread_is_left() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise OSError("the disk is gone")
        return item

    before = threading.active_count()
    found: Iterator[int] = ahead(work, range(9), threads=1, most=3)
    with pytest.raises(OSError, match="the disk is gone"):
        list(found)
    assert threading.active_count() == before
