"""All formats, found by their files."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module

from cldrank.errors import UsageError, setting
from cldrank.export.format import ExportFormat
from cldrank.wording import listed


@cache
def export_formats() -> Mapping[str, ExportFormat]:
    """All formats by name.

    >>> export_formats()["json"].label
    'JSON'
    """
    import cldrank.export as room

    found: dict[str, ExportFormat] = {}
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        for kind in vars(import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, ExportFormat) and "name" in vars(kind):
                found[kind.name] = kind()
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def format_named(name: str) -> ExportFormat:
    """The format of a name; an unknown one is refused."""
    known = export_formats()
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1)
        guess = f" Did you mean {near[0]}?" if near else ""
        raise UsageError("{} takes {}, not {!r}.{}", setting("to"), listed(known, "or"), name, guess)
    return known[name]
