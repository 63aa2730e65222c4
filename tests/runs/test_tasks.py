from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cldrank.errors import CldrankWarning, DataError, warn
from cldrank.runs import Outcome, Store, Task


def square(folder: Path) -> Outcome:
    (folder / "square.txt").write_text("49")
    (folder / "parts").mkdir()
    (folder / "parts" / "root.txt").write_text("7")
    warn(CldrankWarning("seven is odd"))
    return Outcome("49 it is", {"square": 49})


TASK = Task("square", {"number": "a1b2"}, {"of": 7}, square)


@pytest.mark.parametrize(
    "change", [{"inputs": {"number": "c3d4"}}, {"parameters": {"of": 8}}, {"name": "cube"}, {"packages": ("numpy",)}]
)
def test_whatever_decides_a_result_is_in_the_key(change: dict[str, Any]) -> None:
    assert replace(TASK, **change).key != TASK.key
    assert replace(TASK, function=lambda _: Outcome()).key == TASK.key


def test_a_result_is_kept_with_what_decided_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "tasks")
    assert store.find(TASK.name, TASK.key) is None
    record = store.carry_out(TASK)
    assert (record.state, record.decided, record.facts) == ("done", "49 it is", {"square": 49})
    assert record.warnings == ["seven is odd"]
    assert record.wrote.keys() == {"square.txt", "parts/root.txt"}
    assert record.hash_of("parts") != record.hash_of("square.txt") == record.wrote["square.txt"]
    again = store.find(TASK.name, TASK.key)
    assert again == replace(record, state="reused")


@pytest.mark.parametrize("damaged", ["record.json", "square.txt", "parts/root.txt"])
def test_a_damaged_result_is_none(tmp_path: Path, damaged: str) -> None:
    store = Store(tmp_path)
    store.carry_out(TASK)
    (tmp_path / TASK.folder / damaged).write_text("[]")
    assert store.find(TASK.name, TASK.key) is None
    store.carry_out(TASK)
    assert store.find(TASK.name, TASK.key) is not None


def test_what_fails_leaves_nothing_and_what_is_kept_as_failed_is_told(tmp_path: Path) -> None:
    def fails(_: Path) -> Outcome:
        raise DataError("no number")

    def changed() -> None:
        raise DataError("the number was changed meanwhile")

    store = Store(tmp_path / "tasks")
    with pytest.raises(DataError, match="no number"):
        store.carry_out(replace(TASK, function=fails))
    with pytest.raises(DataError, match="meanwhile"):
        store.carry_out(TASK, check=changed)
    assert list((tmp_path / "tasks").iterdir()) == []
    store.carry_out(replace(TASK, function=lambda _: Outcome(error="the process died")))
    record = store.find(TASK.name, TASK.key)
    assert record is not None
    assert (record.state, record.error) == ("failed", "the process died")


def test_results_that_nobody_needs_are_removed(tmp_path: Path) -> None:
    store, other = Store(tmp_path), replace(TASK, parameters={"of": 8})
    for task in (TASK, other):
        store.carry_out(task)
    (tmp_path / "mine").mkdir()  # not a result
    store.forget_others({other.folder})
    assert {folder.name for folder in tmp_path.iterdir()} == {other.folder, "mine"}
    assert json.loads((tmp_path / other.folder / "record.json").read_text())["parameters"] == {"of": 8}
