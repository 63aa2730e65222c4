"""What notebooks show of a value: a title, numbers in tables, and figures, in the colours of the page around it.

Figures are images inside the text: their style sheets cannot reach the notebook, nor the notebook's them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cldrank.drawing.templating import render_page

MOST_ROWS = 10  # of a table in a notebook


class ViewTable(NamedTuple):
    """A table of a view; columns in `texts` are set from the left, and wrapped where they say True."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    texts: Mapping[str, bool] = MappingProxyType({})


def notebook_view(
    title: str,
    *,
    about: str = "",
    verdict: tuple[str, str, str] | None = None,
    pictures: Mapping[str, str] | None = None,
    tables: Iterable[ViewTable] = (),
    notes: Iterable[str] = (),
) -> str:
    """A piece of HTML that needs nothing else; all texts are escaped.

    verdict    a word, the reason, and how bad it is: ok, note, warning or blocking
    pictures   SVG by what it shows

    >>> "&lt;b&gt;" in notebook_view("<b>", tables=[ViewTable(("position",), [(1,)])])
    True
    """
    word, reason, tone = verdict or ("", "", "")
    context = {
        "title": title,
        "about": about,
        "verdict": word,
        "reason": reason,
        "tone": tone,
        "pictures": [(_address(svg), alt) for alt, svg in (pictures or {}).items()],
        "tables": [table for table in tables if table.rows],
        "notes": list(notes),
    }
    return render_page("cldrank.drawing", "notebook.html", context)


def left_out(shown: int, whole: int, what: str) -> list[str]:
    """The note that a table is not complete.

    >>> left_out(10, 1200, "positions"), left_out(3, 3, "positions")
    (['10 of 1,200 positions.'], [])
    """
    return [f"{shown:,} of {whole:,} {what}."] if shown < whole else []


def _address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
