"""What a notebook shows of a click log: cells, and an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cldrank.drawing.notebook import MOST_ROWS, ViewTable, left_out, notebook_view
from cldrank.drawing.numbers import percent
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.audit.facts import Audit
    from cldrank.clicks.table import ClickTable


def clicks_view(clicks: ClickTable) -> str:
    """Its size, and impressions and clicks by position."""
    shown = int(clicks.shown.sum())
    about = (
        f"{count(clicks.n_queries, 'query', 'queries')}, {count(clicks.candidates.n_rows, 'candidate')}, "
        f"{shown:,} of them shown; {count(clicks.n_cells, 'cell')}"
    )
    places = np.arange(clicks.depth + 1)
    sums = (np.bincount(clicks.position, part, len(places)) for part in (clicks.impressions, clicks.clicks))
    seen = [entry for entry in zip(places, *sums, strict=True) if entry[1]]
    rows = [_by_position(*entry) for entry in seen[:MOST_ROWS]]
    rows.append(_by_position("all", clicks.impressions.sum(), clicks.clicks.sum()))
    head = ("position", "impressions", "clicks", "click-through rate")
    notes = left_out(min(len(seen), MOST_ROWS), len(seen), "positions")
    return notebook_view("ClickTable", about=about, tables=[ViewTable(head, rows)] if seen else (), notes=notes)


def _by_position(place: object, impressions: float, clicks: float) -> tuple[str, str, str, str]:
    return str(place), f"{impressions:,.0f}", f"{clicks:,.0f}", percent(clicks / impressions, 2) if impressions else "–"


def audit_view(audit: Audit) -> str:
    """The verdict, click-through rates by position, and the findings."""
    from cldrank.clicks.audit.audit_page import rate_figure
    from cldrank.drawing.picture import picture

    facts, verdict = audit.facts, audit.verdict
    shown, clicked = count(facts.impressions, "impression"), count(facts.clicks, "click")
    about = f"{shown}, {clicked}, {count(facts.depth, 'position')} deep"
    findings = [(one.severity, one.topic, one.found, one.advice) for one in verdict.findings]
    head = ("severity", "topic", "found", "what to do")
    texts = {"severity": False, "topic": False, "found": True, "what to do": True}
    figure = rate_figure(facts)
    return notebook_view(
        f"Audit of {facts.source}",
        about=about,
        verdict=(verdict.sentence, "", str(verdict.severity)),
        pictures={figure.title: picture([figure])} if facts.curve else {},
        tables=[ViewTable(head, findings, texts)],
    )
