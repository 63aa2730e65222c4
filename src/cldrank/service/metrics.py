"""What `/metrics` tells: numbers for Prometheus, those of all workers together."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where the workers keep their numbers; set before the client is imported
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_CANDIDATES = (1, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


class ServiceMetrics:
    """Counts of requests and reloads, times and lengths of rankings, and which ranker is served."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("cldrank_requests", "Requests answered", ["path", "status"], registry=own)
        self.seconds = Histogram(
            "cldrank_rank_seconds", "Time from the body read to the answer written", buckets=_SECONDS, registry=own
        )
        self.candidates = Histogram(
            "cldrank_rank_candidates", "Candidates in a request", buckets=_CANDIDATES, registry=own
        )
        self.reloads = Counter("cldrank_reloads", "Rankers swapped in, or refused", ["outcome"], registry=own)
        self.rankers = Gauge(
            "cldrank_ranker_workers",
            "Workers that serve this ranker",
            ["kind", "fingerprint"],
            multiprocess_mode="livesum",
            registry=own,
        )

    def serves(self, identity: dict[str, str], *, yes: bool) -> None:
        """Note that this worker serves a ranker, or does so no longer."""
        self.rankers.labels(**identity).set(int(yes))

    def text(self) -> bytes:
        """All numbers, in Prometheus' text format."""
        registry = self.registry
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
