"""Tests with people, judged by what clicks and purchases are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cldrank.errors import UsageError
from cldrank.online import analyse

WEIGHTS = {"click": 1, "purchase": 10}
NAMES = ("session_id", "query_id", "doc_id", "position", "team", "arm", "new_rank", "old_rank", "clicked", "purchase")


def log(column: str, pages: int = 2000) -> pa.Table:
    """Clicked alike, but what the new ranker shows is bought more often."""
    random = np.random.default_rng(3)
    rows = []
    for page in range(pages):
        sides = ("new", "old") if page % 2 else ("old", "new")
        for position in (1, 2):
            side = sides[position - 1] if column == "team" else sides[0]
            clicked = bool(random.random() < 0.4)
            bought = clicked and bool(random.random() < (0.4 if side == "new" else 0.1))
            ranks = (1, 3) if side == "new" else (3, 1)
            rows.append((page, "q", f"{side}{position}", position, side, side, *ranks, clicked, bought))
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    del columns["arm" if column == "team" else "team"]
    return pa.table(columns)


def per_page(table: pa.Table, worth: Callable[[dict[str, Any]], float]) -> float:
    return sum(map(worth, table.to_pylist())) / len(set(table["session_id"].to_pylist()))


def value(row: dict[str, Any]) -> float:
    return float(row["clicked"] + 10.0 * row["purchase"])


def test_an_ab_test_on_value() -> None:
    table = log("arm")
    result = analyse(table, event_weights=WEIGHTS)
    assert list(result.measures) == ["value", "value@3", "clicks", "clicks@3", "abandonment"]
    arms = [table.filter(pa.compute.equal(table["arm"], arm)) for arm in ("new", "old")]
    assert (result.first.new, result.first.old) == pytest.approx([per_page(arm, value) for arm in arms])
    assert (result.verdict.decision, analyse(table).verdict.decision) == ("better", "cannot tell")
    assert "click 1 and purchase 10" in " ".join(result.notes)
    top = analyse(table, event_weights={"purchase": 2}, measure="value@1")
    assert top.first.measure == "value@1"
    first = per_page(arms[0], lambda row: 2.0 * row["purchase"] * (row["position"] == 1))
    assert top.first.new == pytest.approx(first)
    with pytest.raises(UsageError, match="value@3 or such"):
        analyse(table, event_weights=WEIGHTS, measure="value@x")
    with pytest.raises(UsageError, match="measure"):
        analyse(table, measure="value")


def test_credit_of_value() -> None:
    table = log("team")
    result = analyse(table, event_weights=WEIGHTS)
    signed = per_page(table, lambda row: value(row) * (1 if row["team"] == "new" else -1))
    assert result.measures["team credit"].difference.estimate == pytest.approx(signed)
    assert result.measures["team credit"].old == pytest.approx(per_page(table, value) / 2)
    counterfactual = per_page(
        table,
        lambda row: (
            value(row) * sum(s / np.log2(1 + r) * (r <= 2) for s, r in ((1, row["new_rank"]), (-1, row["old_rank"])))
        ),
    )
    assert result.measures["counterfactual credit"].difference.estimate == pytest.approx(counterfactual)
    without = table.set_column(table.column_names.index("purchase"), "purchase", pa.array([False] * len(table)))
    repeated = analyse(pa.concat_tables([without, table]), event_weights=WEIGHTS, max_rejected=1)
    for name, measure in result.measures.items():
        assert repeated.measures[name].difference.estimate == pytest.approx(measure.difference.estimate)
    assert (result.verdict.decision, analyse(table).verdict.decision) == ("better", "cannot tell")
