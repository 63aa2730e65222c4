from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cldrank.runs import Finished, Processes

# -- processes ---------------------------------------------------------------------------------------------------


def test_a_process_that_dies_costs_only_its_own_task() -> None:
    tasks = ["6 * 7", "__import__('os')._exit(3)", "__import__('os').kill(__import__('os').getpid(), 9)", "'the rest'"]
    with Processes(eval, 1, 1) as processes:
        finished = list(processes.run(tasks))
        again = list(processes.run(["1 + 1"]))
    assert finished == [
        Finished(tasks[0], 42),
        Finished(tasks[1], None, "the process exited with code 3"),
        Finished(tasks[2], None, "the process was killed by SIGKILL; if memory ran out, use fewer jobs"),
        Finished(tasks[3], "the rest"),
    ]
    assert again == [Finished("1 + 1", 2)]


def test_processes_and_threads_are_as_many_as_asked_for() -> None:
    task = "(__import__('os').getpid(), __import__('os').environ['OMP_NUM_THREADS'])"
    with Processes(eval, 2, 3) as processes:
        results: list[Any] = [done.result for done in processes.run([task] * 2)]
    assert len({process for process, _ in results}) == 2
    assert {threads for _, threads in results} == {"3"}


def test_the_threads_of_this_process_stay_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with Processes(eval, 1, 2) as processes:
        assert [done.result for done in processes.run(["__import__('os').environ['OMP_NUM_THREADS']"])] == ["2"]
    assert dict(os.environ) == before


ENDLESS = "(__import__('pathlib').Path('begun').touch(), __import__('threading').Event().wait())"


def _interrupt_when(happened: Callable[[], object], process: Callable[[], int]) -> None:
    while not happened():
        time.sleep(0.01)
    os.kill(process(), signal.SIGINT)


def test_processes_end_with_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    threading.Thread(target=_interrupt_when, args=(Path("begun").exists, os.getpid)).start()
    with pytest.raises(KeyboardInterrupt), Processes(eval, 1, 1) as processes:
        list(processes.run([ENDLESS]))
    assert not multiprocessing.active_children()


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = f"""if True:
        from cldrank.runs import Processes
        if __name__ == "__main__":
            with Processes(eval, 1, 1) as processes:
                list(processes.run(["{ENDLESS}"]))
    """
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE)
    while not (tmp_path / "begun").exists():
        assert parent.poll() is None
        time.sleep(0.01)
    parent.kill()
    assert parent.communicate(timeout=600)[0] == b""  # nobody else has its standard output open any more


class OfTwo(Exception):  # noqa: N818
    """Can be pickled, but not read back: pickle gives it one argument."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def fail(item: str) -> None:
    raise OfTwo(item, "more")


def test_an_error_of_the_work_comes_back_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught, Processes(eval, 1, 1) as processes:
        list(processes.run(["1 / 0"]))
    assert "_serve" in caught.value.__notes__[0]


def test_what_cannot_be_sent_back_is_an_error_that_says_so() -> None:
    with pytest.raises(Exception, match="pickle"), Processes(eval, 1, 1) as processes:
        list(processes.run(["lambda: 1"]))
    with pytest.raises(RuntimeError, match="OfTwo: this and more"), Processes(fail, 1, 1) as processes:
        list(processes.run(["this"]))


def test_a_process_that_is_just_starting_does_not_see_ctrl_c() -> None:
    """Spawned processes import the main module before any line of ours could tell them to ignore it."""
    code = """if True:
        import os, signal, threading, time
        from multiprocessing import active_children
        from cldrank.runs import Processes
        def interrupt():
            while not active_children():
                time.sleep(0.001)
            os.kill(active_children()[0].pid, signal.SIGINT)  # long before it has imported anything
        if __name__ == "__main__":
            threading.Thread(target=interrupt).start()
            with Processes(eval, 1, 1) as processes:
                print(*(done.result for done in processes.run(["6 * 7"])))
            signal.raise_signal(signal.SIGINT)  # we ourselves still do
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert ended.stdout == "42\n", ended.stderr
    assert ended.stderr.count("Traceback") == 1
    assert ended.returncode in (130, -signal.SIGINT)
