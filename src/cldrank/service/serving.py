"""`serve_ranker`: a ranker behind an address, in one process or in several of uvicorn's workers, until a signal."""

from __future__ import annotations

import errno
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from cldrank.arguments import check_number
from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.reading import reading

MEBIBYTE = 1 << 20
_NEEDED = ("fastapi", "prometheus_client", "uvicorn")
_BACKLOG = 2048
_KEEP_ALIVE = 75  # seconds; longer than proxies keep idle connections, so that it is they who close them
_SHORTEST_TOKEN = 16
_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        "cldrank.service": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}


@dataclass(frozen=True)
class ServiceSettings:
    """What a service accepts.

    max_body         largest body in bytes
    max_candidates   most candidates of a request
    body_timeout     seconds within which a body must have arrived
    stop_timeout     seconds that requests in flight are given when the service is stopped
    token            what `POST /reload` must show; without it, that path is closed
    """

    max_body: int = 32 * MEBIBYTE
    max_candidates: int = 10_000
    body_timeout: float = 10.0
    stop_timeout: float = 30.0
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("body_timeout", "stop_timeout"):
            check_number(name, getattr(self, name), above=0, most=3600)


def serve_ranker(
    folder: str | PathLike[str],
    *,
    against: str | PathLike[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    settings: ServiceSettings | None = None,
    started: Callable[[str, str], None] | None = None,
) -> int:
    """Serve the ranker of a folder until SIGTERM or Ctrl-C; the result is the exit code, 0 or 130.

    against   the folder of another ranker, to interleave with
    port      0 takes any free port
    started   told the address and the ranker once connections are accepted
    """
    for package in _NEEDED:
        if find_spec(package) is None:
            raise MissingDependencyError(f"serving needs {package}: pip install 'cldrank[serve]'.")
    from cldrank.service.metrics import SHARED_FOLDER
    from cldrank.service.served import load_served

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the service has started and reloads at it
    settings = settings or ServiceSettings()
    served = [load_served(path) for path in (folder, against) if path is not None]
    with bound_socket(host, port) as listening, tempfile.TemporaryDirectory(prefix="cldrank-serve-") as shared:
        if started is not None:
            address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
            started(address, " against ".join(repr(one.ranker) for one in served))
        from cldrank.service.app import make_app  # which reads the folder that workers share

        app = partial(make_app, Path(folder), settings, against=None if against is None else Path(against))
        if workers == 1:
            return _serve_here(app, settings, listening)
        os.environ[SHARED_FOLDER] = shared
        return _serve_in_workers(app, settings, listening, workers)


def _config(app: Callable[[], Any], settings: ServiceSettings, workers: int = 1) -> Any:
    import uvicorn

    return uvicorn.Config(
        app,
        factory=True,
        workers=workers,
        ws="none",
        log_config=_LOGGING,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_worker_healthcheck=10,  # seconds; a busy worker is not dead
        timeout_graceful_shutdown=max(1, round(settings.stop_timeout)),
    )


def _serve_here(app: Callable[..., Any], settings: ServiceSettings, listening: socket.socket) -> int:
    import uvicorn

    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it anew once it has stopped, and SIGINT, too
    try:
        uvicorn.Server(_config(app, settings)).run([listening])
    except KeyboardInterrupt:
        return 130
    return 0


def _serve_in_workers(
    app: Callable[..., Any], settings: ServiceSettings, listening: socket.socket, workers: int
) -> int:
    from uvicorn.supervisors import Multiprocess

    class Workers(Multiprocess):
        """uvicorn's supervisor, which remembers Ctrl-C and hands hangups on to its workers."""

        interrupts = 0

        def handle_int(self) -> None:
            self.interrupts += 1
            super().handle_int()

        def handle_hup(self) -> None:
            for pid in filter(None, (process.pid for process in self.processes)):
                os.kill(pid, signal.SIGHUP)

    supervisor = Workers(_config(partial(app, parent=os.getpid()), settings, workers), [listening])
    supervisor.run()
    return 130 if supervisor.interrupts else 0


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; where it cannot, the error says what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError):
        raise UsageError(f"the host {host!r} is not known; name an address of this machine with --host.") from None
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} of {host} is in use; choose another with --port.") from None
        raise CldrankError(
            f"the service cannot listen at {host}:{port}: {error.strerror}; choose another with --host or --port."
        ) from None
    return made


def read_token(file: str | PathLike[str] | None) -> str | None:
    """The token from a file, else from the environment variable CLDRANK_TOKEN; None if there is neither."""
    token, source = os.environ.get("CLDRANK_TOKEN"), "the environment variable CLDRANK_TOKEN"
    if file is not None:
        with reading(file, "a token"):
            token, source = Path(file).read_text(encoding="utf-8").strip(), str(file)
    if token is None:
        return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{source}: a token must be one line of at least {_SHORTEST_TOKEN} letters, digits and signs, no spaces; "
            "`openssl rand -hex 32` prints a good token."
        )
    return token
