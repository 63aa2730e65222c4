"""The frame of a page that needs nothing else: style and script are part of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from importlib.resources import files


def document(title: str, body: Sequence[str], *, styles: Sequence[str] = (), after: str = "") -> str:
    """The whole page: `body` is HTML, line by line; `styles` come after the common one; `after` follows the content.

    >>> document("a < b", ["<p>Hello</p>"]).splitlines()[-3:]
    ['<body><main>', '<p>Hello</p>', '</main></body></html>']
    """
    sheets = "".join([packaged("cldrank.pages", "base.css"), *styles])
    content = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{sheets}</style></head>\n"
        f"<body><main>\n{content}\n</main>{after}</body></html>\n"
    )


def packaged(package: str, name: str) -> str:
    """The text of a file that lies in a package, such as its own style sheet."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def tiles(values: Mapping[str, str], bad: Collection[str] = ()) -> str:
    """Numbers that say most in a row of tiles; those in `bad` stand out.

    >>> tiles({"failed": "3"}, bad=["failed"])
    '<dl class="tiles"><div class="bad"><dt>failed</dt><dd>3</dd></div></dl>'
    """
    mark = ' class="bad"'
    drawn = "".join(
        f"<div{mark if name in bad else ''}><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in values.items()
    )
    return f'<dl class="tiles">{drawn}</dl>'
