"""Texts inside Markdown: whatever they hold, they stay texts."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~$^&!]|(?<!\w)_+|_+(?!\w)")  # an underscore within a word is one
_HIDDEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


class Markdown(str):
    """Text that is Markdown already, so that nobody escapes it again."""

    __slots__ = ()


def escaped(text: str) -> Markdown:
    r"""Text that Markdown leaves as it is, on one line; what cannot be seen becomes �.

    >>> print(escaped("a|b <c>"))
    a\|b \<c\>
    >>> print(escaped("_a__b_"))
    \_a__b\_
    """
    return Markdown(
        _SPECIAL.sub(lambda found: "".join(f"\\{one}" for one in found[0]), _HIDDEN.sub("�", " ".join(text.split())))
    )


def code(text: str) -> Markdown:
    """Text as code on one line, fenced by more backticks than it has.

    >>> code("a`b")
    '`` a`b ``'
    """
    flat = _HIDDEN.sub("�", " ".join(text.split()))
    fence = "`" * (1 + _longest_run(flat))
    space = " " if "`" in flat else ""
    return Markdown(f"{fence}{space}{flat}{space}{fence}")


def code_block(text: str, language: str) -> Markdown:
    """Text as a block of code, fenced by more backticks than it has."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return Markdown(f"{fence}{language}\n{text}\n{fence}")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
