from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from cldrank.workers import ahead


def test_work_is_done_ahead_but_not_far() -> None:
    started, waits = [0] * 100, threading.Event()

    def work(item: int) -> int:
        started[item] = 1
        if item == 3:
            waits.set()
        return item

    found = ahead(work, range(100), threads=1, most=3)
    assert next(found) == 0
    assert waits.wait(timeout=600)
    assert sum(started) <= 5
    assert list(found) == list(range(1, 100))


def test_an_error_ahead_reaches_the_one_who_waits_and_no_thread_is_left() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise OSError("the disk is gone")
        return item

    before = threading.active_count()
    found: Iterator[int] = ahead(work, range(9), threads=1, most=3)
    with pytest.raises(OSError, match="the disk is gone"):
        list(found)
    assert threading.active_count() == before
