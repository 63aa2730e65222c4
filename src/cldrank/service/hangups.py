"""Hangups (SIGHUP), which ask for a reload: those that come before the service can hear them wait."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_KNOWN = hasattr(signal, "SIGHUP")  # Windows has none


@contextmanager
def hangups_held() -> Iterator[None]:
    """Let hangups wait, so that none ends a service that is just starting; `take_hangups` lets them through."""
    if not _KNOWN:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def take_hangups() -> None:
    """Let hangups through, one that waits first, now that there is somebody to hear them."""
    if _KNOWN:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
