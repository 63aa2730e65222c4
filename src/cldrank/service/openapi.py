"""The description of the API, with examples that the ranker in use can answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cldrank.service.answers import ARROW, JSON
from cldrank.service.served import ServedRanker

_NUMBER = {"type": ["number", "null"], "description": "null: missing, if the ranker takes missing values"}
_ID = {"type": ["string", "integer"]}
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_TOP = {"type": ["integer", "null"], "minimum": 1, "description": "how many to give back; all by default"}
_QUERY = {"type": ["string", "integer", "null"], "description": "given back as it is"}
_WORDS = {
    400: "The body is not JSON, or not an Arrow stream",
    406: "Neither JSON nor Arrow is accepted",
    408: "The body arrived too slowly",
    413: "The body is too large",
    415: "The body is of an unknown type",
    422: "The request cannot be ranked; the message names candidate and feature",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {JSON: {"schema": _ERROR}}} for status, words in _WORDS.items()
}


def api_description(app: FastAPI, served: ServedRanker) -> dict[str, Any]:
    """The OpenAPI description, for the ranker in use."""
    whole = get_openapi(
        title=app.title, version=app.version, description=served.description["summary"], routes=app.routes
    )
    rank = whole["paths"]["/rank"]["post"]
    rank["requestBody"] = _body(served)
    rank["responses"]["200"] = _answer(served)
    rank["parameters"] = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": "for Arrow streams only"}
        for name, schema in (("query_id", {"type": "string"}), ("top", {"type": "integer", "minimum": 1}))
    ]
    swap = whole["paths"]["/reload"]["post"]
    swap["parameters"] = [{"name": "new_features", "in": "query", "required": False, "schema": {"type": "boolean"}}]
    swap["security"] = [{"token": []}]
    for status, words in ((401, "The token is wrong"), (403, "There is no token"), (409, "The ranker is refused")):
        swap["responses"][str(status)] = {"description": words, "content": {JSON: {"schema": _ERROR}}}
    whole.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
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
    named = list(reversed(names))
    return {
        "names": {"summary": "Features by name", "value": {"query_id": "q1", "candidates": by_name, "top": 10}},
        "arrays": {
            "summary": "Features in the ranker's order",
            "value": {"query_id": "q1", "ids": ["d1", "d2"], "features": rows, "top": 10},
        },
        "named_arrays": {
            "summary": "Features in another order, which is said",
            "value": {"feature_names": named, "ids": [1, 2], "features": [list(reversed(row)) for row in rows]},
        },
    }


def _body(served: ServedRanker) -> dict[str, Any]:
    names = served.layout.names
    features = {
        "type": "object",
        "properties": dict.fromkeys(names, _NUMBER),
        "required": [] if served.layout.takes_missing else list(names),
        "additionalProperties": False,
    }
    candidate = {
        "type": "object",
        "properties": {"id": _ID, "features": features},
        "required": ["id", "features"],
        "additionalProperties": False,
    }
    by_name = {
        "title": "By name",
        "type": "object",
        "properties": {"query_id": _QUERY, "candidates": {"type": "array", "items": candidate}, "top": _TOP},
        "required": ["candidates"],
        "additionalProperties": False,
    }
    arrays = {
        "title": "As arrays",
        "type": "object",
        "properties": {
            "query_id": _QUERY,
            "feature_names": {"type": "array", "items": {"type": "string", "enum": list(names)}},
            "ids": {"type": "array", "items": _ID, "description": "0, 1, 2 … by default"},
            "features": {"type": "array", "items": {"type": "array", "items": _NUMBER}},
            "top": _TOP,
        },
        "required": ["features"],
        "additionalProperties": False,
    }
    return {
        "required": True,
        "content": {
            JSON: {"schema": {"oneOf": [by_name, arrays]}, "examples": rank_examples(names)},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }


def _answer(served: ServedRanker) -> dict[str, Any]:
    row = {"type": "object", "properties": {"id": _ID, "score": {"type": "number"}, "rank": {"type": "integer"}}}
    texts = {"type": "object", "properties": {name: {"type": "string"} for name in served.identity}}
    whole = {
        "type": "object",
        "properties": {"query_id": _QUERY, "ranker": texts, "ranked": {"type": "array", "items": row}},
    }
    return {
        "description": "The candidates in order, best first",
        "content": {JSON: {"schema": whole}, ARROW: {"schema": {"type": "string", "format": "binary"}}},
    }
