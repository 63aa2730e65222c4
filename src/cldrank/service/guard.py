"""`RequestGuard`: what holds for every request, whatever its path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from cldrank.service.answers import JSON
from cldrank.service.metrics import ServiceMetrics

_PATHS = ("/rank", "/ranker", "/health", "/ready", "/metrics", "/reload", "/docs", "/openapi.json")
_CLOSE = (b"connection", b"close")
Message = MutableMapping[str, Any]


class RequestGuard:
    """Counts requests by path and status, closes connections whose body was not read, and answers at the very end.

    A client that is answered before its body was read may go on sending for ever; it is not listened to. A request that
    is cancelled, since the service has no more time to stop, is answered by 503.
    """

    def __init__(self, app: Any, metrics: ServiceMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Pass a request on to the app."""
        status, unread = 0, _has_body(scope)

        async def reading() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def answering(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if unread:
                    message["headers"] = [*message["headers"], _CLOSE]
            await send(message)

        try:
            await self._app(scope, reading, answering)
        except asyncio.CancelledError:
            if status:
                raise
            content = orjson.dumps({"error": "the service is stopping."})
            headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(content)), _CLOSE]
            await send({"type": "http.response.start", "status": (status := 503), "headers": headers})
            await send({"type": "http.response.body", "body": content})
        finally:
            path = scope["path"] if scope["path"] in _PATHS else "other"
            self._metrics.answered(path, status or 500)


def _has_body(scope: Message) -> bool:
    """Whether the headers of a request announce a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )
