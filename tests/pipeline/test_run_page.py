from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cldrank.pipeline import RunRecord
from cldrank.pipeline.run_page import render_run


def test_the_page_shows_every_step(ran: Path, record: RunRecord) -> None:
    page = render_run(record)
    for step in record.steps:
        assert step.name in page
    assert "The ranker is shipped." in page
    reused = tuple(replace(step, state="reused") for step in record.steps)
    assert "Nothing has changed" in render_run(replace(record, steps=reused))
    assert page == (ran / "runs" / record.name / "run.html").read_text(encoding="utf-8")


def test_links_lead_to_what_steps_wrote(ran: Path, record: RunRecord) -> None:
    links = re.findall(r'href="(../steps/[^"]*)"', render_run(record))
    assert any("verdict.html" in link for link in links)
    assert all((ran / "runs" / record.name / link).is_file() for link in links)


@pytest.mark.parametrize(("status", "words"), [("failed", "run failed"), ("interrupted", "was interrupted")])
def test_every_end_has_its_words(record: RunRecord, status: Any, words: str) -> None:
    assert words in render_run(replace(record, status=status, reason="because"))


def test_a_gate_that_stopped_is_named(record: RunRecord) -> None:
    verdict: Any = record.step("verdict")
    stopped = replace(record.with_step(replace(verdict, stop="worse")), status="stopped", reason="worse")
    page = render_run(stopped)
    assert "The run was stopped by its verdict step; production stays as it is." in page
