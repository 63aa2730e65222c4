"""examples/ask_for_ratings.py, completed with a stand-in for a model."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "ask_for_ratings.py"


@pytest.fixture
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "to-rate.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("query_id", "query_text", "doc_id", "doc_text"))
        rows.writerows([(1, "shoes", 7, "red shoes, {size 39}"), (1, "shoes", 8, "hats"), (1, "shoes", 7, "red shoes")])
    return path


def test_each_pair_is_rated_once_and_a_second_run_goes_on(script: dict[str, Any], pairs: Path) -> None:
    target, asked = pairs.with_name("ratings.csv"), []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        if len(asked) == 2:
            raise ConnectionError("the line is down")
        return "Number: 3" if "red shoes" in prompt else "I would say 0."

    with pytest.raises(ConnectionError):
        script["rate"](pairs, target, "m", answer)
    assert script["rate"](pairs, target, "m", answer) == (1, 0)
    assert script["rate"](pairs, target, "m", answer) == (0, 0)
    lines = [line.split(",") for line in target.read_text().splitlines()]
    assert lines == [["query_id", "doc_id", "rating", "rater"], ["1", "7", "3", "m"], ["1", "8", "0", "m"]]
    assert len(asked) == 3


def test_answers_without_a_rating_are_counted_and_asked_again(script: dict[str, Any], pairs: Path) -> None:
    target = pairs.with_name("ratings.csv")
    assert script["rate"](pairs, target, "m", lambda _: "no idea, 17 perhaps") == (0, 2)
    assert script["rate"](pairs, target, "m", lambda _: "2") == (2, 0)


def test_the_cost_is_that_of_the_prompts(
    script: dict[str, Any], pairs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(pairs), str(pairs.with_name("r.csv")), "--cost", "--input-price", "1e6", "--characters-per-token", "1"]
    monkeypatch.setattr(sys, "argv", ["ask_for_ratings.py", *words])
    script["main"]()
    sent = sum(len(script["PROMPT"].format(query="shoes", document=text)) for text in ("red shoes, {size 39}", "hats"))
    assert capsys.readouterr().out.startswith(
        f"2 pairs, about {sent:,} tokens to send and 4 to be answered: {sent:,}.00"
    )


def test_nothing_is_asked_before_the_script_is_completed(script: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match="ask"):
        script["ask"]("?")
