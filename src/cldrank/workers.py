"""Threads that work ahead, and how many there should be."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def fair_threads(most: int) -> int:
    """At most this many threads, or fewer if OMP_NUM_THREADS says so, as where processes share a machine."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(most, int(limit)) if limit.isdecimal() and int(limit) else most


def ahead(function: Callable[[Item], Result], items: Iterable[Item], threads: int, most: int) -> Iterator[Result]:
    """The results of a function for all items, in order, computed in threads up to `most` items ahead."""
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
