"""Verdicts on logs of a small world whose truth is known: intervals hold it, and verdicts are seldom wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judged_logs import FIELDS, Setting, judged, truth_of

LOGS = 30
PAIRS = ("better", "level", "level with production")
SETTING = Setting("small", "same", "one", "true", 10_000, pairs=PAIRS)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> dict[str, list[dict[str, Any]]]:
    """What was said about each pair, log by log."""
    records = [judged((SETTING, seed)) for seed in range(LOGS)]
    return {pair: [record["pairs"][pair] for record in records] for pair in PAIRS}


def test_intervals_hold_the_truth(found: dict[str, list[dict[str, Any]]]) -> None:
    measure, truth = "DCG@5", truth_of("small", "same", "one")
    low, high = FIELDS.index("low"), FIELDS.index("high")
    held = [
        one["measures"][measure][low] <= truth[pair][measure] <= one["measures"][measure][high]
        for pair, records in found.items()
        for one in records
    ]
    assert np.mean(held) >= 0.8


def test_a_ranker_that_is_level_is_seldom_called_better(found: dict[str, list[dict[str, Any]]]) -> None:
    said = [one["decision"] for pair in ("level", "level with production") for one in found[pair]]
    assert np.mean([decision == "better" for decision in said]) <= 0.1


def test_a_better_ranker_is_mostly_called_better_and_never_worse(found: dict[str, list[dict[str, Any]]]) -> None:
    said = [one["decision"] for one in found["better"]]
    assert said.count("better") > LOGS / 2
    assert "worse" not in said
