"""What a notebook shows of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cldrank.documents import Document, Table, left_out, render_notebook
from cldrank.documents.numbers import percent
from cldrank.wording import count

if TYPE_CHECKING:
    from cldrank.clicks.table import ClickTable

_MOST_ROWS = 10


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
    rows = [_by_position(*entry) for entry in seen[:_MOST_ROWS]]
    rows.append(_by_position("all", clicks.impressions.sum(), clicks.clicks.sum()))
    head = ("position", "impressions", "clicks", "click-through rate")
    notes = left_out(min(len(seen), _MOST_ROWS), len(seen), "positions")
    return render_notebook(Document("ClickTable", [*([Table(head, rows)] if seen else []), *notes], about))


def _by_position(place: object, impressions: float, clicks: float) -> tuple[str, str, str, str]:
    return str(place), f"{impressions:,.0f}", f"{clicks:,.0f}", percent(clicks / impressions, 2) if impressions else "–"
