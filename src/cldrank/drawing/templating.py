"""Pages: templates whose texts are escaped, and which need no other file once they are written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from cldrank._version import __version__
from cldrank.drawing.looks import IN_DARK, THEMES
from cldrank.drawing.numbers import percent

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(package: str, template: str, context: Mapping[str, object]) -> str:
    """A page from a template in the folder `templates` of a package.

    Templates extend `base.html` and import the macros of `parts.html`. Every text is escaped, and a name that the
    context lacks is an error.
    """
    return _environment(package).get_template(template).render(context)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    found = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("cldrank.drawing")]),
    )
    found.filters |= {"marked": marked, "percent": percent, "whole": "{:,}".format}
    found.globals |= {"version": __version__, "themes": THEMES, "in_dark": IN_DARK}
    return found


def marked(text: str) -> Markup:
    """Text with `names` set as code.

    >>> marked("use `a<b`")
    Markup('use <code>a&lt;b</code>')
    """
    parts = text.split("`")
    return Markup("").join(
        escape(part) if index % 2 == 0 else Markup("<code>{}</code>").format(part) for index, part in enumerate(parts)
    )
