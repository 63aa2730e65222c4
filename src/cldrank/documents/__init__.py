"""Documents of words, tables and figures as values, and what shows them: a terminal, a page, a notebook, Markdown."""

from cldrank.documents.document import (
    Block,
    Code,
    Details,
    Document,
    Facts,
    Heading,
    Link,
    Mono,
    Notice,
    Paragraph,
    Severity,
    Strong,
    Table,
    left_out,
    visible,
)
from cldrank.documents.figure import Axis, Figure, Look, Panels, Point, Series, looks
from cldrank.documents.html import render_html, render_notebook
from cldrank.documents.svg import picture
from cldrank.documents.text import render_markdown, render_terminal, terminal_text

__all__ = [
    "Axis", "Block", "Code", "Details", "Document", "Facts", "Figure", "Heading", "Link", "Look", "Mono",
    "Notice", "Panels", "Paragraph", "Point", "Series", "Severity", "Strong", "Table", "left_out", "looks",
    "picture", "render_html", "render_markdown", "render_notebook", "render_terminal",
    "terminal_text", "visible",
]  # fmt: skip
