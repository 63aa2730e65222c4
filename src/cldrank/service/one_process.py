"""The server inside one process: uvicorn with signals of our own."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from cldrank.service.app import make_app
from cldrank.service.hangups import take_hangups
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.served import ServedRanker
from cldrank.service.settings import ServiceSettings
from cldrank.service.swapping import RankerInUse, ReloaderHere

_KEEP_ALIVE = 75  # seconds; longer than proxies keep idle connections, so that it is they who close them


class QuietServer(uvicorn.Server):
    """uvicorn that leaves signals to its owner."""

    def __init__(self, app: FastAPI, settings: ServiceSettings, ready: Callable[[], None]) -> None:
        self._ready = ready
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=max(1, round(settings.stop_timeout)),
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; what was cancelled since it took too long still gets its answer out."""
        await super().shutdown(sockets)
        if tasks := self.server_state.tasks:
            await asyncio.wait(tasks, timeout=1)
            await asyncio.sleep(0.1)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell that requests are answered."""
        await super().startup(sockets)
        self._ready()


def serve_here(
    folder: Path, served: ServedRanker, listening: socket.socket, settings: ServiceSettings, ready: Callable[[], None]
) -> int:
    """Serve in this process until a signal stops it; the result is the exit code."""
    log_to_stderr()
    stopped_by: list[int] = []

    async def serving() -> None:
        in_use = RankerInUse(served, ServiceMetrics())
        reloader = ReloaderHere(folder, in_use)
        server = QuietServer(make_app(in_use, settings, reloader), settings, ready)
        loop = asyncio.get_running_loop()

        def stop(number: int, _: Any) -> None:
            server.force_exit = bool(stopped_by) and number == signal.SIGINT
            server.should_exit = True
            stopped_by.append(number)

        def hang_up(*_: Any) -> None:
            asyncio.run_coroutine_threadsafe(reloader.hang_up(), loop)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        if hasattr(signal, "SIGHUP"):  # Windows has none
            signal.signal(signal.SIGHUP, hang_up)
            take_hangups()
        await server.serve([listening])

    with threadpool_limits(1):  # of matrix products: a list is too short to share out
        run_loop(serving)
    return 130 if stopped_by[:1] == [signal.SIGINT] else 0


def run_loop(serving: Callable[[], Any]) -> None:
    """Run on the quickest event loop that is installed."""
    factory = uvicorn.Config(app=None, log_config=None).get_loop_factory()  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serving())


def log_to_stderr() -> None:
    """What the service and uvicorn have to tell, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("cldrank.service", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.handlers = [handler]
        logger.propagate = False
