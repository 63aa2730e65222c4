from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from cldrank.workers import ahead


def test_work_is_done_ahead_but_not_far() -> None:
    started: list[int] = []

    def work(item: int) -> int:
        started.append(item)
        return item

    found = ahead(work, range(100), threads=1, most=3)
    assert next(found) == 0
    time.sleep(0.05)
    assert len(started) <= 5
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
