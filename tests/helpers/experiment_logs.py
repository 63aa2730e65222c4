"""Small logs of experiments, and what they say, computed page by page in plain Python."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from cldrank.online import interleave

Row = dict[str, Any]


def interleaved_rows(pages: int = 300, people: int = 60, depth: int = 4, seed: int = 0, lift: float = 0.3) -> list[Row]:
    """Interleaved pages of two random orders; results of new's team are clicked more often, by `lift`."""
    random = np.random.default_rng(seed)
    rows = []
    for page in range(pages):
        person = int(people * random.random() ** 2)
        new, old = (random.permutation(8).tolist() for _ in range(2))
        old = list(dict.fromkeys([*new[: int(random.integers(0, 3))], *old]))
        draft = interleave(new, old, depth, (page, seed))
        day = np.datetime64("2026-03-01", "us") + np.timedelta64(page * 10 // pages, "D")
        for record in draft.records():
            chance = (0.3 + lift * (record["team"] == "new")) / record["position"]
            rows.append(
                {
                    "session_id": page, "query_id": f"q{person % 5}", "user_id": f"u{person}",
                    "timestamp": day.item(), "clicked": int(random.random() < chance), **record,
                }
            )  # fmt: skip
    return rows


def ab_rows(pages: int = 400, people: int = 80, seed: int = 0, lift: float = 0.2, arms: bool = True) -> list[Row]:
    """Pages of five results; persons click at their own rate, more often in the arm `new`, by `lift`.

    Without arms, it is the log of a month before.
    """
    start = np.datetime64("2026-03-01" if arms else "2026-02-01", "us")
    random, taste = np.random.default_rng(seed), np.random.default_rng(99).random(people)
    rows = []
    for page in range(pages):
        person = int(people * random.random() ** 2)
        arm = ("new", "old")[person % 2]
        day = start + np.timedelta64(page * 10 // pages, "D")
        for position in range(1, 6):
            chance = (taste[person] * 0.6 + lift * (arms and arm == "new")) / position
            row = {
                "session_id": page, "query_id": "q", "user_id": f"u{person}", "timestamp": day.item(),
                "doc_id": position, "position": position, "clicked": int(random.random() < chance),
            }  # fmt: skip
            rows.append({**row, "arm": arm} if arms else row)
    return rows


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def by_person(rows: list[Row], credit: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(persons,) the credit and the pages of each."""
    sums: dict[Any, float] = defaultdict(float)
    pages: dict[Any, set[Any]] = defaultdict(set)
    for row in rows:
        sums[row["user_id"]] += credit(row)
        pages[row["user_id"]].add(row["session_id"])
    return np.array([sums[who] for who in pages]), np.array([len(pages[who]) for who in pages], float)


def ratio(credit: np.ndarray[Any, Any], pages: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The mean per page, and its standard error by persons."""
    mean = credit.sum() / pages.sum()
    n = len(credit)
    return mean, float(np.sqrt(((credit - mean * pages) ** 2).sum() * n / (n - 1)) / pages.sum())
