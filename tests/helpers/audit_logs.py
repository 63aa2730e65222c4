"""Synthetic click logs with known properties, for the tests of the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cldrank.auditing import Audit, Finding

RELEVANCE = np.linspace(0.9, 0.2, 12)


def examination(positions: Any) -> Any:
    return 1 / np.asarray(positions, dtype=float)


@dataclass
class Logs:
    """Makes logs of pages: each page of a query shows `depth` of its documents in an order that `ranker` chooses."""

    folder: Path
    seed: int = 0
    depth: int = 5
    queries: int = 10

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.rows: list[dict[str, Any]] = []
        self.pages = 0

    def add(self, pages: int, ranker: Callable[[int], Any], boost: float = 1.0, **columns: Any) -> Logs:
        """Pages as `ranker` orders them (page number → documents), clicked by position times `boost`."""
        for page in range(self.pages, self.pages + pages):
            documents = np.asarray(ranker(page))[: self.depth]
            rate = np.minimum(boost * RELEVANCE[documents] * examination(np.arange(1, len(documents) + 1)), 1.0)
            clicked = self.rng.random(len(documents)) < rate
            values = {name: value(page) if callable(value) else value for name, value in columns.items()}
            for place, (document, click) in enumerate(zip(documents, clicked, strict=True), start=1):
                self.rows.append(
                    {
                        "session_id": f"s{page}",
                        "query_id": page % self.queries,
                        "doc_id": f"d{document}",
                        "position": place,
                        "clicked": bool(click),
                        **values,
                    }
                )
        self.pages += pages
        return self

    def fixed(self, _: int) -> Any:
        """One ranker that never changes."""
        return np.arange(12)

    def shuffled(self, _: int) -> Any:
        """A random order."""
        return self.rng.permutation(12)

    def two_rankers(self, page: int) -> Any:
        """Two rankers, the second puts every document one place lower."""
        return np.roll(np.arange(12), (page // self.queries) % 2)

    def write(self, name: str = "log.parquet") -> Path:
        path = self.folder / name
        pq.write_table(pa.Table.from_pylist(self.rows), path)
        return path


MakeLogs = Callable[..., Logs]
DAY = 86_400


START = 1_700_006_400  # 2023-11-15 00:00 UTC


def days(unit: int, per_day: int) -> Callable[[int], int]:
    return lambda page: (START + (page // per_day) * DAY + 3600) * unit


def found(result: Audit, topic: str) -> Finding:
    matching = [finding for finding in result.verdict.findings if finding.topic == topic]
    assert matching, f"nothing about {topic} in {[finding.topic for finding in result.verdict.findings]}"
    return matching[0]


def topics(result: Audit) -> set[str]:
    return {finding.topic for finding in result.verdict.findings}
