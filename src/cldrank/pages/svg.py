"""Pieces of SVG. Colours come from the style sheet of the page, so that they follow light and dark."""

from __future__ import annotations

from html import escape


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "tick") -> str:
    """A text; `y` is its base line.

    >>> text(12, 30, "a < b", "end")
    '<text class="tick" x="12.0" y="30.0" text-anchor="end">a &lt; b</text>'
    """
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line from one point to another.

    >>> line("grid", 50, 12.34, 430, 12.34)
    '<line class="grid" x1="50.0" x2="430.0" y1="12.3" y2="12.3"/>'
    """
    return f'<line class="{kind}" x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}"/>'
