"""Documents as HTML: a page that needs no other file, or what a notebook shows of a value."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from markupsafe import Markup

from cldrank._version import __version__
from cldrank.documents.document import Block, Document, Notice, Table, pieces, visible
from cldrank.documents.figure import IN_DARK, THEMES, Figure, legend
from cldrank.documents.svg import draw, picture, series_style, swatch

if TYPE_CHECKING:
    from jinja2 import Environment


def render_html(document: Document) -> str:
    """One page, in light and dark, legible on a phone; every text is escaped."""
    return _templates().get_template("document.html").render(document=document, draw=draw)


def render_notebook(document: Document) -> str:
    """A piece of HTML in the colours of the notebook around it.

    Figures are images inside the text: their style sheets cannot reach the notebook, nor the notebook's them.
    """
    return _templates().get_template("notebook.html").render(document=document, draw=_image, p="cldrank-")


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        loader=PackageLoader("cldrank.documents"),
    )
    environment.filters |= {
        "grouped": _grouped, "kind": lambda value: type(value).__name__, "legend": legend, "pieces": pieces,
        "swatch": swatch,
    }  # fmt: skip
    environment.globals |= {
        "p": "", "version": __version__, "themes": THEMES, "in_dark": IN_DARK, "series_style": series_style(),
    }  # fmt: skip
    return environment


def _grouped(blocks: Sequence[Block]) -> Iterator[tuple[str, list[Block]]]:
    """Blocks that are set together: cards beside each other, and notices in a list."""

    def kind_of_group(block: Block) -> str:
        if isinstance(block, Figure) or (isinstance(block, Table) and block.title):
            return "cards"
        return "notices" if isinstance(block, Notice) and not block.large else "single"

    for kind, together in groupby(blocks, kind_of_group):
        yield kind, list(together)


def _image(figure: Figure) -> Markup:
    address = f"data:image/svg+xml;base64,{b64encode(picture([figure]).encode()).decode()}"
    return Markup('<img src="{}" alt="{}"/>').format(address, visible(figure.title))
