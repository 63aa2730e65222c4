"""A document as a value: a title, and blocks of words, numbers and figures that any renderer can show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cldrank.documents.figure import Figure, Panels

Severity = Literal["ok", "note", "warning", "blocking"]

_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*")
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)


class Strong(str):
    """Text in bold."""


class Mono(str):
    """Text as code: a name, a command, a hash."""


class Link(str):
    """Text that leads to an `address`, relative to the page."""

    address: str

    def __new__(cls, text: str, address: str) -> Link:
        """A text that leads to an address."""
        link = super().__new__(cls, text)
        link.address = address
        return link


Inline = str | Sequence[str]  # a text with `code` and **bold**, or pieces that are taken as they are


@dataclass(frozen=True)
class Heading:
    """A heading of `level` 2 or 3."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Words; a `quiet` paragraph is a remark."""

    text: Inline
    quiet: bool = False


@dataclass(frozen=True)
class Notice:
    """Something to know, with how bad it is and what to do; `large` if a reader must not miss it.

    label     the severity in another word
    """

    severity: Severity
    text: Inline
    title: str = ""
    advice: Inline = ""
    large: bool = False
    label: str = ""


@dataclass(frozen=True)
class Facts:
    """Names with one or more values each; `large` where they are the few numbers that matter most."""

    entries: Mapping[str, str | Sequence[str]]
    large: bool = False

    def __iter__(self) -> Iterator[tuple[str, Sequence[str]]]:
        """The names that have a value, each with all of its values."""
        listed = {name: [value] if isinstance(value, str) else list(value) for name, value in self.entries.items()}
        yield from ((name, values) for name, values in listed.items() if values)


@dataclass(frozen=True)
class Table:
    """Rows of texts; a cell is shown as it is, or bold, as code or as a link if it is `Strong`, `Mono` or `Link`.

    text      columns of words: set from the left, and wrapped
    about     a sentence below the title
    wide      the table takes the whole width even if it has a title
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    about: str = ""
    text: Sequence[str] = ()
    wide: bool = False

    @property
    def texts(self) -> list[list[str]]:
        """The rows with every cell as text."""
        return [[cell if isinstance(cell, str) else str(cell) for cell in row] for row in self.rows]

    @property
    def of_words(self) -> list[bool]:
        """Which columns are set from the left: the first, and those of words."""
        return [not place or name in self.text for place, name in enumerate(self.columns)]


@dataclass(frozen=True)
class Code:
    """Lines to copy, in a `language`."""

    text: str
    language: str


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away at first."""

    title: str
    blocks: Sequence[Block]


Block = Heading | Paragraph | Code | Notice | Facts | Table | Details | Figure | Panels


@dataclass(frozen=True)
class Document:
    """A title, a sentence about it, blocks, and a remark at the end."""

    title: str
    blocks: Sequence[Block] = ()
    about: Inline = ""
    footer: Inline = ""


def pieces(text: Inline) -> list[str]:
    """A text as plain, `Strong`, `Mono` and `Link` pieces."""
    if type(text) is not str:
        return [text] if isinstance(text, str) else list(text)
    parts: list[str] = []
    end = 0
    for match in _INLINE.finditer(text):
        parts += [text[end : match.start()], Mono(match[1]) if match[1] else Strong(match[2])]
        end = match.end()
    return [part for part in (*parts, text[end:]) if part]


def visible(text: str) -> str:
    """Text with characters written out that a reader would not see, or that would command a terminal."""
    return _HIDDEN.sub(lambda match: ascii(match[0])[1:-1], text)


def left_out(shown: int, whole: int, what: str) -> list[Paragraph]:
    """The remark that a table is cut, such as `10 of 1,200 positions.`; empty if it is complete."""
    return [Paragraph(f"{shown:,} of {whole:,} {what}.", quiet=True)] if shown < whole else []
