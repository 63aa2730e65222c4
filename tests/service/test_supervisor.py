"""What the supervisor does when a swap, or a worker, cannot be had; with workers that only note what they are told."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import made_rankers
import pytest

from cldrank.errors import CldrankError
from cldrank.service.served import ServedRanker
from cldrank.service.settings import ServiceSettings
from cldrank.service.supervisor import Supervisor, _Asked

OLD, NEW = made_rankers.linear(), made_rankers.voter(1.0, -2.0, 0.5, 0.0)


class Noting:
    """A worker that notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def tell(self, **message: Any) -> None:
        self.heard.append(message)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    """One with two workers, which serves OLD while NEW lies in the folder."""
    NEW.save(tmp_path / "ranker")
    (tmp_path / "own").mkdir()
    with socket.socket() as listening:
        made = Supervisor(tmp_path / "ranker", ServedRanker(OLD), listening, ServiceSettings(), 2)
        made._own = tmp_path / "own"
        made._copy = made._keep_copy(made._served)
        made._members = [Noting(), Noting()]  # type: ignore[list-item]
        yield made


def asked_by(supervisor: Supervisor) -> tuple[_Asked, list[dict[str, Any]]]:
    member: Any = supervisor._members[0]
    return _Asked(asker=member, number=7), member.heard


def test_a_swap_hands_on_a_copy_and_removes_the_old_one(supervisor: Supervisor) -> None:
    asked, heard = asked_by(supervisor)
    supervisor._asked.append(asked)
    supervisor._go_on_swapping()
    before, after = supervisor._own / "ranker-1", supervisor._own / "ranker-2"
    assert heard == [{"what": "swap", "folder": str(after)}]
    supervisor._go_on_swapping()
    assert len(heard) == 1  # both have yet to swap
    assert before.exists()
    assert supervisor._swap is not None
    supervisor._swap.waiting.clear()
    supervisor._go_on_swapping()
    assert [one["what"] for one in heard] == ["swap", "answer", "count"]
    assert (before.exists(), after.exists()) == (False, True)


def test_a_copy_that_cannot_be_kept_is_refused_and_the_old_ranker_stays(supervisor: Supervisor, tmp_path: Path) -> None:
    copy, served, supervisor._own = supervisor._copy, supervisor._served, tmp_path / "file"
    supervisor._own.write_text("saving below a file fails, as on a full disk")
    asked, heard = asked_by(supervisor)
    supervisor._begin_swap(asked)
    assert [one["what"] for one in heard] == ["answer", "count"]
    assert "a copy of it cannot be kept" in heard[0]["error"]
    assert heard[1]["outcome"] == "refused"
    assert (supervisor._copy, supervisor._served, supervisor._swap) == (copy, served, None)


def test_a_worker_that_cannot_be_started_is_tried_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_memory() -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(supervisor, "_start", no_memory)
    supervisor._starts = [0.0, time.monotonic() + 1000]
    supervisor._start_due()
    assert "a worker cannot be started" in caplog.text
    assert len(supervisor._starts) == 2
    assert min(supervisor._starts) > time.monotonic()
    with pytest.raises(CldrankError, match="a worker cannot be started: .*Cannot allocate memory"):
        supervisor._start_all()  # at the beginning, there is nothing to go on with


def test_one_reload_by_signal_that_waits_is_enough(supervisor: Supervisor) -> None:
    supervisor._asked.append(asked_by(supervisor)[0])
    for _ in range(100):
        supervisor._hang_up()
    assert [one.number for one in supervisor._asked] == [7, 0]
