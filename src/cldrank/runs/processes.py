"""Processes that work in parallel, and arrays that they share.

A process that dies costs only its own item, which is given back with the reason. Ctrl-C, which a terminal sends to all
processes at once, is left to the parent, which ends the others; and when the parent is killed, they end too.
"""

from __future__ import annotations

import io
import mmap
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
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from cldrank.errors import CldrankError

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
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
        self,
        items: Sequence[Item],
        group: Callable[[Item], Hashable] = lambda _: None,
        alone: Callable[[Item], bool] = lambda _: False,
    ) -> Iterator[Finished[Item, Result]]:
        """Work on all items, in any order; each is given back as soon as it is finished.

        group     items of one group share something costly, so a process stays with a group while it has items left
        alone     whether an item's group is left to one process: each of its items begins with what the one before left
        """
        queue = _Queue(items, group, alone)
        while len(self._processes) < min(self._count, len(items)):
            self._processes.append(_Process(self._work, self._threads))
        for process in self._processes:
            process.begin(queue)
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
                process.begin(queue)
                yield finished


class _Queue:
    """Items that no process has begun, by group."""

    def __init__(self, items: Sequence[Any], group: Callable[[Any], Hashable], alone: Callable[[Any], bool]) -> None:
        self._left: dict[Hashable, list[Any]] = {}
        for item in items:
            self._left.setdefault(group(item), []).append(item)
        self._untouched = list(self._left)
        self._reserved = {group(item) for item in items if alone(item)}

    def next_after(self, last: Hashable) -> tuple[Hashable, Any] | None:
        """An item with its group, if there is any: of the last group, of a new one, of the one with the most left."""
        if last not in self._left:
            shared = [group for group in self._left if group not in self._reserved]
            groups = self._untouched or sorted(shared, key=lambda group: -len(self._left[group]))
            if not groups:
                return None
            last = groups[0]
        if last in self._untouched:
            self._untouched.remove(last)
        item = self._left[last].pop(0)
        if not self._left[last]:
            del self._left[last]
        return last, item


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

    def begin(self, queue: _Queue) -> None:
        """Begin with the next item, if there is one for it."""
        if (following := queue.next_after(self.group)) is not None:
            (self.group, self.item), self.is_busy = following, True
            with suppress(OSError):  # it has died, which `answer` finds out
                self.pipe.send(self.item)

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
        """Stop its work; one that has nothing to do ends with its pipe."""
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
    """Do the work on one item after the other, until the pipe ends; Ctrl-C is left to the parent."""
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
    """An error with its traceback as a note; one that cannot travel, as a fault that names it."""
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
