"""What formats write for people to read and complete: texts from templates, and placeholders for features."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from cldrank._version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment


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
