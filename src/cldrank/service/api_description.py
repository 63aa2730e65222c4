"""The description of the API, with examples that the ranker in use can answer, and the page that shows it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cldrank._version import __version__
from cldrank.documents.html import render_page
from cldrank.service.served import ServedRanker

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {JSON: {"schema": _ERROR}}}
    for status, words in {
        400: "The body is not JSON, or not an Arrow stream",
        406: "Neither JSON nor Arrow is accepted",
        408: "The body arrived too slowly",
        413: "The body is too large",
        415: "The body is of an unknown type",
        422: "The request cannot be ranked; the message says where it is wrong",
    }.items()
}


def api_description(app: FastAPI, served: ServedRanker) -> dict[str, Any]:
    """The OpenAPI description, for the ranker in use."""
    whole = get_openapi(
        title=app.title, version=app.version, description=served.description["summary"], routes=app.routes
    )
    (schema,), components = msgspec.json.schema_components(
        [served.reader.body], ref_template="#/components/schemas/{name}"
    )
    binary = {"schema": {"type": "string", "format": "binary"}}
    json_body = {"schema": schema, "examples": rank_examples(served.ranker.feature_names)}
    whole["paths"]["/rank"]["post"]["requestBody"] = {"required": True, "content": {JSON: json_body, ARROW: binary}}
    whole["paths"]["/reload"]["post"]["security"] = [{"token": []}]
    whole["components"] = {
        "schemas": components,
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    return whole


def rank_examples(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Requests that a ranker with these features answers as they are.

    >>> rank_examples(("bm25", "age"))["arrays"]["value"]["features"]
    [[1.0, 0.5], [0.25, 0.75]]
    """
    rows = [
        [1 / (1 + column) for column in range(len(names))],
        [0.25 + 0.5 * (column % 2) for column in range(len(names))],
    ]
    by_name = [
        {"id": f"d{row}", "features": dict(zip(names, values, strict=True))} for row, values in enumerate(rows, 1)
    ]
    return {
        "names": {"summary": "Features by name", "value": {"query_id": "q1", "candidates": by_name, "top": 10}},
        "arrays": {
            "summary": "Features in the ranker's order",
            "value": {"query_id": "q1", "ids": ["d1", "d2"], "features": rows, "top": 10},
        },
        "named_arrays": {
            "summary": "Features in another order",
            "value": {"feature_names": names[::-1], "ids": [1, 2], "features": [row[::-1] for row in rows]},
        },
    }


def api_page(described: dict[str, Any], served: ServedRanker) -> str:
    """The page at `/docs`: paths, and requests to try on the ranker in use. It loads nothing from elsewhere."""
    paths = [
        {"method": method.upper(), "path": path, "summary": told["summary"], "about": told["description"]}
        for path, methods in described["paths"].items()
        for method, told in methods.items()
    ]
    examples = [
        {"summary": example["summary"], "body": json.dumps(example["value"], indent=1, ensure_ascii=False)}
        for example in rank_examples(served.ranker.feature_names).values()
    ]
    context = {
        "title": "A ranker behind HTTP",
        "summary": described["info"]["description"],
        "fingerprint": served.identity["fingerprint"],
        "paths": paths,
        "examples": examples,
        "version": __version__,
    }
    return render_page("cldrank.service", "api.html", context)
