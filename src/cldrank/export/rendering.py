"""What formats write for people to read and complete: texts from templates, and placeholders for features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from cldrank._version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment


NO_MATCH_IS_ZERO = "a feature whose query does not match counts 0"


def intercept_note(engine: str, shift: float) -> str:
    """What an engine's scores lack.

    >>> intercept_note("Solr", -0.25)
    "add -0.25 to Solr's scores to get the ranker's own; the order is the same"
    """
    return f"add {shift:.6g} to {engine}'s scores to get the ranker's own; the order is the same"


def missing_note(learned: bool, file: str) -> str:
    """What a feature whose query does not match is to trees, in an engine that calls it missing.

    learned   whether the trees were trained with missing values
    file      where the queries are
    """
    if learned:
        return "a feature whose query does not match is missing, and goes where each split sends missing values"
    return (
        "a feature whose query does not match would be missing, but the trees were trained without missing values: the "
        f"queries of {file} match every document, with 0 where nothing is found; keep them so if your training data "
        "has 0 there"
    )


def unused_note(names: Sequence[str], used: Sequence[str]) -> list[str]:
    """A note on features that need no definition, where there are any.

    >>> unused_note(["a", "b", "c"], ["b"])
    ['the model uses 1 of 3 features; the others need no definition']
    """
    if len(used) == len(names):
        return []
    return [f"the model uses {len(used)} of {len(names)} features; the others need no definition"]


def rendered(template: str, **context: Any) -> bytes:
    """A file from a template in the folder `templates`; a name that the context lacks is an error."""
    return _environment().get_template(f"{template}.jinja").render(version=__version__, **context).encode()


def readable_json(content: Any) -> bytes:
    """Readable JSON."""
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def placeholder_query(parameter: str, *, zero_elsewhere: bool) -> dict[str, Any]:
    """A query that users complete; its score is the feature.

    zero_elsewhere   a document that does not match still gets a score, 0, instead of none

    >>> placeholder_query("keywords", zero_elsewhere=False)
    {'match': {'TODO': '{{keywords}}'}}
    >>> placeholder_query("keywords", zero_elsewhere=True)
    {'bool': {'should': {'match': {'TODO': '{{keywords}}'}}, 'filter': {'match_all': {}}}}
    """
    query: dict[str, Any] = {"match": {"TODO": f"{{{{{parameter}}}}}"}}
    return {"bool": {"should": query, "filter": {"match_all": {}}}} if zero_elsewhere else query


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        autoescape=False,  # noqa: S701  Markdown and Python, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=PackageLoader("cldrank.export"),
    )
