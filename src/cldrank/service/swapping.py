"""The ranker in use, and how another takes its place."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from os import PathLike
from typing import Protocol

from cldrank.errors import CldrankError
from cldrank.reading import reason
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.request_error import RequestError
from cldrank.service.served import ServedRanker, load_served
from cldrank.wording import some

logger = logging.getLogger("cldrank.service")
_PAUSE = 0.2  # seconds before a folder that could not be loaded is tried once more


class RankerInUse:
    """The ranker that answers the next request; a request keeps the one that it began with."""

    def __init__(self, served: ServedRanker, metrics: ServiceMetrics) -> None:
        self.served, self.metrics = served, metrics
        metrics.serves(served.identity, yes=True)

    def swap(self, served: ServedRanker) -> None:
        """Let another ranker answer from now on: one assignment, between two requests."""
        self.metrics.serves(self.served.identity, yes=False)
        self.served = served
        self.metrics.serves(served.identity, yes=True)


class Reloader(Protocol):
    """Takes up the ranker that now lies in the folder."""

    async def reload(self, *, new_features: bool) -> dict[str, str]:
        """The identity of the ranker swapped in; `RequestError` where the old one stays."""


class ReloaderHere:
    """Reloads the one process that there is."""

    def __init__(self, folder: str | PathLike[str], in_use: RankerInUse) -> None:
        self._folder, self._in_use, self._lock = folder, in_use, asyncio.Lock()
        self._hung_up = False

    async def reload(self, *, new_features: bool) -> dict[str, str]:
        """Load beside the requests, then swap."""
        async with self._lock:
            return await self._reload(new_features)

    async def hang_up(self) -> None:
        """Reload for a signal; one that waits already is enough."""
        if self._hung_up:
            return
        self._hung_up = True
        async with self._lock:
            self._hung_up = False
            with suppress(RequestError):  # it has been logged
                await self._reload(new_features=False)

    async def _reload(self, new_features: bool) -> dict[str, str]:
        loop = asyncio.get_running_loop()
        old, metrics = self._in_use.served, self._in_use.metrics
        try:
            served = await loop.run_in_executor(None, replacement, self._folder, old, new_features)
        except RequestError:
            metrics.reloaded("refused")
            raise
        self._in_use.swap(served)
        metrics.reloaded("swapped")
        return served.identity


def replacement(folder: str | PathLike[str], old: ServedRanker, new_features: bool) -> ServedRanker:
    """The ranker of a folder in place of another; `RequestError`, and logged, where that one must stay."""
    try:
        try:
            served = load_served(folder)
        except Exception:  # the folder is perhaps being replaced: one file was the old one, another the new
            time.sleep(_PAUSE)
            served = load_served(folder)
    except Exception as error:  # whatever is wrong with the folder, the service goes on
        why = error.said("shell") if isinstance(error, CldrankError) else f"{type(error).__name__}: {reason(error)}"
        raise swap_refused(why, old) from error
    if not new_features and served.layout.names != old.layout.names:
        raise swap_refused(
            f"{folder} has other features than the ranker in use ({_difference(old, served)}), so clients would fail. "
            "To swap it in all the same, call POST /reload?new_features=true, or restart.",
            old,
        )
    logger.info("swapping in %s %s from %s", served.identity["kind"], served.identity["fingerprint"], folder)
    return served


def swap_refused(why: str, old: ServedRanker) -> RequestError:
    """Log that the old ranker stays; the error to raise."""
    logger.error("reload refused, %s stays: %s", old.identity["fingerprint"], why)
    return RequestError(why, status=409)


def _difference(old: ServedRanker, new: ServedRanker) -> str:
    before, after = set(old.layout.names), set(new.layout.names)
    parts = {"new": sorted(after - before), "gone": sorted(before - after)}
    return "; ".join(f"{word}: {some(names, 5)}" for word, names in parts.items() if names) or "another order"
