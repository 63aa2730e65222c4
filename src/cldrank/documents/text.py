"""Documents as text: Markdown with its figures as SVG files beside it, and words and tables for a terminal.

Whatever a text holds, it stays a text: it neither becomes markup nor commands the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from io import StringIO
from itertools import count
from typing import TYPE_CHECKING

from cldrank.documents import document as doc
from cldrank.documents.document import Document, pieces, visible
from cldrank.documents.figure import Figure

if TYPE_CHECKING:
    from jinja2 import Environment
    from rich.console import Console
    from rich.text import Text

_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~$^&!]|(?<!\w)_+|_+(?!\w)")  # an underscore within a word stays an underscore
_COLOURS = {"ok": "green", "note": "blue", "warning": "yellow", "blocking": "red"}
_INDENT = 8  # the width of the longest severity


class Markdown(str):
    """Text that is Markdown already, so that nobody escapes it again."""

    __slots__ = ()


def render_markdown(document: Document, name: str = "figure") -> str:
    """The text; its figures are `name-1.svg`, `name-2.svg` … beside it, drawn by `picture`."""
    names = (f"{name}-{number}.svg" for number in count(1))
    parts = [f"# {escaped(document.title)}", _inline(document.about)]
    parts += [part for block in document.blocks for part in _markdown(block, names)]
    return "\n\n".join(filter(None, [*parts, _inline(document.footer)])) + "\n"


def _markdown(block: doc.Block, names: Iterator[str]) -> list[str]:
    match block:
        case doc.Heading():
            return [f"{'#' * block.level} {escaped(block.text)}"]
        case doc.Paragraph():
            return [_inline(block.text)]
        case doc.Code():
            return [code_block(block.text, block.language)]
        case doc.Notice():
            title = f"**{escaped(block.title)}** " if block.title else ""
            text = f"{title}{_inline(block.text)} {_inline(block.advice)}".rstrip()
            return [f"> **{escaped(block.label or block.severity)}** {text}"]
        case doc.Facts():
            return ["\n".join(f"- {escaped(name)}: {', '.join(map(_markup, values))}" for name, values in block)]
        case doc.Table():
            title = f"**{escaped(block.title)}**" if block.title else ""
            rules = "".join("---|" if left else "---:|" for left in block.of_words)
            lines = [f"| {' | '.join(map(escaped, block.columns))} |", f"|{rules}"]
            lines += [f"| {' | '.join(map(_markup, row))} |" for row in block.texts]
            return [*filter(None, (title, _inline(block.about))), "\n".join(lines)]
        case doc.Details():
            inside = [part for inner in block.blocks for part in _markdown(inner, names)]
            return [f"<details><summary>{escaped(block.title)}</summary>", *inside, "</details>"]
        case _:
            about = [_inline(block.about)] if isinstance(block, Figure) and block.about else []
            return [f"![{escaped(block.title)}]({next(names)})", *about]


def _inline(text: doc.Inline) -> Markdown:
    return Markdown("".join(map(_markup, pieces(text))).strip())


def _markup(text: str) -> str:
    """A piece of text with its look; spaces at its ends stay."""
    match text:
        case doc.Mono():
            return code(text).replace("|", r"\|")
        case doc.Strong():
            return f"**{escaped(text)}**" if text.strip() else ""
        case doc.Link():
            return f"[{escaped(text)}](<{re.sub('[<>]', '', text.address)}>)"
        case _:
            words = escaped(text)
            before, after = (" " if end.isspace() else "" for end in (text[:1], text[-1:]))
            return f"{before}{words}{after}" if words else before


def escaped(text: str) -> Markdown:
    """Text that Markdown leaves as it is, on a single line; invisible characters are written out."""
    flat = visible(" ".join(text.split()))
    return Markdown(_SPECIAL.sub(lambda match: "".join(f"\\{letter}" for letter in match[0]), flat))


def code(text: str) -> Markdown:
    """Text as code on a single line, fenced by more backticks than it has."""
    flat = visible(" ".join(text.split()))
    fence, space = _fence(flat, 1), " " if "`" in flat else ""
    return Markdown(f"{fence}{space}{flat}{space}{fence}")


def code_block(text: str, language: str) -> Markdown:
    """Text as a block of code, fenced by more backticks than it has."""
    return Markdown(f"{_fence(text, 3)}{language}\n{visible(text)}\n{_fence(text, 3)}")


@cache
def markdown_templates(package: str) -> Environment:
    """The Jinja templates of a package for Markdown: every text is escaped unless it is Markdown already."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        autoescape=False,  # noqa: S701  # which is for HTML; `finalize` escapes for Markdown, and HTML with it
        finalize=lambda value: value if isinstance(value, Markdown) else escaped(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=PackageLoader(package),
    )
    templates.filters |= {"code": code, "block": code_block, "cells": _cells, "whole": "{:,}".format}
    return templates


def _cells(row: Sequence[str]) -> Markdown:
    return Markdown(f"| {' | '.join(map(escaped, row))} |")


def _fence(text: str, least: int) -> str:
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


# -- terminal ------------------------------------------------------------------------------------------------------


def render_terminal(document: Document, console: Console) -> None:
    """Print a document without its figures; a paragraph stays a single line, however narrow the terminal."""
    for text in filter(None, (doc.Strong(document.title), document.about)):
        _line(console, text)
    for block in document.blocks:
        _print(block, console)


def terminal_text(document: Document, width: int = 100) -> str:
    """What `render_terminal` prints, without colours."""
    from rich.console import Console

    lines = StringIO()
    render_terminal(document, Console(file=lines, width=width, color_system=None, highlight=False, emoji=False))
    return lines.getvalue().rstrip("\n")


def _print(block: doc.Block, console: Console) -> None:
    match block:
        case doc.Heading():
            _line(console, doc.Strong(f"\n{block.text}"))
        case doc.Paragraph() | doc.Code():
            _line(console, block.text, "dim" if isinstance(block, doc.Paragraph) and block.quiet else "")
        case doc.Notice(large=True):
            _line(console, ["\n", *pieces(block.text)], f"bold {_COLOURS[block.severity]}")
        case doc.Notice():
            _print_notice(block, console)
        case doc.Facts():
            for name, values in block:
                _line(console, [f"{name}: ", *(part for value in values for part in (value, ", "))][:-1])
        case doc.Table():
            for text, style in ((block.title and f"\n{block.title}", "bold"), (block.about, "dim")):
                if text:
                    _line(console, [text], style)
            _print_table(block, console)
        case doc.Details():
            for inner in (doc.Heading(block.title, 3), *block.blocks):
                _print(inner, console)
        case _:  # figures
            pass


def _print_notice(notice: doc.Notice, console: Console) -> None:
    from rich.text import Text

    label = visible(f"{notice.label or notice.severity:>{_INDENT}}  ")
    console.print(Text(label, _COLOURS[notice.severity]), end="", soft_wrap=True)
    _line(console, [f"{notice.title}: " if notice.title else "", *pieces(notice.text)])
    if notice.advice:
        _line(console, [" " * (_INDENT + 2), *pieces(notice.advice)], "dim")


def _print_table(table: doc.Table, console: Console) -> None:
    from rich import box
    from rich.table import Table as RichTable

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for head, left in zip(table.columns, table.of_words, strict=True):
        # folded, not cut: two names must stay different
        drawn.add_column(_styled(head), justify="left" if left else "right", overflow="fold")
    for row in table.texts:
        drawn.add_row(*map(_styled, row))
    console.print(drawn)


def _line(console: Console, text: doc.Inline, style: str = "") -> None:
    from rich.text import Text

    parts = (Text(f"`{visible(part)}`") if isinstance(part, doc.Mono) else _styled(part) for part in pieces(text))
    console.print(Text(style=style).join(parts), soft_wrap=True)


def _styled(text: str) -> Text:
    from rich.text import Text

    if isinstance(text, doc.Link) and text.address != text:
        return Text(visible(f"{text} ({text.address})"))
    return Text(visible(text), "bold" if isinstance(text, doc.Strong) else "")
