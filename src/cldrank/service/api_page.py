"""The page at `/docs`: what there is, and requests to try on the ranker in use. It loads nothing from elsewhere."""

from __future__ import annotations

import json
from typing import Any

from cldrank._version import __version__
from cldrank.drawing.templating import render_page
from cldrank.service.answers import JSON


def api_page(described: dict[str, Any], fingerprint: str) -> str:
    """The page for an OpenAPI description."""
    rank = described["paths"]["/rank"]["post"]
    paths = [
        {
            "method": method.upper(),
            "path": path,
            "summary": one["summary"],
            "about": one["description"].replace("`", ""),
        }
        for path, methods in described["paths"].items()
        for method, one in methods.items()
    ]
    examples = [
        {"summary": one["summary"], "body": json.dumps(one["value"], indent=1, ensure_ascii=False)}
        for one in rank["requestBody"]["content"][JSON]["examples"].values()
    ]
    context = {
        "title": "A ranker behind HTTP",
        "summary": described["info"]["description"],
        "fingerprint": fingerprint,
        "paths": paths,
        "examples": examples,
        "version": __version__,
    }
    return render_page("cldrank.service", "api.html", context)
