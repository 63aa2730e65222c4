"""Processes that work in parallel, and arrays that they share.

Each process is an executor of its own: one that dies breaks only that executor and costs only its own item, which is
given back with the reason. Ctrl-C, which a terminal sends to all processes at once, is left to the parent, which ends
the others; and when the parent is killed, they end too.
"""

from __future__ import annotations

import io
import mmap
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from cldrank.errors import CldrankError

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_WATCH_SECONDS = 0.3
_PATIENCE_SECONDS = 5.0  # for a process to end
_SMALL_BYTES = 1 << 14  # arrays below it travel with the rest

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

    work    a function that a process can import: it is called there with one item at a time
    grace   seconds that a process gets to end in order, by a KeyboardInterrupt, before it is killed; 0: none
    """

    def __init__(self, work: Callable[[Item], Result], count: int, threads: int, *, grace: float = 0.0) -> None:
        self._work, self._count, self._threads, self._grace = work, count, threads, grace
        self._processes: list[_Process] = []

    def __enter__(self) -> Processes[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(self._grace or _PATIENCE_SECONDS)
        self._processes.clear()

    def run(
        self,
        items: Sequence[Item],
        group: Callable[[Item], Hashable] = lambda _: None,
        waiting: Callable[[], None] | None = None,
        alone: Callable[[Item], bool] = lambda _: False,
    ) -> Iterator[Finished[Item, Result]]:
        """Work on all items, in any order; each is given back as soon as it is finished.

        group     items of one group share something costly, so a process stays with a group while it has items left
        waiting   called every now and then while none has finished
        alone     whether an item's group is left to one process: each of its items begins with what the one before left
        """
        queue = _Queue(items, group, alone)
        busy: dict[Future[Result], tuple[_Process, Item]] = {}

        def begin(process: _Process) -> None:
            for item in queue.next_for(process):
                busy[process.submit(self._work, item)] = process, item

        while len(self._processes) < min(self._count, len(items)):
            self._processes.append(_Process(self._threads, orderly=self._grace > 0))
        for process in self._processes:
            begin(process)
        while busy:
            done, _ = wait(busy, timeout=None if waiting is None else _WATCH_SECONDS, return_when=FIRST_COMPLETED)
            if not done and waiting is not None:
                waiting()
            for future in done:
                process, item = busy.pop(future)
                try:
                    finished = Finished(item, future.result())
                except BrokenProcessPool:
                    finished = Finished(item, None, death=process.cause_of_death())
                    self._processes.remove(process)
                    process = _Process(self._threads, orderly=self._grace > 0, group=process.group)
                    self._processes.append(process)
                begin(process)
                yield finished


class _Queue:
    """Items that no process has begun, by group."""

    def __init__(self, items: Sequence[Any], group: Callable[[Any], Hashable], alone: Callable[[Any], bool]) -> None:
        self._left: dict[Hashable, list[Any]] = {}
        for item in items:
            self._left.setdefault(group(item), []).append(item)
        self._untouched = list(self._left)
        self._reserved = {group(item) for item in items if alone(item)}

    def next_for(self, process: _Process) -> list[Any]:
        """One item, if there is any: of the group of a process, of a new one, of the one with the most left."""
        if process.group not in self._left:
            shared = [group for group in self._left if group not in self._reserved]
            groups = self._untouched or sorted(shared, key=lambda group: -len(self._left[group]))
            if not groups:
                return []
            process.group = groups[0]
        if process.group in self._untouched:
            self._untouched.remove(process.group)
        items = self._left[process.group]
        item = items.pop(0)
        if not items:
            del self._left[process.group]
        return [item]


class _Process:
    """One process behind an executor of its own, and the group that it worked on last."""

    def __init__(self, threads: int, *, orderly: bool, group: Hashable = None) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork inherits locks, but not the threads that hold them
        self._executor = ProcessPoolExecutor(1, mp_context=spawn, initializer=_prepare, initargs=(orderly,))
        self._threads = threads
        self._process: Any = None
        self._future: Future[Any] | None = None
        self.group = group

    def submit(self, work: Callable[[Any], Any], item: Any) -> Future[Any]:
        before = set(multiprocessing.active_children())
        with _thread_limit(self._threads), _interrupts_blocked():
            self._future = self._executor.submit(_do, work, item)
        if self._process is None:
            (self._process,) = set(multiprocessing.active_children()) - before
        return self._future

    def cause_of_death(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"the process exited with code {code}"
        name = signal.Signals(-code).name
        return f"the process was killed by {name}{'; if memory ran out, use fewer jobs' if name == 'SIGKILL' else ''}"

    def terminate(self) -> None:
        """Ask it to end; one that has nothing to do ends by itself."""
        if self._future is not None and not self._future.done():
            self._process.terminate()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def join(self, seconds: float) -> None:
        """Wait for its end, and kill it when the time is up."""
        if self._process is not None:
            self._process.join(timeout=seconds)
            if self._process.is_alive():
                self._process.kill()
        self._executor.shutdown(wait=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that is started meanwhile never sees Ctrl-C, not even before it comes to `_prepare`."""
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
    before = {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(count)))
    try:
        yield
    finally:
        for name in _THREAD_VARIABLES:
            del os.environ[name]
        os.environ.update(before)


# -- in the process ------------------------------------------------------------------------------------------------

_is_working = threading.Event()


def _do(work: Callable[[Any], Any], item: Any) -> Any:
    _is_working.set()
    try:
        return work(item)
    finally:
        _is_working.clear()


def _prepare(orderly: bool) -> None:
    """Leave Ctrl-C to the parent, and end with it, even in the middle of an item."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt if orderly else signal.SIG_DFL)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _interrupt(*_: object) -> None:
    """End as Ctrl-C ends, so that what is under way is given up in order."""
    if _is_working.is_set():
        raise KeyboardInterrupt


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


# -- shared arrays -------------------------------------------------------------------------------------------------


def share(thing: Any, folder: Path) -> bytes:
    """A pickle for other processes, whose arrays are `.npy` files in a folder: all processes map the same memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pickle.loads(share({"numbers": np.arange(10_000)}, Path(folder)))["numbers"][:3]
    array([0, 1, 2])
    """
    pickled = io.BytesIO()
    try:
        _ArraysInFiles(pickled, folder).dump(thing)
    except OSError as error:
        raise CldrankError(
            f"{folder} cannot be written: {error.strerror or error}. Several jobs share a copy of the data there; make "
            "room, or use one job."
        ) from error
    return pickled.getvalue()


class _ArraysInFiles(pickle.Pickler):
    """Writes large arrays to files; one that is mapped from a file as a whole stays where it is."""

    def __init__(self, file: io.BytesIO, folder: Path) -> None:
        super().__init__(file, protocol=5)
        self._folder, self._count = folder, 0

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, np.ndarray) or obj.dtype.hasobject or obj.nbytes < _SMALL_BYTES:
            return NotImplemented
        base: Any = obj.base
        if isinstance(obj, np.memmap) and isinstance(base, mmap.mmap) and obj.flags.c_contiguous and obj.filename:
            return np.memmap, (obj.filename, obj.dtype, "r", obj.offset, obj.shape)
        self._count += 1
        path = self._folder / f"{self._count}.npy"
        np.save(path, np.asarray(obj))
        return _mapped, (path,)


def _mapped(path: Path) -> Any:
    return np.asarray(np.load(path, mmap_mode="r"))
