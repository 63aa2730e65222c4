"""Processes that work in parallel.

A process that dies costs only its own item, which is given back with the reason. Ctrl-C, which a terminal sends to all
processes at once, is left to the parent, which ends the others; and when the parent is killed, they end too.
`concurrent.futures` does none of this: there, the death of a process ends all, without its cause.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from typing import Any, Generic, TypeVar

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PATIENCE_SECONDS = 5.0  # for a process to end

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Finished(Generic[Item, Result]):
    """An item and the result; `death` says why there is none, if the process died."""

    item: Item
    result: Result | None
    death: str = ""


class Processes(Generic[Item, Result]):
    """Up to `count` processes with `threads` threads each, started when first needed, ended with the block.

    work    a function that a process can import: it is called there with an item at a time
    """

    def __init__(self, work: Callable[[Item], Result], count: int, threads: int) -> None:
        self._work, self._count, self._threads = work, count, threads
        self._processes: list[_Process] = []

    def __enter__(self) -> Processes[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.end()
        for process in self._processes:
            process.join()
        self._processes.clear()

    def run(
        self, items: Sequence[Item], group: Callable[[Item], Hashable] = lambda _: None
    ) -> Iterator[Finished[Item, Result]]:
        """Work on all items, in any order; each is given back as soon as it is finished.

        group     items of a group share something costly, so a process stays with a group while it has items left
        """
        left: dict[Hashable, list[Item]] = {}
        for item in items:
            left.setdefault(group(item), []).append(item)
        while len(self._processes) < min(self._count, len(items)):
            self._processes.append(_Process(self._work, self._threads))
        for process in self._processes:
            _begin_next(process, left, [other.group for other in self._processes if other.is_busy])
        while busy := {process.pipe: process for process in self._processes if process.is_busy}:
            for pipe in connection.wait(list(busy)):
                process = busy[pipe]  # type: ignore[index]
                try:
                    result, error = process.answer()
                    finished = Finished(process.item, result)
                except (EOFError, OSError):
                    error, finished = None, Finished(process.item, None, process.cause_of_death())
                    self._processes.remove(process)
                    process = _Process(self._work, self._threads, process.group)
                    self._processes.append(process)
                if error is not None:
                    raise error
                _begin_next(process, left, [other.group for other in self._processes if other.is_busy])
                yield finished


def _begin_next(process: _Process, left: dict[Hashable, list[Any]], begun: Sequence[Hashable]) -> None:
    """Begin an item, if any is left: of the process's last group, else of an idle group, else of the largest."""
    if not left:
        return
    at = process.group
    if at not in left:
        at = next((group for group in left if group not in begun), max(left, key=lambda group: len(left[group])))
    process.begin(at, left[at].pop(0))
    if not left[at]:
        del left[at]


class _Process:
    """One process, the item that it works on, and the group of that item."""

    def __init__(self, work: Callable[[Any], Any], threads: int, group: Hashable = None) -> None:
        self.pipe, its_end = multiprocessing.Pipe()
        spawn = multiprocessing.get_context("spawn")  # a fork inherits locks, but not the threads that hold them
        self._process = spawn.Process(target=_serve, args=(its_end, work))
        with _thread_limit(threads), _interrupts_blocked():
            self._process.start()
        its_end.close()  # so that the pipe ends with the process
        self.group, self.is_busy = group, False
        self.item: Any = None

    def begin(self, group: Hashable, item: Any) -> None:
        self.group, self.item, self.is_busy = group, item, True
        with suppress(OSError):  # it has died, which `answer` finds out
            self.pipe.send(item)

    def answer(self) -> tuple[Any, Exception | None]:
        """The result of its item, or the error that the work raised; EOFError or OSError where it has died."""
        self.is_busy = False
        answer: tuple[Any, Exception | None] = self.pipe.recv()
        return answer

    def cause_of_death(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"the process exited with code {code}"
        name = signal.Signals(-code).name
        return f"the process was killed by {name}{'; if memory ran out, use fewer jobs' if name == 'SIGKILL' else ''}"

    def end(self) -> None:
        """Stop its work; an idle process ends with its pipe."""
        if self.is_busy:
            self._process.terminate()
        self.pipe.close()

    def join(self) -> None:
        """Wait for its end, and kill it when the time is up."""
        self._process.join(_PATIENCE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile, even before they reach `_serve`."""
    resource_tracker.ensure_running()  # starting it later would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _thread_limit(count: int) -> Iterator[None]:
    """Limit the threads of processes that are started meanwhile, before they import anything."""
    before = {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name in _THREAD_VARIABLES:
            del os.environ[name]
        os.environ.update(before)


# -- in the process ------------------------------------------------------------------------------------------------


def _serve(pipe: connection.Connection[Any, Any], work: Callable[[Any], Any]) -> None:
    """Work on item after item, until the pipe ends; Ctrl-C is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(EOFError):
        while True:
            item = pipe.recv()
            try:
                answer = pickle.dumps((work(item), None))
            except Exception as error:
                answer = _told(error)
            pipe.send_bytes(answer)


def _told(error: Exception) -> bytes:
    """An error with its traceback as a note; an error that cannot be pickled, as a RuntimeError that names it."""
    error.add_note(traceback.format_exc())
    try:
        told = pickle.dumps((None, error))
        pickle.loads(told)  # noqa: S301  # our own error
    except Exception:
        told = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return told


def _exit_with_parent() -> None:
    """End when the parent does, even in the middle of an item."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
