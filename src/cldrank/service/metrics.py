"""What `/metrics` tells: numbers for Prometheus, those of all workers together."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from cldrank.service.requests import RequestError

logger = logging.getLogger("cldrank.service")
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where the workers keep their numbers; set before the client is imported
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_CANDIDATES = (1, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


class ServiceMetrics:
    """Counts of requests and reloads, times and lengths of rankings, and which ranker is served."""

    def __init__(self) -> None:
        _forget_the_dead()
        own = self._registry = CollectorRegistry()
        self._requests = Counter("cldrank_requests", "Requests answered", ["path", "status"], registry=own)
        self._seconds = Histogram(
            "cldrank_rank_seconds", "Time from the body read to the answer written", buckets=_SECONDS, registry=own
        )
        self._candidates = Histogram(
            "cldrank_rank_candidates", "Candidates in a request", buckets=_CANDIDATES, registry=own
        )
        self._reloads = Counter("cldrank_reloads", "Rankers swapped in, or refused", ["outcome"], registry=own)
        self._unlike = Counter(
            "cldrank_unlike_training",
            "Times that a feature was far from its range in training, judged every 1,000 rows",
            ["feature"],
            registry=own,
        )
        self._rankers = Gauge(
            "cldrank_ranker_workers",
            "Workers that serve this ranker",
            ["kind", "fingerprint"],
            multiprocess_mode="livesum",
            registry=own,
        )

    def answered(self, path: str, status: int) -> None:
        """Note a request."""
        with _told():
            self._requests.labels(path, status).inc()

    def ranked(self, seconds: float, candidates: int) -> None:
        """Note how long a ranking took, and of how many."""
        with _told():
            self._seconds.observe(seconds)
            self._candidates.observe(candidates)

    def reloaded(self, outcome: str) -> None:
        """Note a ranker that was swapped in, or refused."""
        with _told():
            self._reloads.labels(outcome).inc()

    def unlike_training(self, feature: str) -> None:
        """Note a feature that is unlike what it was in training."""
        with _told():
            self._unlike.labels(feature).inc()

    def serves(self, identity: dict[str, str], *, yes: bool) -> None:
        """Note that this worker serves a ranker, or does so no longer."""
        with _told():
            self._rankers.labels(**identity).set(int(yes))

    def text(self) -> bytes:
        """All numbers, in Prometheus' text format; `RequestError` where the folder that workers share is gone."""
        registry = self._registry
        if SHARED_FOLDER not in os.environ:
            return generate_latest(registry)
        try:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
            return generate_latest(registry)
        except (OSError, ValueError) as error:
            logger.error("the metrics cannot be read: %s", error)
            raise RequestError("the metrics cannot be read; the log of the service says more.", status=503) from None


def _forget_the_dead() -> None:
    """Leave workers that were killed out of the gauges."""
    for file in Path(os.environ.get(SHARED_FOLDER, os.devnull)).glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


@contextmanager
def _told() -> Iterator[None]:
    """Numbers that cannot be noted are logged; no request fails for them."""
    try:
        yield
    except Exception as error:
        logger.error("the metrics cannot be kept: %s: %s", type(error).__name__, error)
