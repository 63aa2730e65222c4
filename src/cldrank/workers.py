"""Processes that work in parallel, and arrays that they share.

Why this is not left to a library: with `concurrent.futures`, and with joblib's loky, one process that dies breaks the
whole pool and every task in it. Here it costs only its own task, which is given back with the reason, and another
process takes its place. A process also keeps to tasks that share costly preparations; Ctrl-C, which a terminal sends to
all processes at once, is left to the parent, which then ends the others; and when the parent is killed, they end too.
Arrays are mapped from one file that holds nothing but their content. joblib would map them from pickles, which whoever
can write to the folder could exchange for code of their own.
"""

from __future__ import annotations

import io
import mmap
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from cldrank.errors import CldrankError

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_WATCH_SECONDS = 0.3
_ALIGNMENT = 64

Task = TypeVar("Task")
Result = TypeVar("Result")


# -- processes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finished(Generic[Task, Result]):
    """A task and its result; `death` says why there is none, if the process died."""

    task: Task
    result: Result | None
    death: str = ""


class Workers(Generic[Task, Result]):
    """Up to `count` processes with `threads` threads each, started when first needed, ended with the block.

    work    a function that a process can import: it is called there with one task at a time
    grace   seconds that a process gets to end in order, by a KeyboardInterrupt, before it is killed; 0: none
    """

    def __init__(self, work: Callable[[Task], Result], count: int, threads: int, *, grace: float = 0.0) -> None:
        self._work, self._count, self._threads, self._grace = work, count, threads, grace
        self._workers: list[_Worker] = []

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.join(self._grace or 5.0)
        self._workers.clear()

    def run(
        self,
        tasks: Sequence[Task],
        group: Callable[[Task], Hashable] = lambda _: None,
        waiting: Callable[[], None] | None = None,
        alone: Callable[[Task], bool] = lambda _: False,
    ) -> Iterator[Finished[Task, Result]]:
        """Do all tasks, in any order; each is given back as soon as it is finished.

        group     tasks of one group share something costly, so a process stays with a group while it has tasks left
        waiting   called every now and then while none has finished
        alone     whether a task's group is left to one process: each of its tasks begins with what the one before left
        """
        queue = _Queue(tasks, group, alone)
        while len(self._workers) < min(self._count, len(tasks)):
            self._workers.append(self._started())
        for worker in self._workers:
            worker.give(queue.next(worker.group))
        while busy := {worker.connection: worker for worker in self._workers if worker.task is not None}:
            ready = wait(list(busy), timeout=None if waiting is None else _WATCH_SECONDS)
            if not ready and waiting is not None:
                waiting()
            for connection in ready:
                worker = busy[connection]  # type: ignore[index]
                finished = worker.take()
                following = queue.next(worker.group)
                if finished.death:
                    self._workers.remove(worker)
                    if following is not None:
                        worker = self._started()
                        self._workers.append(worker)
                worker.give(following)
                yield finished

    def _started(self) -> _Worker:
        return _Worker(self._work, self._threads, orderly=self._grace > 0)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fair_threads(most: int) -> int:
    """At most this many threads, or fewer if OMP_NUM_THREADS says so, as where processes share a machine."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(most, int(limit)) if limit.isdecimal() and int(limit) else most


def ahead(function: Callable[[Task], Result], items: Iterable[Task], threads: int, most: int) -> Iterator[Result]:
    """What a function makes of each item, in order, done in threads up to `most` items ahead.

    >>> list(ahead(abs, [-1, 2, -3, 4, -5], threads=2, most=3))
    [1, 2, 3, 4, 5]
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class _Queue:
    """Tasks that no process has begun, by group.

    >>> queue = _Queue(["a1", "b1", "b2", "b3", "a2"], group=lambda task: task[0])
    >>> [queue.next(group) for group in ("", "", "a", "a", "a")]  # a new group, another, the same, help with the rest
    [('a', 'a1'), ('b', 'b1'), ('a', 'a2'), ('b', 'b2'), ('b', 'b3')]
    >>> queue.next("b") is None
    True
    """

    def __init__(
        self,
        tasks: Sequence[Any],
        group: Callable[[Any], Hashable],
        alone: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        self._waiting: dict[Hashable, deque[Any]] = {}
        for task in tasks:
            self._waiting.setdefault(group(task), deque()).append(task)
        self._untouched = list(self._waiting)
        self._alone = {group(task) for task in tasks if alone(task)}

    def next(self, group: Hashable) -> tuple[Hashable, Any] | None:
        """The next task for a process that has just worked on a group: of the same, of a new one, of the longest."""
        if group not in self._waiting:
            begun = [one for one in self._waiting if one not in self._alone]
            longest = sorted(begun, key=lambda one: -len(self._waiting[one]))[:1]
            if not (self._untouched or longest):
                return None
            group = (self._untouched or longest)[0]
        if group in self._untouched:
            self._untouched.remove(group)
        task = self._waiting[group].popleft()
        if not self._waiting[group]:
            del self._waiting[group]
        return group, task


class _Worker:
    """One process, and the task that it has."""

    def __init__(self, work: Callable[[Any], Any], threads: int, *, orderly: bool = False) -> None:
        context = multiprocessing.get_context("spawn")  # a fork inherits locks, but not the threads that hold them
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs, orderly))
        with _thread_limit(threads), _interrupts_blocked():
            self.process.start()
        theirs.close()
        self.task: Any = None
        self.group: Hashable = None

    def give(self, following: tuple[Hashable, Any] | None) -> None:
        """Let it begin a task, if there is one."""
        if following is not None:
            self.group, self.task = following
            with suppress(OSError):  # if it has just died, `take` will notice
                self.connection.send(self.task)

    def take(self) -> Finished[Any, Any]:
        """The task that it had, and the result."""
        task, self.task = self.task, None
        try:
            return Finished(task, self.connection.recv())
        except (EOFError, OSError):
            self.process.join()
            return Finished(task, None, death=_cause_of_death(self.process.exitcode))

    def terminate(self) -> None:
        """Ask it to end; one without a task ends by itself when its pipe is closed."""
        self.connection.close()
        if self.task is not None:
            self.process.terminate()

    def join(self, seconds: float) -> None:
        """Wait for its end, and kill it when the time is up."""
        self.process.join(timeout=seconds)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def _cause_of_death(code: int | None) -> str:
    """What an exit code says.

    >>> _cause_of_death(-9), _cause_of_death(7)
    ('the process was killed by SIGKILL; if memory ran out, use fewer jobs', 'the process exited with code 7')
    """
    if code is None or code >= 0:
        return f"the process exited with code {code}"
    name = signal.Signals(-code).name
    return f"the process was killed by {name}{'; if memory ran out, use fewer jobs' if name == 'SIGKILL' else ''}"


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that is started meanwhile never sees Ctrl-C, not even before it comes to `_serve`."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _thread_limit(count: int) -> Iterator[None]:
    """A process that is started meanwhile finds the limit before it imports what would start threads."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(work: Callable[[Any], Any], connection: Connection, orderly: bool) -> None:
    """What a process does: take a task, do it, send the result, until there is nobody to take from."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    signal.signal(signal.SIGTERM, _interrupt if orderly else signal.SIG_DFL)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    with suppress(KeyboardInterrupt):
        while True:
            try:
                task = connection.recv()
            except (EOFError, OSError):
                return
            result = work(task)
            with suppress(OSError):  # nobody is there any more; the next `recv` ends us
                connection.send(result)


def _interrupt(*_: object) -> None:
    """End as Ctrl-C ends, so that what is under way is given up in order."""
    raise KeyboardInterrupt


def _exit_with_parent() -> None:
    """End this process as soon as its parent is gone, even in the middle of a task."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


# -- shared arrays -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """An object for other processes: all but the content of its arrays, and where in a file that lies."""

    frame: bytes = field(repr=False)
    file: Path
    spans: tuple[tuple[int, int], ...] = field(repr=False)  # start and size of each array

    def load(self) -> Any:
        """The object. Its arrays are mapped from the file, read-only, and every process maps the same memory."""
        with self.file.open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        buffers = [whole[start : start + size] for start, size in self.spans]
        return pickle.loads(self.frame, buffers=buffers)  # noqa: S301 - it came through the pipe of this process


def share(thing: Any, folder: Path) -> Shared:
    """Write the content of an object's arrays into a folder, once for all processes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     share({"numbers": np.arange(3)}, Path(folder)).load()["numbers"]
    array([0, 1, 2])
    """
    buffers: list[pickle.PickleBuffer] = []
    frame = io.BytesIO()
    _Pickler(frame, protocol=5, buffer_callback=buffers.append).dump(thing)
    spans, path = [], folder / "arrays"
    try:
        with path.open("wb") as file:
            for buffer in buffers:
                file.write(bytes(-file.tell() % _ALIGNMENT))
                spans.append((file.tell(), buffer.raw().nbytes))
                file.write(buffer.raw())
            file.write(b"\0")  # an empty file cannot be mapped
    except OSError as error:
        raise CldrankError(
            f"{path} cannot be written: {error.strerror}. Several jobs share a copy of the data there; make room, or "
            "use one job."
        ) from error
    return Shared(frame.getvalue(), path, tuple(spans))


class _Pickler(pickle.Pickler):
    """Leaves the content of arrays out, also of memory-mapped ones, which pickle would copy."""

    def reducer_override(self, obj: Any) -> Any:
        return np.asarray(obj).__reduce_ex__(5) if type(obj) is np.memmap else NotImplemented
