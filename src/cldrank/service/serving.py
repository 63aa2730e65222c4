"""`serve_ranker`: a ranker behind an address, in one process or in several, until a signal stops it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

from cldrank.errors import CldrankError, MissingDependencyError, UsageError
from cldrank.service.hangups import hangups_held
from cldrank.service.settings import ServiceSettings

_NEEDED = ("fastapi", "uvicorn", "orjson", "prometheus_client")
_BACKLOG = 2048
_SHORTEST_TOKEN = 16


def serve_ranker(
    folder: str | PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    settings: ServiceSettings | None = None,
    started: Callable[[str, str], None] | None = None,
) -> int:
    """Serve the ranker of a folder until SIGTERM or Ctrl-C; the result is the exit code, 0 or 130.

    port      0 takes any that is free
    started   told the address and the ranker once requests are answered
    """
    with hangups_held():
        return _serve(folder, host, port, workers, settings or ServiceSettings(), started)


def _serve(
    folder: str | PathLike[str],
    host: str,
    port: int,
    workers: int,
    settings: ServiceSettings,
    started: Callable[[str, str], None] | None,
) -> int:
    for package in _NEEDED:
        if find_spec(package) is None:
            raise MissingDependencyError(f"serving needs {package}: pip install 'cldrank[serve]'.")
    from cldrank.service.served import load_served

    served = load_served(folder)
    with bound_socket(host, port) as listening:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"

        def ready() -> None:
            if started is not None:
                started(address, repr(served.ranker))

        if workers == 1:
            from cldrank.service.one_process import serve_here

            return serve_here(Path(folder), served, listening, settings, ready)
        from cldrank.service.supervisor import Supervisor

        return Supervisor(Path(folder), served, listening, settings, workers).run(ready)


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; an error that says what to do where that cannot be had."""
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
        raise CldrankError(f"{host}:{port} cannot be listened at: {error.strerror}.") from None
    return made


def read_token(file: str | PathLike[str] | None, variable: str = "CLDRANK_TOKEN") -> str | None:
    """The token from a file or, without one, from an environment variable; None where there is neither."""
    if file is None:
        token, source = os.environ.get(variable), f"the environment variable {variable}"
    else:
        source = str(file)
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise UsageError(f"{file}: the token cannot be read: {why}.") from None
    if token is None:
        return None
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{source}: a token must be one line of at least {_SHORTEST_TOKEN} letters, digits and signs, no spaces; "
            "`openssl rand -hex 32` makes one."
        )
    return token
