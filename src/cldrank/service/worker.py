"""One of several workers: serves on the socket that all share, and hears from the supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from typing import Any

import orjson
from threadpoolctl import threadpool_limits

from cldrank.service.app import make_app
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.one_process import QuietServer, log_to_stderr, run_loop
from cldrank.service.request_error import RequestError
from cldrank.service.served import ServedRanker, load_served
from cldrank.service.settings import ServiceSettings
from cldrank.service.swapping import RankerInUse


def work_for(connection: Connection, listening: socket.socket, folder: str, settings: ServiceSettings) -> None:
    """What the process of a worker does."""
    log_to_stderr()
    worker = ServiceWorker(connection, load_served(folder))
    with threadpool_limits(1):
        run_loop(lambda: worker.serve(listening, settings))
    sys.stderr.flush()
    os._exit(0)  # a ranker that is just being loaded must not hold up the end


class ServiceWorker:
    """The server of one worker, and what it and the supervisor tell each other."""

    def __init__(self, connection: Connection, served: ServedRanker) -> None:
        self._connection = connection
        self._in_use = RankerInUse(served, ServiceMetrics())
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, listening: socket.socket, settings: ServiceSettings) -> None:
        """Serve until the supervisor says stop, or is gone."""
        app = make_app(self._in_use, settings, self)
        self._server = QuietServer(app, settings, lambda: self._tell(what="ready"))
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection.fileno(), self._hear)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        await self._server.serve([listening])

    async def reload(self, *, new_features: bool) -> dict[str, str]:
        """Ask the supervisor, who lets all workers swap; answered once all have."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        self._tell(what="reload", number=self._number, new_features=new_features)
        found = await answer
        if "error" in found:
            raise RequestError(found["error"], status=409)
        return dict(found["ranker"])

    def _tell(self, **message: Any) -> None:
        try:
            self._connection.send_bytes(orjson.dumps(message))
        except OSError:
            self._stop()

    def _hear(self) -> None:
        """One message of the supervisor, or its death."""
        loop = asyncio.get_running_loop()
        try:
            message = orjson.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            loop.remove_reader(self._connection.fileno())
            self._stop()
            return
        match message["what"]:
            case "stop":
                self._stop()
            case "count":
                self._in_use.metrics.reloaded(message["outcome"])
            case "answer":
                self._answers.pop(message["number"]).set_result(message)
            case "swap":
                task = loop.create_task(self._take_up(message["folder"]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _take_up(self, folder: str) -> None:
        try:
            served = await asyncio.get_running_loop().run_in_executor(None, load_served, folder)
        except Exception as error:  # the supervisor has tried the ranker: this process must be unwell
            self._tell(what="failed", why=f"{type(error).__name__}: {error}")
        else:
            self._in_use.swap(served)
            self._tell(what="swapped")

    def _stop(self) -> None:
        self._server.should_exit = True
