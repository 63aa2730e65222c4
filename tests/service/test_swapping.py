from __future__ import annotations

import asyncio
import shutil
import threading
import time
from pathlib import Path

import made_rankers
import pytest

from cldrank.service import swapping
from cldrank.service.metrics import ServiceMetrics
from cldrank.service.served import ServedRanker
from cldrank.service.swapping import RankerInUse, ReloaderHere, replacement


def test_hangups_that_come_while_one_waits_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    served, loads, go_on = ServedRanker(made_rankers.linear()), list[str](), threading.Event()

    def load(*_: object) -> ServedRanker:
        loads.append("load")
        go_on.wait(10)
        return served

    monkeypatch.setattr(swapping, "replacement", load)

    async def storm() -> None:
        reloader = ReloaderHere("folder", RankerInUse(served, ServiceMetrics()))
        first = asyncio.create_task(reloader.hang_up())
        while not loads:
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(reloader.hang_up()) for _ in range(50)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, *others)

    asyncio.run(storm())
    assert len(loads) == 2  # the one under way may have read the folder too early; one more has not


def test_a_folder_that_is_just_being_replaced_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = ServedRanker(made_rankers.linear()), made_rankers.voter(1.0, -2.0, 0.5, 0.0)
    old.ranker.save(tmp_path / "ranker")
    new.save(tmp_path / "new")
    shutil.copy(tmp_path / "new" / "weights.safetensors", tmp_path / "ranker")  # half of it

    def meanwhile(_: float) -> None:
        shutil.copy(tmp_path / "new" / "ranker.json", tmp_path / "ranker")

    monkeypatch.setattr(time, "sleep", meanwhile)
    assert replacement(tmp_path / "ranker", old, False).identity == ServedRanker(new).identity
