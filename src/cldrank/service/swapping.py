"""The ranker in use, and how another takes its place: whoever serves watches the folder."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cldrank.errors import CldrankError
from cldrank.reading import reason
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.requests import RequestError
from cldrank.service.served import ServedRanker, load_served
from cldrank.wording import some

logger = logging.getLogger("cldrank.service")
_PERIOD = 1.0  # seconds between two looks at the folder
_PAUSE = 0.2  # seconds before a folder that could not be loaded is tried once more


class RankerInUse:
    """The ranker that answers the next request; a request keeps the one that it began with.

    kept   a folder with a copy of the last ranker in use, for workers that start when `folder` is broken; or None
    """

    def __init__(self, folder: Path, kept: Path | None, max_candidates: int) -> None:
        self._folder, self._kept, self._max_candidates = folder, kept, max_candidates
        self._lock = asyncio.Lock()
        self.metrics = ServiceMetrics()
        self._seen = _signature(folder)
        try:
            self.served = load_served(folder, max_candidates)
        except CldrankError:
            if kept is None:
                raise
            self.served = load_served(kept, max_candidates)
        self.metrics.serves(self.served.identity, yes=True)

    async def reload(self) -> dict[str, str]:
        """Swap in the ranker that now lies in the folder; `RequestError` if the old one stays."""
        async with self._lock:
            self._seen = _signature(self._folder)
            try:
                served = await self._replacement()
            except RequestError as error:
                logger.error("reload refused, %s stays: %s", self.served.identity["fingerprint"], error)
                self.metrics.reloaded("refused")
                raise
            if served.identity != self.served.identity:
                logger.info("swapping in %s from %s", served.identity, self._folder)
                self.metrics.serves(self.served.identity, yes=False)
                self.served = served
                self.metrics.serves(served.identity, yes=True)
            self.metrics.reloaded("swapped")
            return served.identity

    async def watch(self, gone: Callable[[], bool] = lambda: False) -> None:
        """Reload whenever files of the folder have changed; stop the process once `gone` says so."""
        while not gone():
            await asyncio.sleep(_PERIOD)
            if _signature(self._folder) != self._seen:
                with suppress(RequestError):  # logged
                    await self.reload()
        os.kill(os.getpid(), signal.SIGTERM)

    async def _replacement(self) -> ServedRanker:
        old = self.served.ranker.feature_names
        try:
            try:
                served = await asyncio.to_thread(load_served, self._folder, self._max_candidates)
            except Exception:  # perhaps the folder is being replaced: one file was the old one, another the new
                await asyncio.sleep(_PAUSE)
                served = await asyncio.to_thread(load_served, self._folder, self._max_candidates)
            if served.ranker.feature_names == old and self._kept is not None:
                await asyncio.to_thread(served.ranker.save, self._kept)
        except Exception as error:  # whatever is wrong with the folder, the service goes on
            why = str(error) if isinstance(error, CldrankError) else f"{type(error).__name__}: {reason(error)}"
            raise RequestError(why, status=409) from error
        new = served.ranker.feature_names
        if new != old:
            changes = {"new": sorted({*new} - {*old}), "gone": sorted({*old} - {*new})}
            told = "; ".join(f"{word}: {some(names, 5)}" for word, names in changes.items() if names)
            raise RequestError(
                f"{self._folder.name} has other features than the ranker in use ({told or 'another order'}), so "
                "clients would fail; restart the service to use it.",
                status=409,
            )
        return served


def _signature(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Names, sizes and times of the files of a folder: another if it was replaced."""
    try:
        described = [(entry.name, entry.stat()) for entry in os.scandir(folder)]
    except OSError:
        return ()
    return tuple(sorted((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in described))
