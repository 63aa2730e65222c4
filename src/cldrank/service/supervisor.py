"""`Supervisor`: several workers behind one socket.

The supervisor alone reads the folder of the ranker. It tries what lies there, keeps a copy of its own, and lets all
workers take that up; so they agree on the ranker whatever happens to the folder, also one that is started later in
place of one that died. Each worker has a pipe to the supervisor; messages are JSON:

    worker → supervisor     ready · reload (asked by a request) · swapped · failed (the copy could not be loaded)
    supervisor → worker     swap (a folder to load) · answer (to the reload) · count (a reload, in the metrics) · stop
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import orjson

from cldrank.errors import CldrankError
from cldrank.files import scratch
from cldrank.reading import reason
from cldrank.service.hangups import take_hangups
from cldrank.service.metrics import SHARED_FOLDER
from cldrank.service.one_process import log_to_stderr
from cldrank.service.request_error import RequestError
from cldrank.service.served import ServedRanker
from cldrank.service.settings import ServiceSettings
from cldrank.service.swapping import replacement, swap_refused
from cldrank.service.worker import work_for

logger = logging.getLogger("cldrank.service")
_PAUSE = 1.0  # seconds before a worker is started in place of one that could not even begin
_SWAP_TIMEOUT = 120.0


@dataclass(eq=False)
class _Member:
    """A worker's process and the pipe to it."""

    process: Any
    connection: Connection
    ready: bool = False

    def tell(self, **message: Any) -> None:
        """Send a message; one that is dying need not hear it."""
        with suppress(OSError):
            self.connection.send_bytes(orjson.dumps(message))


@dataclass
class _Asked:
    """A reload that was asked for: by a worker's request, or by a signal."""

    new_features: bool = False
    asker: _Member | None = None
    number: int = 0


@dataclass
class _Swap:
    """A swap under way: who has not yet taken up the new ranker."""

    asked: _Asked
    served: ServedRanker
    before: Path  # the copy of the old ranker, which goes once nobody needs it
    waiting: set[_Member] = field(default_factory=set)
    since: float = field(default_factory=time.monotonic)


class Supervisor:
    """Starts workers, replaces those that die, lets all of them swap rankers, and stops them in order."""

    def __init__(
        self, folder: Path, served: ServedRanker, listening: socket.socket, settings: ServiceSettings, workers: int
    ) -> None:
        self._folder, self._served, self._socket, self._settings = folder, served, listening, settings
        self._count = workers
        self._members: list[_Member] = []
        self._asked: deque[_Asked] = deque()
        self._swap: _Swap | None = None
        self._copies = 0
        self._starts: list[float] = []  # when to start a worker in place of one that could not begin

    def run(self, ready: Callable[[], None]) -> int:
        """Serve until a signal stops it; `ready` is called once all workers are."""
        log_to_stderr()
        signals, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)  # the pipe tells
        take_hangups()
        with scratch(name="cldrank-serve") as own:
            self._own = own
            (own / "metrics").mkdir()
            os.environ[SHARED_FOLDER] = str(own / "metrics")
            self._copy = self._keep_copy(self._served)
            try:
                self._start_all()
                return self._attend(signals, ready)
            finally:
                signal.set_wakeup_fd(-1)
                self._stop()

    def _attend(self, signals: int, ready: Callable[[], None]) -> int:
        """Hear signals and workers until the end."""
        told = False
        while True:
            places = {member.connection: member for member in self._members}
            for heard in wait([signals, *places], timeout=0.5):
                if heard == signals:
                    for number in os.read(signals, 64):
                        if number in (signal.SIGTERM, signal.SIGINT):
                            return 130 if number == signal.SIGINT else 0
                        self._hang_up()
                elif isinstance(heard, Connection):
                    self._hear(places[heard], told)
            if not told and len(self._members) == self._count and all(member.ready for member in self._members):
                told = True
                ready()
            self._start_due()
            self._go_on_swapping()

    # -- workers ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork inherits locks, but not the threads that hold them
        ours, theirs = context.Pipe()
        process = context.Process(target=work_for, args=(theirs, self._socket, str(self._copy), self._settings))
        resource_tracker.ensure_running()  # starting it later would unblock the signals again
        # Ctrl-C and a hangup reach all processes of a terminal; workers never see them, they hear from us
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._members.append(_Member(process, ours))

    def _start_all(self) -> None:
        try:
            for _ in range(self._count):
                self._start()
        except OSError as error:
            raise CldrankError(f"a worker cannot be started: {reason(error)}.") from None

    def _start_due(self) -> None:
        due = [moment for moment in self._starts if moment <= time.monotonic()]
        self._starts = [moment for moment in self._starts if moment not in due]
        for _ in due:
            try:
                self._start()
            except OSError as error:
                logger.error("a worker cannot be started: %s; trying again", reason(error))
                self._starts.append(time.monotonic() + _PAUSE)

    def _hear(self, member: _Member, told: bool) -> None:
        """One message of a worker, or its death."""
        try:
            message = orjson.loads(member.connection.recv_bytes())
        except (EOFError, OSError):
            self._bury(member, told)
            return
        match message["what"]:
            case "ready":
                member.ready = True
            case "reload":
                self._asked.append(_Asked(message["new_features"], member, message["number"]))
            case "swapped" if self._swap is not None:
                self._swap.waiting.discard(member)
            case "failed":
                logger.error("worker %s cannot take up the ranker: %s", member.process.pid, message["why"])
                member.process.kill()  # another will take its place, with the new ranker

    def _bury(self, member: _Member, told: bool) -> None:
        """Start another in place of a worker that died."""
        from prometheus_client.multiprocess import mark_process_dead

        self._members.remove(member)
        member.connection.close()
        member.process.join(5)
        code = member.process.exitcode
        mark_process_dead(member.process.pid)  # type: ignore[no-untyped-call]
        if self._swap is not None:
            self._swap.waiting.discard(member)
        if not told:
            raise CldrankError(f"a worker ended before it could serve (exit code {code}).")
        logger.error("worker %s ended (exit code %s); starting another", member.process.pid, code)
        self._starts.append(time.monotonic() + (0 if member.ready else _PAUSE))

    # -- rankers ---------------------------------------------------------------------------------------------------

    def _keep_copy(self, served: ServedRanker) -> Path:
        self._copies += 1
        copy = self._own / f"ranker-{self._copies}"
        served.ranker.save(copy)
        return copy

    def _hang_up(self) -> None:
        """A signal asks for a reload; one that waits already is enough."""
        if all(one.asker is not None for one in self._asked):
            self._asked.append(_Asked())

    def _go_on_swapping(self) -> None:
        """End the swap under way once all have taken up the ranker, and begin the next that was asked for."""
        swap = self._swap
        if swap is not None:
            if swap.waiting and time.monotonic() - swap.since < _SWAP_TIMEOUT:
                return
            for late in swap.waiting:  # it serves the old ranker, and does not answer: another will take its place
                late.process.kill()
            self._answer(swap.asked, "swapped", ranker=swap.served.identity)
            shutil.rmtree(swap.before, ignore_errors=True)
            self._swap = None
        if self._asked:
            self._begin_swap(self._asked.popleft())

    def _begin_swap(self, asked: _Asked) -> None:
        try:
            served = replacement(self._folder, self._served, asked.new_features)
            try:
                copy = self._keep_copy(served)
            except (CldrankError, OSError) as error:
                raise swap_refused(f"a copy of it cannot be kept: {reason(error)}.", self._served) from error
        except RequestError as error:
            self._answer(asked, "refused", error=str(error))
            return
        self._swap = _Swap(asked, served, self._copy, set(self._members))
        self._served, self._copy = served, copy
        for member in self._members:
            member.tell(what="swap", folder=str(self._copy))

    def _answer(self, asked: _Asked, outcome: str, **answer: Any) -> None:
        if asked.asker is not None:
            asked.asker.tell(what="answer", number=asked.number, **answer)
        for member in self._members[:1]:  # one counts it; the metrics are those of all together
            member.tell(what="count", outcome=outcome)

    def _stop(self) -> None:
        """Let the workers answer what is in flight; kill those that take longer than they are given."""
        self._socket.close()
        deadline = time.monotonic() + self._settings.stop_timeout + 5
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for member in self._members:
                member.tell(what="stop")
            for member in self._members:
                member.process.join(max(0.0, deadline - time.monotonic()))
        except KeyboardInterrupt:
            logger.warning("stopped again: requests in flight are not waited for")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it will not be long
            for member in self._members:
                member.process.kill()
            for member in self._members:
                member.process.join()
