from __future__ import annotations

import pytest

from cldrank.experiment import forecast


def test_how_many_at_once() -> None:
    assert forecast.parallel(10, 1 << 30, jobs=3, memory=100 << 30)[0] == 3
    assert forecast.parallel(10, 4 << 30, jobs=3, memory=9 << 30)[0] == 2
    assert forecast.parallel(10, 4 << 30, jobs=3, memory=1 << 30)[0] == 1


def test_threads_follow_from_the_call_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "available_cores", lambda: 8)
    assert forecast.parallel(10, 1) == (8, 1)
    assert forecast.parallel(1, 1) == (1, 1)  # what is left of an interrupted run is computed as the rest was
    assert forecast.parallel(10, 4 << 30, memory=9 << 30) == (2, 1)
    assert forecast.parallel(10, 1, jobs=2) == (2, 4)
