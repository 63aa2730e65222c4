"""Processes that work in parallel. One that dies takes only its own task with it; when the parent dies, all end.

Nothing heavy is imported here: a process first sets how many threads it may use, then imports what would start them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cldrank.experiment.work import Outcome, Task

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_WATCH_SECONDS = 0.5


class Pool:
    """So many processes with so many threads each, started when first needed, ended when the block ends.

    A process keeps to the tasks of one group as long as there are any, as they share what is costly to prepare; when
    no group is left untouched, it helps with the one that has the most left.
    """

    def __init__(self, jobs: int, threads: int) -> None:
        self.jobs, self.threads = jobs, threads
        self._workers: list[_Worker] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    def run(self, tasks: Sequence[Task], done: Callable[[Task, Outcome], None]) -> None:
        """Do all tasks, in any order; `done` is called here, in this process, after each."""
        waiting = _Waiting(tasks)
        while len(self._workers) < min(self.jobs, len(tasks)):
            self._workers.append(_Worker(self.threads))
        for worker in self._workers:
            worker.give(waiting.next_for(worker.group))
        while busy := {worker.connection: worker for worker in self._workers if worker.task is not None}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                task, outcome = worker.take()
                if worker.ended:
                    self._workers.remove(worker)
                    worker = _Worker(self.threads)
                    self._workers.append(worker)
                worker.give(waiting.next_for(task.group))
                done(task, outcome)


class _Waiting:
    """Tasks not yet begun, by group."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.groups: dict[str, deque[Task]] = defaultdict(deque)
        for task in tasks:
            self.groups[task.group].append(task)
        self.untouched = deque(self.groups)

    def next_for(self, group: str) -> Task | None:
        """The next task for a process that has just worked on a group."""
        if not self.groups.get(group):
            group = self._other_group()
        if not group:
            return None
        task = self.groups[group].popleft()
        if group in self.untouched:
            self.untouched.remove(group)
        if not self.groups[group]:
            del self.groups[group]
        return task

    def _other_group(self) -> str:
        if self.untouched:
            return self.untouched[0]
        return max(self.groups, key=lambda group: len(self.groups[group]), default="")


class _Worker:
    """One process, and the task it has."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # a forked process would inherit threads that are not there
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, os.getpid(), threads))
        with _deaf():
            self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.group = ""
        self.ended = False

    def give(self, task: Task | None) -> None:
        self.task = task
        if task is not None:
            self.group = task.group
            with suppress(OSError):  # if it has just died, `take` will say so
                self.connection.send(task)

    def take(self) -> tuple[Task, Outcome]:
        """The task it had and what came of it."""
        from cldrank.experiment.work import Outcome

        task, self.task = self.task, None
        assert task is not None  # noqa: S101  # only a busy worker is asked
        try:
            return task, self.connection.recv()
        except (EOFError, OSError):
            self.ended = True
            self.process.join()
            return task, Outcome(error=_said_of_death(self.process.exitcode), synthetic=task.fold.made is not None)

    def stop(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(timeout=5)
            if self.process.is_alive():
                self.process.kill()
        self.process.join()


@contextmanager
def _deaf() -> Iterator[None]:
    """A process that is started meanwhile never hears Ctrl-C, not even before it comes to `_serve`."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # to start it would end our blocking
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _said_of_death(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = "; was there too little memory? Fewer --jobs take less" if name == "SIGKILL" else ""
        return f"the process was ended by {name}{hint}"
    return f"the process ended by itself with exit code {code}"


def _serve(connection: Connection, parent: int, threads: int) -> None:
    """What a process does: take a task, do it, send what came of it, until there is nobody to take from."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    from cldrank.experiment.work import execute

    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(execute(task))


def _end_with(parent: int) -> None:
    """End this process when its parent is no more, also in the middle of a task."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
