"""The body of a request, within limits, and what its headers and its address ask for."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from fastapi import Request

from cldrank.arguments import shortened, shortened_text
from cldrank.service.answers import ARROW, JSON
from cldrank.service.json_requests import check_top
from cldrank.service.request_error import RequestError
from cldrank.service.settings import ServiceSettings

_CLIENT_GONE = 499  # nobody reads the answer; the metrics do


async def body_of(request: Request, settings: ServiceSettings) -> bytes:
    """The body; refused where it is too large, arrives too slowly, or is of an unknown type.

    Bytes are counted as they arrive: a chunked body does not say how long it is.
    """
    _check_type(request)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > settings.max_body:
        raise _too_large(settings)
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(settings.body_timeout):
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RequestError("the client has gone.", status=_CLIENT_GONE)
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size > settings.max_body:
                    raise _too_large(settings)
                parts.append(part)
    except TimeoutError:
        raise RequestError(f"the body did not arrive within {settings.body_timeout:g} seconds.", status=408) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() not in (JSON, ARROW):
        raise RequestError(
            f"the Content-Type must be {JSON} or {ARROW}, not {shortened_text(kind) if kind else 'missing'}.",
            status=415,
        )
    if encoding := request.headers.get("content-encoding"):
        raise RequestError(f"the body is encoded as {shortened(encoding)}; send it as it is.", status=415)


def _too_large(settings: ServiceSettings) -> RequestError:
    return RequestError(f"the body is larger than {settings.max_body:,} bytes (--max-body).", status=413)


def answer_type(request: Request) -> str:
    """The type that the client accepts: JSON, unless it names Arrow."""
    accepted = request.headers.get("accept", "")
    kinds = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
    if ARROW in kinds:
        return ARROW
    if not accepted or any(kind in (JSON, "application/*", "*/*") for kind in kinds):
        return JSON
    raise RequestError(f"there are answers in {JSON} and in {ARROW}, none in {shortened(accepted)}.", status=406)


def ranking_parameters(query: bytes) -> tuple[str | None, int | None]:
    """Query id and top from the address, where an Arrow stream has no room for them.

    >>> ranking_parameters(b"top=10&query_id=q1")
    ('q1', 10)
    """
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    found = dict(pairs)
    if len(found) < len(pairs) or found.keys() - {"query_id", "top"}:
        raise RequestError("the address may have the parameters 'query_id' and 'top', each once.")
    top = found.get("top")
    if top is not None and not (top.isascii() and top.isdecimal() and len(top) < 10):
        raise RequestError(f"'top' must be a whole number of at least 1, not {shortened(top)}.")
    check_top(None if top is None else int(top))
    return found.get("query_id"), None if top is None else int(top)
