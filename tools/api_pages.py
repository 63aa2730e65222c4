"""The API pages: docstrings, which are plain text, become reStructuredText while Sphinx reads them.

| in a docstring | on the page |
|---|---|
| `name` in backticks | code, with a link where it is public |
| an indented block | as it is, such as an equation |
| lines of a name, three spaces and what it is | a list |
| one of the words `TITLES` in a line of its own | a small heading |
| an example with `>>>` | an example |
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[1] / "docs" / "reference" / "api"
TITLES = ("Parameters", "After a fit")
_SHOWN = re.compile(r"^\.\. auto(?:function|class|exception):: (cldrank[\w.]*)$", re.MULTILINE)
_ROW = re.compile(r"(\S(?:.{0,110}?\S)?) {2,}(\S.*)", re.DOTALL)


def names_on(page: Path) -> list[str]:
    """The names that a page documents."""
    return _SHOWN.findall(page.read_text(encoding="utf-8"))


def with_names_listed(page: str) -> str:
    """A page with a table of the names that it documents, ahead of them."""
    names = "".join(f"   {name}\n" for name in _SHOWN.findall(page))
    return page.replace("```{eval-rst}\n", f"```{{eval-rst}}\n.. autosummary::\n   :nosignatures:\n\n{names}\n", 1)


@cache
def homes() -> Mapping[str, str]:
    """Where what is public is documented, by its short name."""
    return {name.rpartition(".")[2]: name for page in sorted(PAGES.glob("*.md")) for name in names_on(page)}


def found(name: str) -> Any:
    """What a dotted name stands for."""
    room, _, own = name.rpartition(".")
    return getattr(importlib.import_module(room), own)


def as_rst(text: str) -> str:
    r"""A docstring in reStructuredText.

    >>> print(as_rst("Means x_ of *all*.\n\n    x = 1\n\nname   what `it` is,\n       and more"))
    Means x\_ of \*all\*.
    <BLANKLINE>
    ::
    <BLANKLINE>
        x = 1
    <BLANKLINE>
    - ``name``: what ``it`` is, and more
    """
    return "\n\n".join(_block(block) for block in re.split(r"\n\s*\n", text.strip("\n")))


def _block(block: str) -> str:
    if block.startswith(">>>"):
        return block
    if block.startswith("    "):
        return f"::\n\n{block}"
    if block in TITLES:
        return f".. rubric:: {block}"
    if _ROW.match(block.partition("\n")[0]):
        return "\n".join(_rows(block))
    return _text(block)


def _rows(block: str) -> Iterator[str]:
    """The rows of a list; lines that are indented continue the one before."""
    for row in re.split(r"\n(?=\S)", block):
        cells = _ROW.match(row)
        if cells is None:
            yield f"- {_text(' '.join(row.split()))}"
        else:
            yield f"- ``{cells[1]}``: {_text(' '.join(cells[2].split()))}"


def _text(text: str) -> str:
    """Prose: what stands in backticks is code, and so is a word in quotes; nothing else is markup."""
    parts = re.split(r"`([^`]+)`", re.sub(r"""(?<![\w`])(['"])([^'"`\s]+)\1(?![\w`])""", r"`\1\2\1`", text))
    return "".join(
        _code(part) if number % 2 else re.sub(r"([*_|\\])", r"\\\1", part) for number, part in enumerate(parts)
    )


def _code(name: str) -> str:
    home = homes().get(name.removeprefix("cldrank.").rpartition(".")[2])
    known = home is not None and (name == home.rpartition(".")[2] or home.endswith(f".{name}") or name == home)
    return f":py:obj:`{name} <{home}>`" if known else f"``{name}``"


# -- what Sphinx calls ---------------------------------------------------------------------------------------------


def write_docstring(_app: Any, _kind: str, _name: str, _what: Any, _options: Any, lines: list[str]) -> None:
    """Put a docstring into reStructuredText."""
    lines[:] = [*as_rst("\n".join(lines)).split("\n"), ""]


def write_signature(
    _app: Any, kind: str, _name: str, what: Any, _options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature as its source has it; without types where the docstring lists the parameters."""
    from cldrank.parameters import parameters

    if kind == "class" and "\nParameters\n" in (what.__doc__ or ""):
        return f"(*, {', '.join(f'{name}={one.default!r}' for name, one in parameters(what).items())})", None
    if kind == "exception":
        return signature and "", None  # nobody but cldrank makes one; Sphinx takes no answer where it found none
    if signature is None or not callable(what):
        return signature, returned
    written = inspect.signature(what)
    given = [_as_written(one) for one in written.parameters.values()]
    own = given[1:] if kind == "method" and given and given[0].name in ("self", "cls") else given
    answers = kind != "class" and written.return_annotation is not written.empty
    return str(inspect.Signature(own)), repr(_Written(written.return_annotation)) if answers else None


def _as_written(one: inspect.Parameter) -> inspect.Parameter:
    default = one.default if one.default is one.empty or repr(one.default)[:1] != "<" else _Written("...")
    return one.replace(
        annotation=one.empty if one.annotation is one.empty else _Written(one.annotation), default=default
    )


class _Written:
    """A type, or a default, whose repr is what the source has."""

    def __init__(self, what: Any) -> None:
        self.what = getattr(what, "__forward_arg__", what)

    def __repr__(self) -> str:
        return self.what if isinstance(self.what, str) else inspect.formatannotation(self.what)


def find_type(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """A link from a type in a signature to the page of that type; no link where it is nobody's business."""
    if node.get("refdomain") != "py":
        return None
    target = str(node.get("reftarget", ""))
    home = homes().get(target.rpartition(".")[2])
    if home is not None and inspect.isclass(found(home)) and home != target:
        domain = environment.get_domain("py")
        made = domain.resolve_xref(environment, node.get("refdoc"), app.builder, "obj", home, node, content)
        if made is not None:
            return made
    foreign = node.get("reftype") == "class" or target.startswith("typing.")
    return content if foreign else None
