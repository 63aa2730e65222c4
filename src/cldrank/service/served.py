"""The ranker in use: it is tried, answers requests, and is swapped when its folder changes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cldrank.errors import CldrankError, DataError
from cldrank.online.interleaving import rows_best_first
from cldrank.rankers import GroupRanker, Ranker, TreeRanker, load_ranker, ranker_fingerprint
from cldrank.rankers.ranges import RangeWatch
from cldrank.reading import reason
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.requests import RankRequest, RequestError, RequestReader
from cldrank.wording import some

logger = logging.getLogger("cldrank.service")
_PERIOD = 1.0  # seconds between two looks at the folder
_PAUSE = 0.2  # seconds before a folder that could not be loaded is tried once more
_LOOKED_AT = 25  # about how many rows are compared with the training data, of every tenth request
_JUDGED = 1000  # rows, before features are judged by them
_QUIET = 3600.0  # seconds between two warnings of features


class ServedRanker:
    """A ranker with its identity and the reader of its requests."""

    def __init__(self, ranker: Ranker, max_candidates: int = 10_000) -> None:
        self.ranker = ranker
        self.reader = RequestReader(ranker.feature_names, ranker.takes_missing, max_candidates)
        self.identity = {"kind": ranker.kind, "fingerprint": ranker_fingerprint(ranker)}
        self.watch = RangeWatch(ranker.feature_names, ranker.ranges)
        self._requests = 0

    def scores(self, table: NDArray[np.float32]) -> NDArray[np.float64]:
        """The scores of some candidates; now and then their features are looked at, too."""
        try:
            scores = self.ranker.score_rows(table) if len(table) else np.empty(0)
        except DataError as error:
            raise RequestError(str(error)) from None
        self._requests += 1
        if self._requests % 10 == 0:
            self.watch.look(table, _LOOKED_AT)
        return scores

    def answer(self, request: RankRequest) -> bytes:
        """An object with the candidates, best first, cut to the top; ties are broken as everywhere in cldrank."""
        scores = self.scores(request.table)
        order = rows_best_first(scores)[: request.top]
        ranked = [
            {"id": request.ids[row], "score": score, "rank": rank}
            for rank, (row, score) in enumerate(zip(order.tolist(), scores[order].tolist(), strict=True), 1)
        ]
        return msgspec.json.encode({"query_id": request.query_id, "ranker": self.identity, "ranked": ranked})

    @cached_property
    def description(self) -> dict[str, Any]:
        """The answer to `GET /ranker`: without the command, which names private files."""
        ranker = self.ranker
        return {
            **self.identity,
            "features": list(ranker.feature_names),
            "takes_missing": ranker.takes_missing,
            "provenance": {key: value for key, value in ranker.provenance.as_dict().items() if key != "command"},
            "summary": repr(ranker),
        }


def load_served(folder: str | PathLike[str], max_candidates: int = 10_000) -> ServedRanker:
    """The ranker of a folder, after it has scored a probe; refused where it cannot be served."""
    path = Path(folder)
    served = ServedRanker(load_ranker(path), max_candidates)
    _use_one_thread(served.ranker)
    width = len(served.ranker.feature_names)
    probe = np.stack([np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)])
    try:
        served.ranker.score_rows(probe)
    except DataError as error:
        raise DataError(f"{path} cannot score a row of zeros and a row of ones: {error}") from None
    return served


def _use_one_thread(ranker: Ranker) -> None:
    """Score in the thread of the request: a list is too short to share out, and other workers need the cores."""
    if isinstance(ranker, TreeRanker):
        ranker.booster.set_param({"nthread": 1})
    for member in ranker.members if isinstance(ranker, GroupRanker) else ():
        _use_one_thread(member)


# -- the ranker in use ---------------------------------------------------------------------------------------------


class RankerInUse:
    """The ranker that answers the next request; a request keeps the ranker that it began with."""

    def __init__(self, folder: Path, max_candidates: int, metrics: ServiceMetrics) -> None:
        self._folder, self._max_candidates, self.metrics = folder, max_candidates, metrics
        self._lock = asyncio.Lock()
        self._quiet_until = 0.0
        self._seen = _signature(folder)
        self.served = load_served(folder, max_candidates)
        self.metrics.ranker_workers.labels(**self.served.identity).inc()

    async def reload(self) -> dict[str, str]:
        """Swap in the ranker that now lies in the folder; `RequestError` if the old one stays."""
        async with self._lock:
            self._seen = _signature(self._folder)
            try:
                served = await self._replacement()
            except RequestError as error:
                fingerprint = self.served.identity["fingerprint"]
                logger.error("reload of %s refused, %s stays: %s", self._folder, fingerprint, error)
                self.metrics.reloads.labels("refused").inc()
                raise
            if served.identity != self.served.identity:
                logger.info("swapping in %s from %s", served.identity, self._folder)
                self.metrics.ranker_workers.labels(**self.served.identity).dec()
                self.served = served
                self.metrics.ranker_workers.labels(**served.identity).inc()
            self.metrics.reloads.labels("swapped").inc()
            return served.identity

    def judge_features(self) -> None:
        """Count, and now and then log, features of the last requests that are unlike those of the training data."""
        watch = self.served.watch
        if watch.rows < _JUDGED:
            return
        differences = watch.differences(narrow=False)
        watch.forget()
        for name in differences:
            self.metrics.unlike_training.labels(name).inc()
        if differences and time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + _QUIET
            logger.warning("%s", "; ".join(differences.values()))

    @property
    def changed(self) -> bool:
        """Whether files of the folder have changed."""
        return _signature(self._folder) != self._seen

    async def _replacement(self) -> ServedRanker:
        old = self.served.ranker.feature_names
        try:
            try:
                served = await asyncio.to_thread(load_served, self._folder, self._max_candidates)
            except Exception:  # perhaps the folder is being replaced: some files were old, others new
                await asyncio.sleep(_PAUSE)
                served = await asyncio.to_thread(load_served, self._folder, self._max_candidates)
        except Exception as error:  # whatever is wrong with the folder, the service goes on
            why = str(error) if isinstance(error, CldrankError) else f"{type(error).__name__}: {reason(error)}"
            for place in (self._folder.resolve(), self._folder):
                why = why.replace(str(place), place.name)  # where it lies is nobody's business
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


async def watch(rankers: Sequence[RankerInUse], gone: Callable[[], bool] = lambda: False) -> None:
    """Reload all at SIGHUP, and each whenever its folder has changed; stop the process once `gone` says so."""
    hangup = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
    while not gone():
        with suppress(TimeoutError):
            await asyncio.wait_for(hangup.wait(), _PERIOD)
        reloaded = [ranker for ranker in rankers if hangup.is_set() or ranker.changed]
        hangup.clear()
        for ranker in reloaded:
            with suppress(RequestError):  # logged
                await ranker.reload()
    os.kill(os.getpid(), signal.SIGTERM)


def _signature(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Names, sizes and times of the files of a folder: another if it was replaced."""
    try:
        described = [(entry.name, entry.stat()) for entry in os.scandir(folder)]
    except OSError:
        return ()
    return tuple(sorted((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in described))
