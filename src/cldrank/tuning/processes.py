"""Several processes that do the trials of one search; what they share is its folder."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from cldrank.errors import CldrankError, UsageError
from cldrank.tuning.handing_over import Handed, hand_over
from cldrank.tuning.study import Report, Search, Study

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_WATCH_SECONDS = 0.3
_PATIENCE_SECONDS = 20.0


def work_together(search: Search, jobs: int, room: Path, report: Report | None = None) -> None:
    """Do all trials in so many processes; the data is written to a room once, and mapped into the memory of each."""
    study = Study(search)
    handed = hand_over(search, room)
    workers = [_Worker(handed, number, jobs) for number in range(jobs)]
    try:
        _watch(study, workers, report)
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.end()
    errors = [worker.error for worker in workers if worker.error is not None]
    if errors and (isinstance(errors[0], UsageError) or len(study.finished()) < search.trials):
        raise errors[0]


def _watch(study: Study, workers: list[_Worker], report: Report | None) -> None:
    finished = len(study.finished())
    while alive := [worker for worker in workers if worker.process.is_alive()]:
        wait([worker.process.sentinel for worker in alive], timeout=_WATCH_SECONDS)
        if report is not None and len(study.finished()) > finished:
            finished = len(study.finished())
            report(finished, study.best_value())


class _Worker:
    """One process."""

    def __init__(self, handed: Handed, number: int, jobs: int) -> None:
        context = multiprocessing.get_context("spawn")  # a forked process would inherit threads that are not there
        self._connection, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_serve, args=(handed, number, theirs, os.getpid()))
        with _threads(max(1, (os.cpu_count() or 1) // jobs)), _deaf():
            self.process.start()
        theirs.close()
        self.error: CldrankError | None = None

    def end(self) -> None:
        """Wait for its end, not for ever, and learn how it ended."""
        self.process.join(timeout=_PATIENCE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.error = self._found_error()
        self._connection.close()

    def _found_error(self) -> CldrankError | None:
        if not self.process.exitcode:
            return None
        try:
            misused, text = self._connection.recv()
        except EOFError:
            text = (
                f"a process ended with code {self.process.exitcode}; was there too little memory? Fewer jobs take less."
            )
            return CldrankError(text)
        return UsageError(text) if misused else CldrankError(text)


def _serve(handed: Handed, number: int, connection: Connection, parent: int) -> None:
    """What a process does: trials, until there are enough."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent ends us
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        Study(handed.take(), number).work()
    except KeyboardInterrupt:
        raise SystemExit(1) from None
    except CldrankError as error:
        connection.send((isinstance(error, UsageError), str(error)))
        raise SystemExit(1) from None


def _interrupt(number: int, frame: Any) -> None:
    """End as Ctrl-C ends, so that the trial under way is given up in order."""
    del number, frame
    raise KeyboardInterrupt


def _end_with(parent: int) -> None:
    """End this process when its parent is no more, also in the middle of a trial."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


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


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Processes that are started meanwhile use at most so many threads each."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    try:
        for name in _THREAD_VARIABLES:
            os.environ[name] = str(min(count, int(before[name] or count)))
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
