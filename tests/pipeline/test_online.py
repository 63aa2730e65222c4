"""The verdict and an experiment decide together, each stated by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from experiment_logs import interleaved_rows, table
from small_pipeline import run

from cldrank.pipeline import RunRecord
from cldrank.pipeline.run_page import render_run
from cldrank.rankers import load_ranker, ranker_fingerprint

ONLINE = ("[export]", '[online]\nfiles = "experiment.parquet"\n[export]')
OPEN = ("trust_propensity = false", "confidence = 0.999999\nmargin = 0.0001")  # so sure it is not


def save_experiment(place: Path, record: RunRecord, *, lift: float, names: tuple[str, ...] = ("{}-0123",)) -> None:
    """The log of an experiment with the ranker of a run."""
    step: Any = record.step("train")
    ranker = ranker_fingerprint(load_ranker(place / "runs" / "steps" / f"train-{step.key}" / "ranker"))
    logs = [
        table([{**row, "experiment": name.format(ranker)} for row in interleaved_rows(pages=600, lift=lift)])
        for name in names
    ]
    pq.write_table(pa.concat_tables(logs), place / "experiment.parquet")


def test_an_experiment_decides_where_the_verdict_is_open(place: Path) -> None:
    stopped = run(place, OPEN)
    assert (stopped.status, stopped.verdict) == ("stopped", "cannot tell")
    page = render_run(stopped)
    assert "What would settle it" in page
    assert "cldrank online analyse LOG --planned" in page
    save_experiment(place, stopped, lift=0.3)
    record = run(place, OPEN, ONLINE)
    assert (record.status, record.states["verdict"], record.states["online"]) == ("shipped", "done", "done")
    online: Any = record.step("online")
    assert online.decided.startswith("offline: cannot tell; online: better")
    assert (place / "runs" / "steps" / f"online-{online.key}" / "online.html").is_file()
    assert '"online": "better"' in (place / "shipped" / "shipped.json").read_text()


@pytest.mark.parametrize(("lift", "word"), [(0.0, "cannot tell"), (-0.29, "worse")])
def test_an_experiment_that_is_open_or_worse_stops(place: Path, lift: float, word: str) -> None:
    save_experiment(place, run(place, OPEN), lift=lift)
    record = run(place, OPEN, ONLINE)
    assert (record.status, record.stopped_by, record.states["online"]) == ("stopped", word, "stopped")


@pytest.mark.parametrize("names", [("another-0123",), ("{}-0123", "{}-4567")])
def test_an_experiment_with_another_ranker_says_nothing(place: Path, names: tuple[str, ...]) -> None:
    save_experiment(place, run(place, OPEN), lift=0.3, names=names)
    record = run(place, OPEN, ONLINE)
    online: Any = record.step("online")
    assert (record.stopped_by, online.facts["decision"]) == ("cannot tell", None)
    assert "online: nothing" in online.decided


def test_what_the_verdict_settles_an_experiment_may_only_object_to(ran: Path, record: RunRecord) -> None:
    assert record.verdict == "better"
    save_experiment(ran, record, lift=0.0)
    assert run(ran, ONLINE).status == "shipped"
    save_experiment(ran, record, lift=-0.29)
    assert run(ran, ONLINE).stopped_by == "worse"
