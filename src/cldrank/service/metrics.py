"""The numbers at `/metrics`, for Prometheus: those of all workers together."""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where the workers keep their numbers; set before the client is imported
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_CANDIDATES = (1, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


class ServiceMetrics:
    """Counts of requests and reloads, times and lengths of rankings, and which ranker is served."""

    def __init__(self) -> None:
        _forget_the_dead()
        own = self._registry = CollectorRegistry()
        self.requests = Counter("cldrank_requests", "Requests answered", ["path", "status"], registry=own)
        self.seconds = Histogram(
            "cldrank_rank_seconds", "Time from the body read to the answer written", buckets=_SECONDS, registry=own
        )
        self.candidates = Histogram(
            "cldrank_rank_candidates", "Candidates in a request", buckets=_CANDIDATES, registry=own
        )
        self.reloads = Counter("cldrank_reloads", "Rankers swapped in, or refused", ["outcome"], registry=own)
        self.unlike_training = Counter(
            "cldrank_unlike_training",
            "Times that a feature was far from its range in training, judged every 1,000 rows",
            ["feature"],
            registry=own,
        )
        self.ranker_workers = Gauge(
            "cldrank_ranker_workers",
            "Workers that serve this ranker",
            ["kind", "fingerprint"],
            multiprocess_mode="livesum",
            registry=own,
        )

    def text(self) -> bytes:
        """All numbers, in Prometheus' text format."""
        registry = self._registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _forget_the_dead() -> None:
    """Leave workers that were killed out of the gauges."""
    for file in Path(os.environ.get(SHARED_FOLDER, os.devnull)).glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]
