"""Formulas as MathML, which browsers draw themselves: no JavaScript, nothing loaded from elsewhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)


def _formula(writer: Any, node: nodes.Element) -> None:
    """Write a formula and skip its text; one that docutils cannot read is a warning, so the build fails."""
    block = isinstance(node, nodes.math_block)
    try:
        made = tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        _LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
        made = f"<code>{writer.encode(node.astext())}</code>"
    writer.body.append(f'<div class="math">{made}</div>\n' if block else made)
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(_formula, None), block_renderers=(_formula, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
