"""Runs commands in forked children, each with a fault of its own, so that hundreds of trials pay for the imports once.

Reads one request per line from standard input and answers with one line each; see `harness`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

CALLS = ("rename", "replace", "fsync", "mkdir", "unlink", "chmod", "rmdir")  # of the module os


def serve() -> None:
    """Answer requests until there are no more."""
    _import_all()
    for line in sys.stdin:
        request = json.loads(line)
        heard, said = os.pipe()  # no limit on the size of files applies to a pipe
        child = os.fork()
        if child == 0:
            _run(request, said)
        os.close(said)
        os.set_blocking(heard, False)
        output = bytearray()
        code = _ended(child, request["seconds"], request["limit"], partial(_listen, heard, output))
        os.close(heard)
        sys.stdout.write(json.dumps({"code": code, "output": output.decode(errors="replace")}) + "\n")
        sys.stdout.flush()


def _import_all() -> None:
    """Import what commands import late, and start no thread: a forked child would miss it."""
    import duckdb
    import numba
    import optuna
    import pyarrow.dataset
    import scipy.stats
    import sklearn.linear_model
    import torch

    import cldrank.cli
    import cldrank.experiment.units
    import cldrank.methods
    import cldrank.tuning.study

    del duckdb, numba, optuna, pyarrow, scipy, sklearn, torch, cldrank


def _listen(heard: int, output: bytearray) -> None:
    try:
        while read := os.read(heard, 1 << 16):
            output += read
    except BlockingIOError:
        pass


def _ended(child: int, seconds: float | None, limit: float, listen: Callable[[], None]) -> int | None:
    """The exit code, negative for a signal; None if the command hung."""
    begin = time.monotonic()
    while True:
        listen()
        found, status = os.waitpid(child, os.WNOHANG)
        passed = time.monotonic() - begin
        if found:
            listen()
            _kill_group(child)  # workers that outlive their parent must not disturb the next trial
            return os.waitstatus_to_exitcode(status)
        if passed > limit:
            _kill_group(child)
            os.waitpid(child, 0)
            return None
        if seconds is not None and passed > seconds:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _run(request: dict[str, Any], said: int) -> None:
    """Be the command, with its fault."""
    from cldrank import cli, host

    os.setsid()
    os.chdir(request["folder"])
    for stream in (1, 2):
        os.dup2(said, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    calls: Counter[str] = Counter()
    for name in CALLS:
        setattr(os, name, _deadly(name, getattr(os, name), calls, request))
    exchanged = (lambda *_: False) if request["two_steps"] else host.exchange
    host.exchange = _deadly("exchange", exchanged, calls, request)
    if request["bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], request["bytes"]))
        if request["deadly"]:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and gets an error instead
    sys.argv = ["cldrank", *request["arguments"]]
    code: Any = 1
    try:
        cli.main()
    except SystemExit as end:
        code = end.code
    finally:
        if request["bytes"] is None:
            Path(request["calls"]).write_text(json.dumps(calls))
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else int(bool(code)))


def _deadly(
    name: str, function: Callable[..., Any], calls: Counter[str], request: dict[str, Any]
) -> Callable[..., Any]:
    """The function, at one call of which the process is killed, just before or just after it acts."""
    process = os.getpid()

    def call(*arguments: Any, **options: Any) -> Any:
        if os.getpid() != process:
            return function(*arguments, **options)
        calls[name] += 1
        here = request["call"] == name and calls[name] == request["number"]
        if here and not request["after"]:
            os.kill(process, signal.SIGKILL)
        result = function(*arguments, **options)
        if here:
            os.kill(process, signal.SIGKILL)
        return result

    return call


if __name__ == "__main__":
    serve()
